"""A session as plain lists and dicts, to compare the real one with; and a driver of both by the same operations.

Nodes are known by their text, which is never used twice. The oracle knows nothing of journals, records or requests.
"""

from __future__ import annotations

import copy
import random
from typing import Any, NamedTuple, TypeAlias

import msgspec
from tests.session.backends import Backend

from treering.api.session import Session
from treering.api.view import View
from treering.format.record import decode_record

Operation: TypeAlias = tuple[str, dict[str, Any]]
"""A verb of `Oracle` and its arguments, all JSON."""


class Made(NamedTuple):
    """A checkpoint."""

    head: str
    node: str | None
    context: list[str]
    state: dict[str, object]
    label: str | None


class Oracle:
    """What a session should be like."""

    def __init__(self) -> None:
        self.parents: dict[str, str | None] = {}
        self.heads: dict[str, str | None] = {}
        self.head = "main"
        self.context: list[str] = []
        self.state: dict[str, object] = {}
        self.left: dict[str, tuple[list[str], dict[str, object]]] = {}
        """Context and state of each head when it was left; it has them again when somebody comes back to it."""
        self.made: list[Made] = []

    @property
    def node(self) -> str | None:
        """Where the session stands."""
        return self.heads.get(self.head)

    def copy(self) -> Oracle:
        """One that goes on by itself."""
        return copy.deepcopy(self)

    def path(self, node: str | None) -> list[str]:
        """Nodes from a root down to `node`."""
        found: list[str] = []
        while node is not None:
            found.append(node)
            node = self.parents[node]
        return found[::-1]

    # operations

    def append(self, texts: list[str]) -> None:
        """Messages one behind the other."""
        for text in texts:
            self.parents[text] = self.node
            self.heads[self.head] = text
        self.context = [*self.context, *texts]

    def commit(self, texts: list[str], state: dict[str, object], label: str | None, window: int | None) -> None:
        """Messages and a checkpoint; `window` keeps only the last so many messages in front of them."""
        if window is not None:
            self.context = self.context[-window:] if window else []
        self.append(texts)
        self.state = {**self.state, **state}
        if texts or state or label or window is not None:
            self._keep(label)

    def compact(self, text: str, kept: str | None) -> None:
        """A summary in place of the context up to `kept`, which is in the context."""
        rest = self.context[self.context.index(kept) :] if kept else []
        self.append([text])
        self.context = [text, *rest]
        self._keep()

    def checkout(self, node: str | None) -> None:
        """Go to a node."""
        if node == self.node and self.heads:
            context, state = self.context, self.state
        elif node is None:
            context, state = [], {}
        else:
            context, state = self._at(node, self.head)
        self._stand(self.head, node, context, state)

    def switch(self, head: str) -> None:
        """Go on with another head."""
        context, state = (self.context, self.state) if head == self.head else self.left[head]
        self._stand(head, self.heads[head], context, state)

    def branch(self, head: str, at: str | None) -> None:
        """Begin a head, with the state that went with its node."""
        node = self.node if at is None else at
        if node == self.node:
            context, state = self.context, self.state
        else:
            context, state = self._at(node, head) if node else ([], {})
        self._stand(head, node, context, state)

    def rewind(self, number: int) -> None:
        """Go back to a checkpoint, by its number."""
        made = self.made[number]
        self._stand(self.head, made.node, made.context, made.state)

    def seal(self) -> None:
        """Changes nothing that can be seen."""

    def optimize(self) -> None:
        """Changes nothing that can be seen."""

    def reopen(self) -> None:
        """Changes nothing that can be seen."""

    # how

    def _keep(self, label: str | None = None) -> None:
        self.made.append(Made(self.head, self.node, list(self.context), dict(self.state), label))

    def _stand(self, head: str, node: str | None, context: list[str], state: dict[str, object]) -> None:
        self.left[self.head] = list(self.context), dict(self.state)
        self.head = head
        self.heads[head] = node
        self.context, self.state = list(context), dict(state)
        self._keep()

    def _at(self, node: str, head: str) -> tuple[list[str], dict[str, object]]:
        """Context and state at a node: those of its checkpoint, and the messages after that."""
        path = self.path(node)
        if self.heads.get(head, "") == node and (own := self._newest(lambda m: m.head == head and _on(m, path))):
            found: Made | None = own
        else:
            found = None
            for place in [*path[::-1], None]:
                found = self._newest(lambda m, at=place: m.head == head and m.node == at) or self._newest(
                    lambda m, at=place: m.node == at
                )
                if found:
                    break
        if found is None:
            return path, {}
        rest = path if found.node is None else path[path.index(found.node) + 1 :]
        return [*found.context, *rest], found.state

    def _newest(self, wanted: Any) -> Made | None:
        return next((made for made in reversed(self.made) if wanted(made)), None)


def _on(made: Made, path: list[str]) -> bool:
    return made.node is None or made.node in path


# the real one


