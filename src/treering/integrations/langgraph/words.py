"""Rank texts by the words of a query, for stores without embeddings.

The score of a text is the share of the query's words that occur in it, from 0 to 1. Rare words count more than frequent
ones. Words are compared without case and accents; Chinese, Japanese and Korean text is compared by characters, as in
`treering.search`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from treering.search.query import spaced

_WORD: Final = re.compile(r"\w+")


def scores(query: str, texts: Sequence[str]) -> list[float]:
    """Return the score of each text; 0 if no word of the query occurs in it."""
    asked = words_of(query)
    found = [asked & words_of(text) for text in texts]
    occur = Counter(word for words in found for word in words)
    weights = {word: math.log(1 + len(texts) / max(1, occur[word])) for word in sorted(asked)}
    total = sum(weights.values())
    return [sum(weights[word] for word in sorted(words)) / total if total else 0.0 for words in found]


def words_of(text: str) -> frozenset[str]:
    """Return the different words of a text."""
    plain = unicodedata.normalize("NFKD", spaced(text)).casefold()
    return frozenset(_WORD.findall("".join(each for each in plain if not unicodedata.combining(each))))


def texts_in(value: object) -> Iterator[str]:
    """Yield all texts and numbers of a value, at any depth, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from texts_in(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
