"""Large parts of a payload, stored once as objects of their own and named by their SHA-256.

These become blobs: base64 from 32 KB on (as its decoded bytes, if encoding those gives the same text again; a `data:`
URL keeps its prefix), bytes from 32 KB on, and any text over 256 KB. A `BlobRef` takes its place in the value;
`treering.format.values` stores it as

    {"$blob":"<sha256>","as":"base64","size":51200,"prefix":"data:image/png;base64,"}
    {"$blob":"<sha256>","as":"text","size":300000,"begins":"the first words of the text"}

Rule 1: a part that is signed or encrypted is never cut: a check of the signature needs the exact bytes.
Rule 2: a reference is a type of its own, so that it cannot be sent to a model by mistake, nor written by a user.
Rule 3: a missing blob is replaced by a note, which is text. If the blob was an image or a file, the note replaces the
        whole content part, since no model accepts a note as base64.
Rule 4: a reference to a text holds the beginning of the text, so that lists can show it without reading the blob.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from treering.digests import sha256
from treering.errors import UsageError

BASE64_BYTES_MIN: Final = 32 * 1024
"""Smaller parts cost less inside the record than in a request of their own."""
TEXT_BYTES_MIN: Final = 256 * 1024
"""Bytes of UTF-8; only longer texts become blobs. The limit is higher than for base64 since text compresses well inside
a segment."""
SIGNED_KEYS: Final = frozenset(
    {
        "signature",
        "thinkingSignature",
        "thoughtSignature",
        "thought_signature",
        "textSignature",
        "encrypted",
        "encrypted_content",
        "encryptedContent",
        "redactedContent",
    }
)
"""An object with one of these keys is left as it is, with everything in it."""
SIGNED_TYPES: Final = frozenset({"redacted_thinking", "redactedThinking"})
"""An object with one of these values of `type` is left as it is, too."""
FORMS: Final = frozenset({"base64", "bytes", "text"})
BEGINS_BYTES_MAX: Final = 400
"""Bytes of a text that its reference repeats: enough for the first prompt in a list of sessions."""

_reference = rb'"\$blob":"([0-9a-f]{64})"'
_text_reference = rb'"\$blob":"([0-9a-f]{64})","as":"text"'
_data_url = r"data:[^,]{0,100};base64,"


class BlobRef(msgspec.Struct, frozen=True, kw_only=True):
    """A reference to a blob inside a value: the placeholder of a large image or text whose blob was not read."""

    sha256: str
    form: str
    """One of `FORMS`: whether the value was base64, bytes, or text (the blob is its UTF-8)."""
    size: int
    """Bytes of the blob."""
    prefix: str = ""
    """The text before the base64."""
    begins: str = ""
    """How a text begins, at most `BEGINS_BYTES_MAX` bytes of UTF-8; empty if an earlier version stored it."""

    @property
    def note(self) -> str:
        """The text that replaces the blob if it is missing."""
        return f"[missing attachment sha256:{self.sha256}, {self.size} bytes]"


def extract(value: object, inside: Collection[str] = ()) -> tuple[object, dict[str, bytes]]:
    """Take the large parts out of a value; the value itself is not changed.

    Args:
        value: As callers hand it in.
        inside: Parts with these digests stay where they are.

    Returns:
        The value with references in place of its large parts, and the blobs by their SHA-256.

    Raises:
        UsageError: The value is nested too deep.
    """
    blobs: dict[str, bytes] = {}

    def take(part: object) -> object:
        found = _large(part)
        if found is None:
            return part
        data, form, prefix = found
        digest = sha256(data)
        if digest in inside:
            return part
        blobs[digest] = data
        begins = _beginning(data) if form == "text" else ""
        return BlobRef(sha256=digest, form=form, size=len(data), prefix=prefix, begins=begins)

    try:
        return _map(value, take), blobs
    except RecursionError as error:
        raise UsageError("value is nested too deep") from error


def _large(part: object) -> tuple[bytes, str, str] | None:
    """Return the blob to store for a large string or bytes, its form (see `FORMS`), and its prefix; else None."""
    if type(part) is bytes and len(part) >= BASE64_BYTES_MIN:
        return part, "bytes", ""
    if type(part) is not str or len(part) < BASE64_BYTES_MIN:
        return None
    if (found := read_base64(part)) is not None and len(part) - len(found[1]) >= BASE64_BYTES_MIN:
        return found[0], "base64", found[1]
    if 4 * len(part) <= TEXT_BYTES_MIN:  # whatever its characters are
        return None
    try:
        text = part.encode()
    except UnicodeEncodeError:  # a lone surrogate; the value's encoder handles it
        return None
    return (text, "text", "") if len(text) > TEXT_BYTES_MIN else None


def _beginning(text: bytes) -> str:
    """The beginning of a text as its reference repeats it: from the first character that is not white space."""
    return text.lstrip()[:BEGINS_BYTES_MAX].decode("utf-8", "ignore")


def read_base64(text: str) -> tuple[bytes, str] | None:
    """Return the bytes that a text stands for and the prefix of its `data:` URL, if it is base64.

    A text counts as base64 only if encoding the bytes gives the same text again.
    """
    import base64  # few sessions need it, and resuming does not

    url = re.match(_data_url, text)
    prefix = url[0] if url else ""
    encoded = text[len(prefix) :]
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError:  # as `binascii.Error` is
        return None
    return (data, prefix) if base64.b64encode(data).decode() == encoded else None


def _map(value: object, take: Callable[[object], object]) -> object:
    """Return a copy with `take` applied to each leaf outside signed parts; parts that stay the same are shared."""
    if type(value) is dict:
        if is_signed(value):
            return value
        return {key: _map(item, take) for key, item in value.items()}
    if type(value) is list:
        return [_map(item, take) for item in value]
    if type(value) is tuple:
        return tuple(_map(item, take) for item in value)
    return take(value)


def is_signed(part: dict[object, object]) -> bool:
    """Whether a part is signed or encrypted: nothing in it may be changed."""
    kind = part.get("type")
    return not SIGNED_KEYS.isdisjoint(part) or (type(kind) is str and kind in SIGNED_TYPES)


def restore(value: object, blobs: Mapping[str, bytes | None]) -> object:
    """Put the blobs back in place of their references; the opposite of `extract`.

    Args:
        value: As decoded; not changed.
        blobs: By SHA-256. A blob that is None or not in the mapping becomes a text note.
    """
    return _restore(value, blobs, in_part=False)


def preview(value: object) -> object:
    """Return a decoded value with references to texts replaced by their beginnings, and other references left empty.

    For lists and other displays made from records alone; never for messages that go to a model.
    """
    return _map(value, lambda part: part.begins if type(part) is BlobRef else part)


class _PartLost(Exception):  # noqa: N818  # not an error: caught at its content part, which becomes text
    """The blob of an image or file is missing."""


def _restore(value: object, blobs: Mapping[str, bytes | None], *, in_part: bool) -> object:
    if type(value) is BlobRef:
        return _restore_blob(value, blobs.get(value.sha256), in_part=in_part)
    if type(value) is dict:
        return {key: _restore(item, blobs, in_part=in_part) for key, item in value.items()}
    if type(value) is list:
        return [_restore_item(item, blobs, in_part=in_part) for item in value]
    if type(value) is tuple:
        return tuple(_restore_item(item, blobs, in_part=in_part) for item in value)
    return value


def _restore_item(item: object, blobs: Mapping[str, bytes | None], *, in_part: bool) -> object:
    """Restore one item of a list. An object with a `type` is a content part, as with all providers."""
    if type(item) is not dict or "type" not in item:
        return _restore(item, blobs, in_part=in_part)
    try:
        return _restore(item, blobs, in_part=True)
    except _PartLost as lost:
        return {"type": "text", "text": str(lost)}


def _restore_blob(reference: BlobRef, data: bytes | None, *, in_part: bool) -> object:
    if data is None:
        if in_part and reference.form != "text":
            raise _PartLost(reference.note)
        return reference.note
    if reference.form == "text":
        return data.decode("utf-8", "replace")
    if reference.form == "base64":
        import base64  # as above

        return reference.prefix + base64.b64encode(data).decode()
    return data


def blob_refs(value: object) -> set[str]:
    """Return the SHA-256 of every blob that a decoded value refers to."""
    found: set[str] = set()

    def note(part: object) -> object:
        if type(part) is BlobRef:
            found.add(part.sha256)
        return part

    _map(value, note)
    return found


def is_digest(text: str) -> bool:
    """Return whether a text is a SHA-256 in the form of references."""
    return re.fullmatch("[0-9a-f]{64}", text) is not None


def mentions_blob(raw: bytes) -> bool:
    """Return whether encoded bytes (a line, a body) refer to any blob, without decoding them."""
    return b'"$blob":' in raw


def blob_refs_in(raw: bytes) -> set[str]:
    """Return the SHA-256 of every blob that encoded bytes refer to, without decoding them.

    Exact: inside a string the quotes would be escaped, and a user's own `$blob` key is not written as a key.
    """
    return {match[1].decode() for match in re.finditer(_reference, raw)} if mentions_blob(raw) else set()


def text_refs_in(raw: bytes) -> set[str]:
    """Return the SHA-256 of every blob of text that encoded bytes refer to, without decoding them."""
    return {match[1].decode() for match in re.finditer(_text_reference, raw)} if mentions_blob(raw) else set()
