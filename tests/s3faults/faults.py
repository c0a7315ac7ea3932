"""What can go wrong with a request to S3, and plans that let it."""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.gateway import Act, Seen
from tests.servers import S3Server

LAYER = "s3 requests"
READ_SECONDS = 0.2  # until an answer is given up; as short as a busy machine allows

ACTS: dict[str, Act] = {
    "request lost, connection broken": "drop",
    "request lost, no answer": "hang",
    "reply lost, connection broken": "lose",
    "reply too late": "mute",
    "request takes effect later": "late",
    "500 InternalError": 500,
    "500 InternalError, but done": "fail",
    "503 SlowDown": 503,
    "409 ConditionalRequestConflict": 409,
    "body cut short": "cut",
    "half a body, said to be whole": "short",
}
"""By their names in the table of faults."""
NAMES = {act: name for name, act in ACTS.items()}
TAKES_EFFECT = {"lose", "mute", "fail", "cut", "short"}
"""Whoever sends again meets what was already done."""
SLOW = {"hang", "mute"}
"""A client waits until its patience is over."""


def impatient_options(server: S3Server) -> dict[str, Any]:
    """Options of a client that soon gives up waiting for an answer."""
    return {**server.storage_options, "config_kwargs": {"read_timeout": READ_SECONDS}}


class Rule(NamedTuple):
    """Which requests a fault is for."""

    act: Act
    method: str = ""
    """Any, if empty."""
    key: str = ""
    """A pattern found somewhere in the path."""
    after: int = 0
    """So many that fit are let through before."""
    times: int = 1
    """Then so many meet the fault."""


class Rules:
    """A plan: each request meets the first rule that it fits and that is not used up."""

    def __init__(self, *rules: Rule) -> None:
        self._left = list(rules)
        self._lock = threading.Lock()
        self.met = 0

    def __call__(self, seen: Seen) -> Act:
        with self._lock:
            for at, rule in enumerate(self._left):
                if rule.times and rule.method in ("", seen.method) and re.search(rule.key, seen.path):
                    if rule.after:
                        self._left[at] = rule._replace(after=rule.after - 1)
                        continue
                    self._left[at] = rule._replace(times=rule.times - 1)
                    self.met += 1
                    return rule.act
        return "pass"


class Chance:
    """A plan: a share of the requests meets a fault, and chance says which.

    Args:
        seed: The same numbers are drawn for the same seed; which request gets which is up to the threads.
        rate: From 0 to 1.
        weights: How often each act is drawn.
    """

    def __init__(self, seed: int, rate: float, weights: Mapping[Act, int]) -> None:
        self._rng = random.Random(seed)
        self._rate = rate
        self._acts, self._weights = list(weights), list(weights.values())
        self._lock = threading.Lock()
        self.met: Counter[str] = Counter()
        """How often each fault was drawn, by its name."""

    def __call__(self, seen: Seen) -> Act:
        with self._lock:
            if self._rng.random() >= self._rate:
                return "pass"
            (act,) = self._rng.choices(self._acts, self._weights)
            self.met[NAMES[act]] += 1
            return act

    def lands(self) -> bool:
        """Whether something late takes effect now."""
        with self._lock:
            return self._rng.random() < 0.5