def play(session: Session, names: dict[str, str], operation: Operation) -> None:
    """Do one operation on a real session; `names` gives ids by text and learns new ones."""
    verb, given = operation
    match verb:
        case "append":
            before = session.node
            session.append(*given["texts"])
            _learn(session, names, given["texts"], before)
        case "commit":
            _commit(session, names, **given)
        case "compact":
            names[given["text"]] = session.compact(given["text"], kept=names.get(given["kept"])).node
        case "checkout":
            session.checkout(names.get(given["node"]))
        case "branch":
            session.branch(given["head"], node=names.get(given["at"]))
        case "rewind":
            session.rewind(session.checkpoints()[given["number"]].id)
        case "optimize":
            session.optimize(everything=True)
        case _:
            getattr(session, verb)(**given)


def _commit(session: Session, names: dict[str, str], **given: Any) -> None:
    window = given["window"]
    shown: dict[str, Any] = {} if window is None else {"context": session.context[-window:] if window else []}
    done = session.commit(given["texts"], state=given["state"], label=given["label"], **shown)
    names.update(zip(given["texts"], done.nodes, strict=True))


def _learn(session: Session, names: dict[str, str], texts: list[str], before: str | None) -> None:
    path = session.path()
    new = path[path.index(before) + 1 :] if before else path
    names.update(zip(texts, new, strict=True))


def names_of(reader: Session | View) -> dict[str, str]:
    """Ids of all nodes by their texts, from the records themselves; none of a session that is not there yet."""
    if not reader.heads:
        return {}
    records = [decode_record(line) for line in reader.lines()]
    bodies = {record.id: msgspec.json.decode(record.body) for record in records if record.type == "node"}
    return {body.get("content") or body.get("summary"): node for node, body in bodies.items()}


def describe(reader: Session | View) -> tuple[object, ...]:
    """What can be seen of a session, by texts."""
    texts = {node: text for text, node in names_of(reader).items()} | {None: None}
    rows = reader.nodes()
    return (
        {texts[row.id]: texts[row.parent] for row in rows},
        {name: texts[node] for name, node in reader.heads.items()},
        reader.head,
        [texts[item.node] for item in reader.context],
        reader.state,
        len(reader.checkpoints()),
        [entry.label for entry in reader.checkpoints() if entry.label],
        {texts[node] for node in reader.leaves()},
    )


def expect(oracle: Oracle) -> tuple[object, ...]:
    """The same of an oracle."""
    inner = set(oracle.parents.values())
    return (
        oracle.parents,
        oracle.heads,
        oracle.head,
        oracle.context,
        oracle.state,
        len(oracle.made),
        [made.label for made in oracle.made if made.label],
        {text for text in oracle.parents if text not in inner},
    )


# after a process was killed, or the power cut


def stage_of(backend: Backend, possible: list[Oracle]) -> Oracle:
    """Which of some states session `s` is in; any other one fails.

    Args:
        backend: Where.
        possible: Everything that was acknowledged, then that with what may have happened besides.
    """
    store = backend.store()
    if not store.sessions().rows:
        assert not possible[0].parents, "the session is gone"
        return possible[0]
    found = describe(store.view("s"))
    expected = [expect(each) for each in possible]
    assert found in expected, "not what was acknowledged"
    return possible[expected.index(found)]


def go_on(backend: Backend, oracle: Oracle) -> Oracle:
    """A later writer appends, seals and merges; nothing is missing afterwards, and all of it is sound."""
    oracle = oracle.copy()
    unique = f"later {len(oracle.parents)}"
    with backend.store().session("s") as session:
        for text in (unique, f"{unique} still"):
            session.append(text)
            oracle.append([text])
            session.seal()
        session.optimize(everything=True)
    assert describe(backend.store().view("s")) == expect(oracle)
    assert [each for each in backend.store().verify("s") if each.severity == "damage"] == []
    return oracle


# chance


def draw(rng: random.Random, oracle: Oracle, unique: str) -> Operation:
    """Any operation that is possible now; `unique` is a text not used before."""
    roll = rng.random()
    texts = [f"{unique}.{number} {'x' * rng.choice([0, 50, 3000])}" for number in range(rng.choice([1, 1, 2, 5]))]
    if roll < 0.35 or (roll >= 0.6 and not oracle.parents):
        return "append", {"texts": texts}
    if roll < 0.6:
        state = {f"k{rng.randrange(4)}": rng.choice([unique, len(unique), None, [unique]])}
        window = rng.choice([None, None, None, 0, 3])
        texts = texts[: rng.choice([0, 1, 2])]
        return "commit", {"texts": texts, "state": state, "label": rng.choice([None, unique]), "window": window}
    if roll < 0.65:
        kept = rng.choice([None, *[text for text in oracle.context if not text.startswith("summary")]])
        return "compact", {"text": f"summary {unique}", "kept": kept}
    if roll < 0.8:
        return rng.choice(["seal", "optimize"]), {}
    if roll < 0.85:
        return "checkout", {"node": rng.choice([None, *oracle.parents])}
    if roll < 0.9:
        return "switch", {"head": rng.choice(list(oracle.heads))}
    if roll < 0.93 or not oracle.made:
        return "branch", {"head": f"branch {unique}", "at": rng.choice([None, *oracle.parents])}
    return "rewind", {"number": rng.randrange(len(oracle.made))}
