"""Sessions in which everything that changes branches, contexts and states happened, in an order of chance."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from random import Random

from tests.viewer.sample import png

import treering
from treering import Session

IMAGE = "data:image/png;base64," + b64encode(png() + bytes(20_000)).decode()
"""Large enough to be an object of its own in the store."""


def eventful(store: treering.Store, seed: int, steps: int = 90) -> treering.View:
    """Record such a session, and return a view of it."""
    chance = Random(seed)
    with store.session("s", title=f"by chance {seed}") as session:
        session.append(treering.user("begin"))
        for step in range(steps):
            chance.choice(ACTIONS)(session, step, chance)
        if len(session.checkpoints()) > 6:
            session.prune(treering.KeepCheckpoints(last=5))
    return store.view("s")


def some_node(session: Session, chance: Random) -> str:
    """A node above the end."""
    return chance.choice(session.path())


def _branch(session: Session, step: int, chance: Random) -> None:
    session.branch(f"head-{step}", node=some_node(session, chance))
    session.append(treering.user(f"aside {step}"))


def _switch(session: Session, step: int, chance: Random) -> None:
    session.switch(chance.choice([*session.heads]))


def _compact(session: Session, step: int, chance: Random) -> None:
    session.compact(f"summary {step}", kept=chance.choice([some_node(session, chance), None]))


def _amend(session: Session, step: int, chance: Random) -> None:
    session.amend(some_node(session, chance), {"role": "user", "content": f"amended at {step}"})


def _retract(session: Session, step: int, chance: Random) -> None:
    session.retract(some_node(session, chance))


def _label(session: Session, step: int, chance: Random) -> None:
    names = [some_node(session, chance), *[each.id for each in session.checkpoints()]]
    session.label(chance.choice(names), f"label {step}")


def _rewind(session: Session, step: int, chance: Random) -> None:
    if found := session.checkpoints():
        session.rewind(chance.choice(found).id)


def _set_model(session: Session, step: int, chance: Random) -> None:
    session.set_model(f"model-{step}", provider="someone")


def _custom(session: Session, step: int, chance: Random) -> None:
    session.append(treering.custom_message("mine", {"text": f"custom {step}"}))


def _picture(session: Session, step: int, chance: Random) -> None:
    session.append(treering.user([{"type": "image_url", "image_url": {"url": IMAGE}}]))
    session.record_usage(input=step, output=1, target=session.node)


def _summary(session: Session, step: int, chance: Random) -> None:
    session.append(treering.branch_summary(f"what was there {step}", source=some_node(session, chance)))


def _checkout(session: Session, step: int, chance: Random) -> None:
    session.checkout(some_node(session, chance))


def _commit(session: Session, step: int, chance: Random) -> None:
    log = [f"entry {each} äöü" for each in range(step)]
    gone = f"only-{(step + 3) % 7}"
    session.commit(
        [treering.assistant(f"done {step}")],
        state={"step": step, "log": log, f"only-{step % 7}": {"at": step}},
        drop=[gone] if gone in session.state else [],
    )


ACTIONS: list[Callable[[Session, int, Random], None]] = [
    _branch, _switch, _compact, _amend, _retract, _label, _rewind, _set_model, _custom, _picture, _summary, _checkout,
    _commit, _commit, _commit, _commit,
]  # fmt: skip
