"""Detect the media type of stored bytes from their first bytes, since the name of a blob is only its digest."""

from __future__ import annotations

from typing import Final

_BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_IN_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_IN_BOX: Final = {b"avif": "image/avif", b"heic": "image/heic", b"M4A ": "audio/mp4"}
UNKNOWN: Final = "application/octet-stream"


def media_type_of(data: bytes) -> str:
    """Return the media type of some bytes; text is `text/plain`, whatever markup it holds."""
    for beginning, media_type in _BEGINNINGS:
        if data.startswith(beginning):
            return media_type
    if data.startswith(b"RIFF"):
        return _IN_RIFF.get(data[8:12], UNKNOWN)
    if data[4:8] == b"ftyp":
        return _IN_BOX.get(data[8:12], "video/mp4")
    if b"\0" in data:
        return UNKNOWN
    try:
        data.decode()
    except UnicodeDecodeError:
        return UNKNOWN
    return "text/plain"
