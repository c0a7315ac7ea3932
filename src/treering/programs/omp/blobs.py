"""Large parts of oh-my-pi's records: files named by the SHA-256 of their contents, in a folder next to the sessions.

    {"type":"image","data":"blob:sha256:<64 hex digits>","mimeType":"image/png"}

Rule 1: a reference counts only where oh-my-pi writes references (the table below). The same text in another place, for
example in a message about blobs, is text.
Rule 2: no reference is sent to a model. A model cannot read it, and providers refuse the whole request because of it.
If the file is missing or damaged, a text that says so replaces the reference.

| place                                                     | the file holds                |
|-----------------------------------------------------------|-------------------------------|
| an image in `content`; an image in `images` or `frames`   | the decoded bytes             |
| `result` of an `image_generation_call`                    | the decoded bytes             |
| `image_url`                                               | the text of the whole data URL |
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

PREFIX: Final = "blob:sha256:"
EXTERNAL_CHARACTERS_MIN: Final = 1024
"""Base64 of this length or more becomes a file. Data URLs always do."""
FOLDER: Final = "blobs"
BLOB_BYTES_MAX: Final = 256 * 1024 * 1024
"""The largest file that is read for a reference."""
FOLDERS_ABOVE_MAX: Final = 5
"""The levels above a session file at which its blobs may be: `agent/blobs` for
`agent/sessions/<project>/<session>/<subagent>`."""

Load = Callable[[str], bytes | None]
"""A function that returns the bytes of a digest; None if there are none."""
Save = Callable[[bytes], str]
"""A function that stores bytes and returns their digest."""
Missing = Callable[[str], None]
"""A function that is called with each reference whose file is missing or damaged."""
Fields = dict[str, object]

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LISTS: Final = frozenset({"images", "frames"})
_SIGNED: Final = {
    "thinking": "thinkingSignature",
    "text": "textSignature",
    "toolCall": "thoughtSignature",
    "redactedThinking": "data",
    "reasoning": "encrypted_content",
}
"""Types of blocks that are written unchanged if they have the field named here: a provider checks their exact bytes."""


def find_folder(file: Path) -> Path | None:
    """Return the folder of blobs that belongs to a session file; None if there is none nearby."""
    above = list(file.absolute().parents)[:FOLDERS_ABOVE_MAX]
    return next((folder / FOLDER for folder in above if (folder / FOLDER).is_dir()), None)


def loader(folder: Path | None) -> Load:
    """Return a function that reads blobs of a folder; a file whose contents do not have its digest is ignored."""

    def load(digest: str) -> bytes | None:
        if folder is None:
            return None
        path = folder / digest
        try:
            if not path.is_file() or path.stat().st_size > BLOB_BYTES_MAX:
                return None
            data = path.read_bytes()
        except OSError:
            return None
        return data if sha256(data).hexdigest() == digest else None

    return load


def has_reference(value: object) -> bool:
    """Tell whether a value has a text that looks like a reference; most records have none and need no copy."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            if part.startswith(PREFIX):
                return True
        elif isinstance(part, dict | list):
            stack.extend(part.values() if isinstance(part, dict) else part)
    return False


def resolve(value: object, load: Load, missing: Missing, key: str = "") -> object:
    """Return a JSON value with its references replaced by the contents of their files."""
    if isinstance(value, list):
        return [resolve(part, load, missing, key) for part in value]
    if not isinstance(value, dict):
        return value
    if _is_image_place(value, key) and _is_reference(value["data"]):
        return _resolved_image(value, load, missing, key)
    if value.get("type") == "image_generation_call" and _is_reference(value.get("result")):
        value = value | {"result": _decoded(str(value["result"]), load, missing, _base64)}
    if _is_reference(value.get("image_url")):
        return _resolved_url(value, load, missing)
    return {name: resolve(part, load, missing, name) for name, part in value.items()}


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and value.startswith(PREFIX)


def _is_image_place(value: Mapping[str, object], key: str) -> bool:
    if not isinstance(value.get("data"), str):
        return False
    mime = value.get("mimeType")
    if key == "content":
        return value.get("type") == "image"
    is_image = value.get("type") == "image" or (isinstance(mime, str) and mime.lower().startswith("image/"))
    return key in _LISTS and is_image


def _decoded(reference: str, load: Load, missing: Missing, read: Callable[[bytes], str]) -> str | None:
    digest = reference.removeprefix(PREFIX)
    data = load(digest) if _DIGEST.fullmatch(digest) else None  # anything else could name a file outside the folder
    try:
        if data is not None:
            return read(data)
    except UnicodeDecodeError:
        pass
    missing(reference)
    return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _resolved_image(value: Fields, load: Load, missing: Missing, key: str) -> object:
    reference = str(value["data"])
    data = _decoded(reference, load, missing, _base64)
    if data is not None:
        return value | {"data": data}
    return value | {"data": ""} if key == "frames" else {"type": "text", "text": _note(reference)}


def _resolved_url(value: Fields, load: Load, missing: Missing) -> Fields:
    reference = str(value["image_url"])
    url = _decoded(reference, load, missing, bytes.decode)
    return value | {"image_url": url} if url is not None else {"type": "input_text", "text": _note(reference)}


def _note(reference: str) -> str:
    return f"[An image was here. Its file is missing: {reference.removeprefix(PREFIX)[:64]}]"


def externalise(value: object, save: Save, key: str = "") -> object:
    """Return a JSON value in oh-my-pi's form, with large parts replaced by references: the inverse of `resolve`."""
    if isinstance(value, str):
        return PREFIX + save(value.encode("utf-8", "surrogatepass")) if _is_data_url(value, key) else value
    if isinstance(value, list):
        return [externalise(part, save, key) for part in value]
    if not isinstance(value, dict) or _is_signed(value):
        return value
    for name, fits in (("result", value.get("type") == "image_generation_call"), ("data", _is_image_place(value, key))):
        if fits and (data := _large_base64(value.get(name))) is not None:
            return value | {name: PREFIX + save(data)}
    return {name: externalise(part, save, name) for name, part in value.items()}


def _is_data_url(value: str, key: str) -> bool:
    return key == "image_url" and value.startswith("data:image/") and ";base64," in value


def _is_signed(value: Mapping[str, object]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and kind in _SIGNED and bool(value.get(_SIGNED[kind]))


def _large_base64(text: object) -> bytes | None:
    """Return the bytes of a long base64 text, if writing them as base64 gives the same text."""
    if not isinstance(text, str) or len(text) < EXTERNAL_CHARACTERS_MIN or text.startswith(PREFIX):
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if _base64(data) == text else None
