"""A media store for the harness of Pydantic AI, in parcels of a store.

A parcel is named by the digest of its bytes, and holds a line of facts and then the bytes. Putting the same bytes again
changes nothing: the facts of the first call are kept.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from pydantic_ai_harness.media import MediaContext, PublicUrlResolver, media_uri_for, parse_media_uri

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.digests import sha256
from treering.errors import ConflictError, CorruptError
from treering.format.paths import parcel_key
from treering.kinds import Kind
from treering.storage.requests import ABSENT, Steps
from treering.storage.run import run
from treering.storage.threads import in_thread
from treering.store.parcels import get_parcel, parcel_names, put_parcel
from treering.store.place import Place

T = TypeVar("T")

_FOLDER: Final = "pydantic-ai/media"
_NOTHING: Final = MediaContext()


class TreeringMediaStore:
    """Keeps images, audio and large texts by the digest of their bytes, each once, at most 256 MiB large."""

    def __init__(self, store: Store | AsyncStore, *, public_url: PublicUrlResolver | None = None) -> None:
        """Make a media store, without reading or writing anything.

        Args:
            store: The store, from `treering.open`.
            public_url: A function that returns a URL at which a model can fetch the bytes, or None.
        """
        self._place = store.place
        self._public_url = public_url

    async def put(self, data: bytes, *, context: MediaContext = _NOTHING) -> str:
        """Store bytes with their metadata, unless they are stored, and return their URI; durable when this returns.

        Raises:
            treering.UsageError: There are more than 256 MiB.
            treering.UnavailableError: The store did not answer; the bytes may be stored. Put them again.
        """
        uri = media_uri_for(data)
        facts = {"media_type": context.media_type, "filename": context.filename, "metadata": dict(context.metadata)}
        line = json.dumps(facts, separators=(",", ":")).encode()
        await self._perform(lambda place: _put(place, parse_media_uri(uri), line + b"\n" + data))
        return uri

    async def get(self, uri: str, *, context: MediaContext = _NOTHING) -> bytes:  # noqa: ARG002  # as the harness calls it
        """Return the bytes of a URI.

        Raises:
            FileNotFoundError: The bytes are not in this store.
            treering.CorruptError: The bytes in the store are not the bytes that were put.
        """
        return (await self._read(uri))[1]

    async def exists(self, uri: str, *, context: MediaContext = _NOTHING) -> bool:  # noqa: ARG002
        """Tell whether the bytes of a URI are stored, without reading them."""
        digest = parse_media_uri(uri)
        return await self._perform(lambda place: _exists(place, digest))

    async def public_url(self, uri: str, *, context: MediaContext = _NOTHING) -> str | None:
        """Return a URL at which a model can fetch them; None if there is none."""
        parse_media_uri(uri)
        if self._public_url is None:
            return None
        found = self._public_url(uri, context)
        return await found if inspect.isawaitable(found) else found

    async def get_metadata(self, uri: str, *, context: MediaContext = _NOTHING) -> Mapping[str, str]:  # noqa: ARG002
        """Return the metadata with which the bytes of a URI were first put.

        Raises:
            FileNotFoundError: The bytes are not in this store.
        """
        metadata: dict[str, str] = json.loads((await self._read(uri))[0])["metadata"]
        return metadata

    async def _read(self, uri: str) -> tuple[bytes, bytes]:
        digest = parse_media_uri(uri)
        found = await self._perform(lambda place: get_parcel(place, _name(digest)))
        if found is None:
            raise FileNotFoundError(f"media not found: {uri}")
        facts, _, data = found[0].partition(b"\n")
        if sha256(data) != digest:
            key = parcel_key(self._place.prefix, _name(digest))
            raise CorruptError("the bytes are not those that were stored", kind=Kind.BLOB, key=key)
        return facts, data

    async def _perform(self, work: Callable[[Place], Steps[T]]) -> T:
        place = self._place
        return await in_thread(lambda steps: run(steps, place.driver), work(place))


def _name(digest: str) -> str:
    return f"{_FOLDER}/{digest}"


def _exists(place: Place, digest: str) -> Steps[bool]:
    return bool((yield from parcel_names(place, _name(digest))))


def _put(place: Place, digest: str, content: bytes) -> Steps[None]:
    if (yield from _exists(place, digest)):
        return
    try:
        yield from put_parcel(place, _name(digest), content, expect=ABSENT)
    except ConflictError:
        return  # another process was faster
