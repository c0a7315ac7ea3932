"""Divide plain data into keys of a session's state, so that a checkpoint stores only differences from the last one.

Large parts of large containers get keys of their own, named by the path to them. So a list of messages that grew by one
has one key more. A mark takes the place of such a part:

| mark              | stands for                                       |
|-------------------|--------------------------------------------------|
| `{"@at": name}`   | an entry of a dict, which is under its own key    |
| `{"@list": 12}`   | a list of 12, each of which is under its own key |

Rule: no dict in the data begins with these keys; see `treering.integrations.agent_framework.codec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from treering.errors import CorruptError, UsageError
from treering.format import values
from treering.format.erasure import is_erased
from treering.kinds import Kind

ENTRY_BYTES_MIN: Final = 256
"""Smaller entries of a dict stay in it: a key costs about 60 bytes in a record that repeats all of them."""
LIST_BYTES_MIN: Final = 1024
ITEM_BYTES_MIN: Final = 64
"""Lists whose items are smaller on average, like the numbers of an embedding, are not divided."""
_MARK_BYTES: Final = 16


def split(root: str, plain: object) -> dict[str, object]:
    """Return values by key of the state.

    Args:
        root: The key of the whole; all other keys begin with it and a slash.
        plain: Data from `Codec.encode`.
    """
    keys: dict[str, object] = {}
    whole, _ = _split(plain, root, keys)
    return {root: whole, **keys}


def join(root: str, state: Mapping[str, bytes]) -> Any:
    """Return the data that `split` divided.

    Raises:
        CorruptError: A key is missing.
        UsageError: A key was erased.
    """
    if root not in state:
        raise CorruptError(f"a part of a checkpoint is missing. key={root!r}", kind=Kind.SHAPE)
    if is_erased(state[root]):
        raise UsageError(f"a part of what was stored was erased. key={root!r}", kind=Kind.ERASED)
    return _join(values.decode(state[root]), root, state)


def is_of(root: str, key: str) -> bool:
    """Tell whether a key is the root, or a key that `split` makes below it."""
    return key == root or key.startswith(root + "/")


def _split(plain: Any, path: str, keys: dict[str, object]) -> tuple[object, int]:
    """Return the data that takes the place of a value, and its approximate size in bytes."""
    kind = type(plain)
    if kind is dict:
        return _split_dict(plain, path, keys)
    if kind is list:
        return _split_list(plain, path, keys)
    if kind is str or kind is bytes:
        return plain, len(plain) + 2
    return plain, len(plain) * _MARK_BYTES if kind is tuple or kind is set else 8


def _split_dict(plain: dict[str, Any], path: str, keys: dict[str, object]) -> tuple[object, int]:
    parts = {name: _split(each, _below(path, name), keys) for name, each in plain.items()}
    large = [name for name, (_, size) in parts.items() if size >= ENTRY_BYTES_MIN]
    if len(large) > 1:  # a single large part would only be moved to another key
        for name in large:
            keys[_below(path, name)] = parts[name][0]
            parts[name] = ({"@at": name}, _MARK_BYTES)
    whole = {name: each for name, (each, _) in parts.items()}
    return whole, sum(len(name) + 4 + size for name, (_, size) in parts.items())


def _split_list(plain: list[Any], path: str, keys: dict[str, object]) -> tuple[object, int]:
    parts = [_split(each, _below(path, str(at)), keys) for at, each in enumerate(plain)]
    size = sum(size for _, size in parts)
    if size < LIST_BYTES_MIN or len(parts) < 2 or size < ITEM_BYTES_MIN * len(parts):
        return [each for each, _ in parts], size + len(parts)
    keys.update({_below(path, str(at)): each for at, (each, _) in enumerate(parts)})
    return {"@list": len(parts)}, _MARK_BYTES


def _join(plain: Any, path: str, state: Mapping[str, bytes]) -> Any:
    if type(plain) is list:
        return [_join(each, _below(path, str(at)), state) for at, each in enumerate(plain)]
    if type(plain) is not dict:
        return plain
    if "@list" in plain:
        return [join(_below(path, str(at)), state) for at in range(plain["@list"])]
    if "@at" in plain:
        return join(path, state)
    return {name: _join(each, _below(path, name), state) for name, each in plain.items()}


def _below(path: str, name: str) -> str:
    """Return the key of a part; names are escaped as in a JSON pointer."""
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
