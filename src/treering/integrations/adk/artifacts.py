"""An artifact service of ADK, in parcels of a store.

A version is two parcels. The first has the bytes, under a random name. The second has the facts about them, under the
number of the version, and is created only if that number does not exist yet. So two concurrent saves get two versions,
and a process that is killed between the two puts leaves bytes that nothing refers to. Lists read no contents.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.errors import ConflictError
from treering.ids import new_nonce
from treering.integrations.adk.places import place_of_user
from treering.integrations.keys import escaped, unescaped
from treering.journal.register import Attempts
from treering.storage.requests import ABSENT, Steps
from treering.storage.run import run
from treering.storage.threads import in_thread
from treering.store.parcels import delete_parcel, get_parcel, parcel_names, put_parcel
from treering.store.place import Place

T = TypeVar("T")

REFERENCES_MAX: Final = 5
"""The longest chain of artifacts that refer to another artifact; as in ADK's own services."""
_USER: Final = "user:"
"""The prefix of the names of files that belong to the user, and not to a session."""
_BYTES: Final = "artifact-bytes"
_REWOUND: Final = types.Blob(mime_type="application/octet-stream", data=b"")
"""The blob that a rewind saves for an artifact that did not exist yet; `load_artifact` returns None for it."""


class TreeringArtifactService(BaseArtifactService):
    """Keeps the artifacts of ADK in a store: pass it as `Runner(..., artifact_service=...)`.

    Versions are numbered from 0. Files whose names begin with `user:` belong to the user, all others to a session.
    An artifact stays when its session is deleted.
    """

    def __init__(self, store: Store | AsyncStore) -> None:
        """Make a service, without reading or writing anything.

        Args:
            store: The store, from `treering.open`.
        """
        self._place = store.place

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Save a version of an artifact; the version is durable when this returns.

        Returns:
            The number of the version.

        Raises:
            InputValidationError: The artifact is of a kind that cannot be stored, or refers to an artifact of another
                user or session; or the file belongs to a session and no session is given.
            treering.UsageError: The artifact has more than 256 MiB, or a name is empty.
            treering.UnavailableError: The store did not answer; the version may exist.
        """
        file = _File(app_name, user_id, session_id, filename)
        part = ensure_part(artifact)
        facts, data = _encoded(file, part), _bytes_of(part)
        metadata = dict(custom_metadata or {})
        return await self._perform(lambda place: _save(place, file, facts, data, metadata), file)

    async def load_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> types.Part | None:
        """Return a version of an artifact, by default the newest; None if there is none.

        Raises:
            InputValidationError: It refers to an artifact of another user or session, or its chain of references is
                too long.
        """
        file = _File(app_name, user_id, session_id, filename)
        for left in range(REFERENCES_MAX, -1, -1):
            found = await self._perform(_loader(file, version), file)
            if found is None or not artifact_util.is_artifact_ref(found):
                return None if found is None or found.inline_data == _REWOUND else found
            there = artifact_util.resolve_artifact_reference(
                file_uri=str(found.file_data and found.file_data.file_uri),
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                remaining_depth=left,
            )
            file, version = _File(there.app_name, there.user_id, there.session_id, there.filename), there.version
        return None

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """Return the names of the files of a user, and of a session if one is given, sorted. One LIST for each."""
        owners = [_owner(None), *([] if session_id is None else [_owner(session_id)])]

        def names(place: Place) -> Steps[list[str]]:
            found = set()
            for owner in owners:
                for name in (yield from parcel_names(place, f"{owner}/")):
                    found.add(unescaped(name[len(owner) + 1 :].partition("/")[0]))
            return sorted(found)

        return await self._perform(names, _File(app_name, user_id, session_id, _USER))

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete all versions of an artifact, if there are any."""
        file = _File(app_name, user_id, session_id, filename)
        await self._perform(lambda place: _delete(place, file), file)

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of the versions of an artifact, sorted; one LIST."""
        file = _File(app_name, user_id, session_id, filename)
        return await self._perform(lambda place: _versions(place, file), file)

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return the facts about each version of an artifact, the oldest first; one LIST, and one read per version."""
        file = _File(app_name, user_id, session_id, filename)

        def told(place: Place) -> Steps[list[ArtifactVersion]]:
            found = []
            for number in (yield from _versions(place, file)):
                found += [(yield from _facts(place, file, number))]
            return [_version_of(facts) for facts in found if facts is not None]

        return await self._perform(told, file)

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> ArtifactVersion | None:
        """Return the facts about a version of an artifact, by default the newest; None if there is none."""
        file = _File(app_name, user_id, session_id, filename)

        def told(place: Place) -> Steps[ArtifactVersion | None]:
            facts = yield from _facts(place, file, version)
            return None if facts is None else _version_of(facts)

        return await self._perform(told, file)

    async def _perform(self, work: Callable[[Place], Steps[T]], file: _File) -> T:
        place = place_of_user(self._place, file.app, file.user)
        return await in_thread(lambda steps: run(steps, place.driver), work(place))


