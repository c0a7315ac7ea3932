"""The key of a session in URLs: its namespace and name as one path segment, which needs no escaping.

Letters, digits, `-`, `_` and inner `.` stand for themselves, every other byte of UTF-8 is `=` and two hex digits, and
`~` separates namespaces and name. No key contains a slash or begins with a dot, so it always stays one path segment. A
key is never used as a file path: the store makes its own keys from names.
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
    """Return the namespaces and the name in a key.

    Raises:
        NotFoundError: It is not a key that `key_of` returns.
    """
    try:
        *namespace, session = (unquote(part.replace("=", "%"), errors="surrogatepass") for part in key.split("~"))
    except UnicodeDecodeError:
        raise _unknown(key) from None
    if not session or not all(namespace) or key_of(namespace, session) != key:
        raise _unknown(key)
    return tuple(namespace), session


def _unknown(key: str) -> NotFoundError:
    return NotFoundError(f"no session has such a key. key={key!r}", kind=Kind.SESSION)


def _quoted(name: str) -> str:
    text = quote(name, safe="", errors="surrogatepass").replace("%", "=").replace("~", "=7E")
    return f"=2E{text[1:]}" if text.startswith(".") else text
