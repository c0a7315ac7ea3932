"""Parts of keys and names that integrations make of what a framework calls things."""

from __future__ import annotations


def escaped(text: str) -> str:
    """Return a text as a part of a key, without `/`."""
    return text.replace("%", "%25").replace("/", "%2F")


def unescaped(text: str) -> str:
    """Return what a part of a key stands for."""
    return text.replace("%2F", "/").replace("%25", "%")
