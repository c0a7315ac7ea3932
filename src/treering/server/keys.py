"""The key of a session in URLs: its namespace and name as one segment, which needs no escape there.

Letters, digits, `-`, `_` and inner `.` stand for themselves, every other byte of UTF-8 is `=` and two hex digits, and
`~` parts namespaces and name. No key holds a slash or begins with a dot, so none leaves its place in a URL; and none is
ever a path of a file: the store makes keys of its own from names.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote

from treering.errors import NotFoundError
from treering.kinds import Kind


def key_of(namespace: Sequence[str], session: str) -> str:
    """Return the key of a session.

    Args:
        namespace: Names of namespaces, from the store that is served.
        session: Its name.
    """
    return "~".join(map(_quoted, (*namespace, session)))


def named_by(key: str) -> tuple[tuple[str, ...], str]:
    """Return the namespaces and the name that a key stands for.

    Raises:
        NotFoundError: It is no key that `key_of` returns.
    """
    *namespace, session = (unquote(part.replace("=", "%"), errors="surrogatepass") for part in key.split("~"))
    if not session or not all(namespace) or key_of(namespace, session) != key:
        raise NotFoundError(f"no session has such a key. key={key!r}", kind=Kind.SESSION)
    return tuple(namespace), session


def _quoted(name: str) -> str:
    text = quote(name, safe="", errors="surrogatepass").replace("%", "=").replace("~", "=7E")
    return f"=2E{text[1:]}" if text.startswith(".") else text
