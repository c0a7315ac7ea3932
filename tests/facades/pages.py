"""The modules of `treering.api` that are written by a program, and what each is written from."""

from __future__ import annotations

from tests.facades.method import Method
from tests.facades.page import Page
from tests.facades.sides import AWAITED, BLOCKING, SESSION, VIEW, Side
from tests.facades.source import source_of

STORE = source_of("treering.api.store_body")
PLACE = source_of("treering.store.place")
BASES = {BLOCKING: ("treering.api.blocking", "Blocking"), AWAITED: ("treering.api.awaiting", "Awaiting")}
"""What is written by hand: how a protocol is run, and what a handle does when it is closed."""
MODULES = {BLOCKING: "", AWAITED: "async_"}
"""In front of the names of modules."""

READING = {
    "at": "verbs.past.at",
    "history": "verbs.reading.history",
    "get": "verbs.reading.get",
    "each_node": "verbs.reading.each_node",
    "blob": "verbs.reading.blob",
    "original": "verbs.reading.original",
    "path": "verbs.reading.path",
    "children": "verbs.reading.children",
    "siblings": "verbs.reading.siblings",
    "newest_leaf": "verbs.reading.newest_leaf",
    "leaves": "verbs.reading.leaves",
    "tree": "verbs.reading.tree",
    "nodes": "verbs.reading.nodes",
    "problems": "verbs.reading.problems",
    "labels": "verbs.reading.labels",
    "checkpoints": "verbs.reading.checkpoints",
    "checkpoint": "verbs.reading.checkpoint",
    "checkpoints_at": "verbs.reading.checkpoints_at",
    "context_at": "verbs.reading.context_at",
    "diff": "verbs.comparing.diff",
    "notes": "verbs.reading.notes",
    "extensions": "verbs.reading.extensions",
    "open_calls": "verbs.open_calls.open_calls",
    "unresolved_effects": "verbs.effects.unresolved_effects",
    "find_effect": "verbs.effects.find_effect",
    "last_compaction": "verbs.conversation.last_compaction",
    "stored": "verbs.reading.stored",
    "lines": "verbs.reading.lines",
    "events": "verbs.following.events",
    "follow": "verbs.following.follow",
    "open_streams": "verbs.streaming.open_streams",
    "follow_stream": "verbs.streaming.follow_stream",
}
"""Methods of sessions and views, and the protocols that they perform."""
WRITING = {
    "append": "verbs.conversation.append",
    "commit": "verbs.conversation.commit",
    "flush": "session_body.flush",
    "discard": "session_body.discard",
    "keep_stream": "verbs.streaming.keep_stream",
    "discard_stream": "verbs.streaming.discard_stream",
    "compact": "verbs.conversation.compact",
    "close_open_calls": "verbs.open_calls.close_open_calls",
    "effect": "verbs.effects.effect",
    "describe_effect": "verbs.effects.describe_effect",
    "end_effect": "verbs.effects.end_effect",
    "set_model": "verbs.conversation.set_model",
    "set_thinking": "verbs.conversation.set_thinking",
    "set_mode": "verbs.conversation.set_mode",
    "set_title": "verbs.notes.set_title",
    "set_status": "verbs.notes.set_status",
    "move": "verbs.notes.move",
    "label": "verbs.notes.label",
    "note": "verbs.notes.note",
    "record_usage": "verbs.notes.record_usage",
    "record_system": "verbs.notes.record_system",
    "record_extension": "verbs.notes.record_extension",
    "amend": "verbs.edits.amend",
    "retract": "verbs.edits.retract",
    "unretract": "verbs.edits.unretract",
    "checkout": "verbs.navigation.checkout",
    "switch": "verbs.navigation.switch",
    "branch": "verbs.navigation.branch",
    "drop_head": "verbs.navigation.drop_head",
    "rewind": "verbs.navigation.rewind",
    "fork": "verbs.forking.fork",
    "prune": "verbs.pruning.prune",
    "erase": "session_body.erase",
    "refresh": "writer.Writer.refresh",
    "renew": "verbs.leasing.renew",
    "seal": "verbs.conversation.seal",
    "optimize": "verbs.conversation.optimize",
}
"""Methods that only sessions have."""
LOOKING = {"refresh": "reader.Reader.refresh"}
"""Methods that views have in a way of their own."""


