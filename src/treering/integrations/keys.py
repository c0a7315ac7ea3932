"""Escape names that a framework gives, so that they can be parts of keys and names."""

from __future__ import annotations


def escaped(text: str) -> str:
    """Return a text as a part of a key, without `/`."""
    return text.replace("%", "%25").replace("/", "%2F")


def unescaped(text: str) -> str:
    """Return the text that `escaped` turned into a part of a key."""
    return text.replace("%2F", "/").replace("%25", "%")
