"""Convert between callers' values and bodies of records: tagged values, blobs, unknown fields of foreign files, state.

A body is the payload, or a payload and its source, see `treering.format.pieces`, or the mark of an erased payload.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Raw

from treering.format import blobs, values
from treering.format.erasure import NOTE, Erased, erased_of, is_erased
from treering.format.pieces import join_source, split_source
from treering.format.register import one_line
from treering.messages import without_reminders
from treering.transcript.node import Draft


def encode_payload(draft: Draft, *, inside: Collection[str] = ()) -> tuple[Raw, dict[str, bytes]]:
    """Return the body of a draft, and the blobs that must be stored before it, by digest.

    Args:
        draft: The draft.
        inside: Digests of large parts that are not moved to blobs but stay in the body: those of erased blobs.

    Raises:
        UsageError: A value cannot be stored exactly; the message names its path.
    """
    payload = draft.payload
    large: dict[str, bytes] = {}
    body = values.encode(payload)
    if len(body) >= blobs.BASE64_BYTES_MIN:  # smaller ones have no part worth a blob
        payload, large = blobs.extract(payload, inside)
        body = values.encode(payload) if large else body
    if draft.source is not None:
        source, more = _encode_source(draft.source, inside)
        body, large = join_source(source, body), large | more
    return Raw(body), large


def _encode_source(fields: dict[str, object], inside: Collection[str]) -> tuple[bytes, dict[str, bytes]]:
    """Encode the fields of a foreign record that are not in the payload; they may hold whole files."""
    source = values.encode(fields)
    if len(source) < blobs.BASE64_BYTES_MIN:
        return source, {}
    kept, large = blobs.extract(fields, inside)
    return (values.encode(kept) if large else source), large


def decode_payload(body: bytes, stored: Mapping[str, bytes | None]) -> object:
    """Return the value that the caller recorded, or `Erased`; a missing blob becomes a text note."""
    if b"$" not in body:  # true of most: neither erased, nor with a source, nor with a blob
        return values.decode(body)
    if is_erased(body):
        return erased_of(body)
    payload = values.decode(split_source(body)[1])
    return blobs.restore(payload, stored) if blobs.mentions_blob(body) else payload


def stored_payload(body: bytes) -> object:
    """Return the payload with a `BlobRef` for each of its blobs, or `Erased`."""
    return erased_of(body) if is_erased(body) else values.decode(split_source(body)[1])


def preview_payload(body: bytes) -> object:
    """Return the payload without its blobs, or `Erased`; of large texts it has the beginnings."""
    if is_erased(body):
        return erased_of(body)
    payload = values.decode(split_source(body)[1])
    return blobs.preview(payload) if blobs.mentions_blob(body) else payload


def decode_source(body: bytes, stored: Mapping[str, bytes | None]) -> object | None:
    """Return the fields of a foreign record that are not in the payload, or None; blobs as for `decode_payload`."""
    source, _ = split_source(body)
    if source is None:
        return None
    fields = values.decode(source)
    return blobs.restore(fields, stored) if blobs.mentions_blob(source) else fields


def blobs_in(body: bytes) -> set[str]:
    """Return the digests of the blobs that a body refers to."""
    return blobs.blob_refs_in(body)


def decoded_state(state: Mapping[str, bytes]) -> Mapping[str, Any]:
    """State values as the agent passed them; erased values are left out."""
    return MappingProxyType({key: values.decode(value) for key, value in state.items() if not is_erased(value)})


def decoded_manager(manager: bytes | None) -> object:
    """The state of a conversation manager as it was passed; None if there is none, or it was erased."""
    return None if manager is None or is_erased(manager) else values.decode(manager)


def erased_state(state: Mapping[str, bytes], manager: bytes | None) -> Mapping[str | None, Erased]:
    """Return an `Erased` for each erased state value, by key; the key None is the state of the conversation manager."""
    left: dict[str | None, Erased] = {key: erased_of(value) for key, value in state.items() if is_erased(value)}
    return MappingProxyType(left | ({None: erased_of(manager)} if manager is not None and is_erased(manager) else {}))


def first_prompt(body: bytes) -> str:
    """The text a user typed in a message, on one line, cut at a whole character to the size a card allows."""
    payload = preview_payload(body)
    if isinstance(payload, Erased):
        return NOTE
    text = _text(payload.get("content") if isinstance(payload, dict) else payload) or _said(payload)
    return one_line(without_reminders(text))


def _said(payload: object) -> str:
    """The text of a message in the format of a program whose sessions are imported."""
    from treering.transcript.parts import parts_of  # resuming a session does not need it

    return " ".join(part.text for part in parts_of(payload) if part.kind == "text")


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) and not isinstance(content, bytes) else [content]
    return " ".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