def every_page() -> list[Page]:
    """All of them."""
    return [page(side) for side in (BLOCKING, AWAITED) for page in (view_page, session_page, store_page)]


def store_page(side: Side) -> Page:
    """Stores, and the function that opens one."""
    store = side.seen("Place")
    page, base = _page(side, "store", f"`{store}`: sessions in a folder or a bucket", "Store")
    page.use(_module(side, "session"), side.seen(SESSION))
    page.use(_module(side, "view"), side.seen(VIEW))
    if side is AWAITED:
        page.use(BASES[side][0], "AsyncOpening")
    methods = [Method(each.name, STORE, each) for each in STORE.methods("StoreBody")]
    page.add_class(f"{store}({base})", STORE.docstring(STORE.class_named("StoreBody")), methods)
    page.use(PLACE.module, "open_place")
    opener = "open" if side is BLOCKING else "aopen"
    page.add_function(Method(opener, PLACE, PLACE.function("open_place"), bound=False))
    return page


def view_page(side: Side) -> Page:
    """Views, and what sessions have in common with them."""
    page, base = _page(side, "view", f"`{side.seen(VIEW)}`: one session to read", "Session")
    page.use("typing", "TypeVar")
    page.use("treering.session.reader", "Readable", "Reader")
    page.add_line('R = TypeVar("R", bound=Readable)')
    page.add_class(f"{side.prefix}Reading({base}[R])", _READING, _performed(page, READING))
    page.add_class(f"{side.seen(VIEW)}({side.prefix}Reading[Reader])", _VIEW, _performed(page, LOOKING))
    return page


def session_page(side: Side) -> Page:
    """Sessions."""
    page, base = _page(side, "session", f"`{side.seen(SESSION)}`: one session to record in", "Writing")
    reading = f"{side.prefix}Reading"
    page.use(_module(side, "view"), reading)
    page.use("treering.session.writer", "Writer")
    page.add_class(f"{side.seen(SESSION)}({reading}[Writer], {base})", _SESSION, _performed(page, WRITING))
    return page


def _page(side: Side, name: str, summary: str, base: str) -> tuple[Page, str]:
    """An empty page, and the class that is written by hand for what is on it."""
    page = Page(f"{MODULES[side]}{name}.py", f"{summary}, for {side.kind} code.", side)
    module, prefix = BASES[side]
    page.use(module, f"{prefix}{base}")
    return page, f"{prefix}{base}"


def _module(side: Side, name: str) -> str:
    return f"treering.api.{MODULES[side]}{name}"


_FOLDERS = {"session_body": "treering.api", "verbs": "treering.session.verbs"}
"""Where what a table names is, if it is none of the parts of a session."""


def _performed(page: Page, table: dict[str, str]) -> list[Method]:
    """The methods of a table."""
    methods: list[Method] = []
    for name, verb in table.items():
        folder, path = _FOLDERS.get(verb.partition(".")[0], "treering.session"), verb
        if folder == "treering.session.verbs":
            page.use("treering.session", "verbs")  # which imports its modules when they are used
            path = verb.removeprefix("verbs.")
        module, _, function = path.partition(".")
        source = source_of(f"{folder}.{module}")
        bound = "." in function  # it is a method of one of the parts
        if folder != "treering.session.verbs":
            page.use(*((source.module, function.partition(".")[0]) if bound else (folder, module)))
        methods.append(Method(name, source, source.function(function), function if bound else verb))
    return methods


_READING = '"""The methods that sessions and views have in common."""'
_VIEW = '"""A session for reading only, as of the last `refresh`; no method writes."""'
_SESSION = '''"""A session to record in. Use it as a context manager, or call `close`.

A session is used by one conversation; its methods may be called from several threads or tasks, one after the other.
"""'''
