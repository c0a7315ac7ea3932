"""The changes that `browse` can make: each opens the session, changes it, and returns a sentence about the change."""

from __future__ import annotations

from treering.api.store import Store
from treering.cli.text import short_id


def label(store: Store, session: str, node: str, text: str) -> str:
    """Label a node; an empty text removes its label."""
    with store.session(session, create=False) as opened:
        opened.label(node, text or None)
    return f"labelled {short_id(node)}: {text}" if text else f"removed the label of {short_id(node)}"


def branch(store: Store, session: str, node: str, name: str) -> str:
    """Make a branch at a node, and continue the session there."""
    with store.session(session, create=False) as opened:
        before = opened.head
        opened.branch(name, node=node)
    return f"branch {name!r} begins at {short_id(node)}, and the session goes on there; {before!r} stays where it was"


def rewind(store: Store, session: str, node: str) -> str:
    """Go back to a node, with the state and context at that node."""
    with store.session(session, create=False) as opened:
        opened.checkout(node)
        head = opened.head
    return f"{head!r} stands at {short_id(node)}; what came after it stays as a branch"


def switch(store: Store, session: str, head: str) -> str:
    """Continue a session at another head."""
    with store.session(session, create=False) as opened:
        opened.switch(head)
    return f"the session goes on at {head!r}"


def fork(store: Store, session: str, node: str, name: str) -> str:
    """Make a new session from the path to a node."""
    with store.session(session, create=False) as opened:
        opened.fork(name, node=node)
    return f"session {name!r} has the path to {short_id(node)}; this one stays as it was"


def retitle(store: Store, session: str, title: str) -> str:
    """Set the title of a session; an empty title removes it."""
    with store.session(session, create=False) as opened:
        opened.set_title(title)
    return f"named {session}: {title}" if title else f"removed the title of {session}"
