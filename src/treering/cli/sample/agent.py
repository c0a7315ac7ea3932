"""A process that works like a coding agent: each message is durable before the next one. It never ends by itself.

    python -m treering.cli.sample.agent PLACE SESSION [single-writer] [NAMESPACE] ...

It prints the id of every node, once the append that recorded it has returned, and at the end of a turn its number. The
last turn's tool writes without end: the parent process kills it there, in the middle of the turn.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from itertools import count

import treering
from treering.cli.exits import line_of
from treering.cli.sample import Step, Turn, load_story
from treering.errors import TreeringError


def main(place: str, name: str, single_writer: str = "", *namespaces: str) -> None:
    """Play the story into a new session."""
    story = load_story()
    store = treering.open(place, single_writer=bool(single_writer))
    for each in namespaces:
        store = store.namespace(each)
    with store.session(name, title=story.title, project=story.project, cwd=".") as session:
        for number, turn in enumerate(story.turns, 1):
            _play(session, number, turn)


def _play(session: treering.Session, number: int, turn: Turn) -> None:
    _acknowledge(session.append(treering.user(turn.user)).node)
    for place, step in enumerate(turn.steps):
        call = f"call-{number}-{place}"
        _acknowledge(session.append(step.call(call)).node)
        if step.output:
            _write_without_end(session, step, call)
        _acknowledge(session.append(step.answer(call)).node)
    done = session.commit([treering.assistant(turn.answer)], state=turn.state, step=number, label=turn.label)
    _acknowledge(*done.nodes)
    print(f"turn {number}", flush=True)


def _write_without_end(session: treering.Session, step: Step, call: str) -> None:
    for number in count(90_001):
        old = Decimal(number * 7 % 5000) / 1000
        line = step.output.format(number=number, old=old, new=round(old, 2))
        _acknowledge(session.append(step.answer(call, line)).node)


def _acknowledge(*nodes: str) -> None:
    for node in nodes:
        print(f"node {node}", flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except TreeringError as error:
        sys.exit(line_of(error))
