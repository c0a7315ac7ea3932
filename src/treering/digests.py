"""Digests of bytes, in hex digits."""

from __future__ import annotations

# `hashlib` gives the same function, but loads OpenSSL first, which takes longer than a resume.
try:
    from _blake2 import blake2b as _blake2b
except ImportError:
    from hashlib import blake2b as _blake2b


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes."""
    import hashlib  # see above

    return hashlib.sha256(data).hexdigest()


def blake2b(data: bytes, size: int) -> str:
    """Return the BLAKE2b digest of bytes, `size` bytes long."""
    return _blake2b(data, digest_size=size).hexdigest()
