"""Every decoder on its seeds, on what was kept, and on a few hundred changed inputs. `make fuzz` tries very many."""

from __future__ import annotations

import random

import pytest
from tests.fuzz.changes import changed
from tests.fuzz.decoders import BOMB, DECODERS, DEEP
from tests.fuzz.limits import CORPUS, broken_promise, kept

INPUTS = 150


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_keep_their_promise(name: str) -> None:
    """They return or raise their typed errors, in bounded memory and steps, whatever they read."""
    decoder = DECODERS[name]
    seeds = decoder.seeds() + kept(name)
    rng = random.Random(name)
    for data in [*seeds, b"", BOMB, DEEP[:20_000]]:
        assert broken_promise(decoder, data, measured=True) == ""
    for number in range(INPUTS):
        data = changed(rng, seeds)
        assert broken_promise(decoder, data) == "", (number, data[:200])


@pytest.mark.parametrize("name", DECODERS)
def test_seeds_are_read(name: str) -> None:
    """At least one seed of each decoder is sound, so that its changes get somewhere."""
    decoder = DECODERS[name]
    read = []
    for data in decoder.seeds():
        try:
            read.append(decoder.read(decoder.seal(data)))
        except decoder.raises:
            continue
    assert read


def test_what_was_kept_belongs_to_a_decoder() -> None:
    """No folder of the corpus is without a decoder that reads it."""
    assert {path.name for path in CORPUS.iterdir()} <= {name.replace(" ", "-") for name in DECODERS}