class _File(NamedTuple):
    app: str
    user: str
    session: str | None
    name: str

    @property
    def is_of_user(self) -> bool:
        return self.name.startswith(_USER)

    @property
    def folder(self) -> str:
        """The prefix of the names of its parcels.

        Raises:
            InputValidationError: It belongs to a session, and no session is given.
        """
        if not self.is_of_user and self.session is None:
            raise InputValidationError("Session ID must be provided for session-scoped artifacts.")
        return f"{_owner(None if self.is_of_user else self.session)}/{escaped(self.name)}"


def _owner(session: str | None) -> str:
    return "artifacts/user" if session is None else f"artifacts/session/{escaped(session)}"


def _encoded(file: _File, part: types.Part) -> dict[str, Any]:
    """Return the facts that are stored about an artifact, without its bytes.

    Raises:
        InputValidationError: It is of an unknown kind, or refers to an artifact of another user or session.
    """
    rest = part.model_dump(mode="json", exclude_none=True)
    if part.inline_data is not None:
        rest["inline_data"].pop("data", None)
        return {"part": rest, "mime_type": part.inline_data.mime_type}
    if part.text is not None:
        del rest["text"]
        return {"part": rest, "mime_type": "text/plain", "text": True}
    if part.file_data is None:
        raise InputValidationError("Not supported artifact type.")
    if not artifact_util.is_artifact_ref(part):
        return {"part": rest, "mime_type": part.file_data.mime_type}
    uri = str(part.file_data.file_uri)
    there = artifact_util.parse_artifact_uri(uri)
    if there is None:
        raise InputValidationError(f"Invalid artifact reference URI: {uri}")
    artifact_util.validate_artifact_reference_scope(
        app_name=file.app, user_id=file.user, session_id=file.session, parsed_uri=there
    )
    return {"part": rest, "mime_type": None}


def _bytes_of(part: types.Part) -> bytes:
    if part.inline_data is not None:
        return part.inline_data.data or b""
    return (part.text or "").encode("utf-8", "surrogatepass")


def _save(place: Place, file: _File, facts: dict[str, Any], data: bytes, metadata: dict[str, Any]) -> Steps[int]:
    folder, content = file.folder, ""
    if data:
        content = f"{_BYTES}/{new_nonce()}"
        yield from put_parcel(place, content, data)
    attempts = Attempts(folder)
    while attempts.another():
        number = max((yield from _versions(place, file)), default=-1) + 1
        session = None if file.is_of_user else file.session
        uri = artifact_util.get_artifact_uri(file.app, file.user, file.name, number, session)
        version = ArtifactVersion(
            version=number, canonical_uri=uri, custom_metadata=metadata, mime_type=facts["mime_type"]
        )
        told = facts | {"bytes": content, "version": version.model_dump(mode="json")}
        try:
            yield from put_parcel(place, f"{folder}/{number}", json.dumps(told).encode(), expect=ABSENT)
        except ConflictError:
            continue  # another call saved a version with this number
        return number


def _loader(file: _File, version: int | None) -> Callable[[Place], Steps[types.Part | None]]:
    return lambda place: _load(place, file, version)


def _load(place: Place, file: _File, version: int | None) -> Steps[types.Part | None]:
    facts = yield from _facts(place, file, version)
    if facts is None:
        return None
    found = (yield from get_parcel(place, facts["bytes"])) if facts["bytes"] else (b"", "")
    if found is None:
        return None  # the version was deleted between the two reads
    part = types.Part.model_validate(facts["part"])
    if part.inline_data is not None:
        part.inline_data.data = found[0]
    elif facts.get("text"):
        part.text = found[0].decode("utf-8", "surrogatepass")
    return part


def _facts(place: Place, file: _File, version: int | None) -> Steps[dict[str, Any] | None]:
    """Return the facts that are stored about a version, by default the newest; None if there is none."""
    if version is None:
        version = max((yield from _versions(place, file)), default=-1)
    if version < 0:
        return None
    found = yield from get_parcel(place, f"{file.folder}/{version}")
    if found is None:
        return None
    facts: dict[str, Any] = json.loads(found[0])
    return facts


def _version_of(facts: dict[str, Any]) -> ArtifactVersion:
    return ArtifactVersion.model_validate(facts["version"])


def _versions(place: Place, file: _File) -> Steps[list[int]]:
    start = f"{file.folder}/"
    names = yield from parcel_names(place, start)
    return sorted(int(name[len(start) :]) for name in names)


def _delete(place: Place, file: _File) -> Steps[None]:
    for number in (yield from _versions(place, file))[::-1]:  # newest first: an interruption leaves the older ones
        facts = yield from _facts(place, file, number)
        yield from delete_parcel(place, f"{file.folder}/{number}")
        if facts is not None and facts["bytes"]:
            yield from delete_parcel(place, facts["bytes"])
