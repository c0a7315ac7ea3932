"""Translate a user's query to a valid expression of FTS5.

Words must all occur. `"Two words"` in quotes are a phrase, and `rest*` matches words that begin with `rest`. Everything
else, FTS5's own operators included, is taken as text.

Chinese, Japanese and Korean text is searched by characters. FTS5's `unicode61` takes a run of letters for one word, and
these languages put no spaces between words (Korean puts them behind particles). So a zero-width space, which separates
words, is added on both sides of each of their characters, in the text and in the query, and a word becomes a phrase of
characters. What stands beside them, as a name in Latin letters, stays a word of its own.
FTS5's `trigram` would need an index of its own, several times larger, and finds nothing shorter than three characters.
"""

from __future__ import annotations

import re
from typing import Final

from treering.errors import UsageError
from treering.kinds import Kind

TERMS_MAX: Final = 1000  # enough for a pasted stack trace; FTS5 accepts at least 5,000

_GAP: Final = "\u200b"
_UNSPACED: Final = re.compile(
    "([\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff])"
)
_TERM: Final = re.compile(r'"(?P<phrase>[^"]*)"?(?P<open>\*)?|(?P<word>[^\s"]+)')
_NOTHING: Final = '""'


def spaced(text: str) -> str:
    """Return a text as the index stores it."""
    return _UNSPACED.sub(rf"{_GAP}\1{_GAP}", text)


def joined(text: str) -> str:
    """Return a text from the index without the separators."""
    return text.replace(_GAP, "")


def printable(text: str) -> str:
    """Return a text that SQLite accepts: without NUL, our marks, and lone surrogates."""
    return text.translate(_UNWANTED).encode("utf-8", "replace").decode()


MARKS: Final = ("\x02", "\x03")
"""Enclose a match in the snippets of FTS5; never part of an indexed text."""
_UNWANTED: Final = dict.fromkeys(map(ord, ("\0", *MARKS)), " ")


def expression(text: str) -> str | None:
    """Return the FTS5 expression for a user's query; None if the query is empty.

    Raises:
        UsageError: It has more than `TERMS_MAX` words.
    """
    if not text.strip():
        return None
    terms = [_term(match) for match in _TERM.finditer(spaced(printable(text)))]
    if len(terms) > TERMS_MAX:
        raise UsageError(f"too many words. got={len(terms)}, max={TERMS_MAX}", kind=Kind.QUERY)
    return " ".join(filter(None, terms)) or _NOTHING


def _term(match: re.Match[str]) -> str:
    if match["phrase"] is not None:
        text, prefix = match["phrase"], match["open"] is not None
    else:
        text, prefix = match["word"].rstrip("*"), match["word"].endswith("*")
    if not text.strip():
        return ""
    return f'"{text}"' + "*" * prefix
