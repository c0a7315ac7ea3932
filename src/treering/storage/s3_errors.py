"""Translate errors of S3 into Treering's. Server messages are left out: some of them echo keys and signatures."""

from __future__ import annotations

from typing import Any

import aiohttp
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from treering.errors import AccessError, ConflictError, TreeringError, UnavailableError, UnsafeStoreError, UsageError
from treering.kinds import Kind
from treering.storage import rules

FAILURES = (
    OSError,
    ValueError,
    RuntimeError,
    KeyError,
    boto.BotoCoreError,
    boto.ClientError,
    aiohttp.ClientError,
    ResponseParserError,
)
"""Everything that a request through s3fs may raise: its own errors, and those of the layers below it. A `KeyError`
comes from our code, for an answer that lacks a field that S3 always sends."""

NOT_MODIFIED = 304
BAD_RANGE = 416

_NOT_FOUND = 404
_NO_OBJECT = "NoSuchKey"
"""What S3 says of a missing object; a proxy without its backend, or a wrong endpoint, answers the same status."""
_CONFLICT = 412
_FORBIDDEN = (401, 403)
_MOVED = (301, 307, 308)
_WRONG_KEYS = {
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
}
_NO_KEYS = (
    boto.CredentialRetrievalError,
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.ProfileNotFound,
    boto.TokenRetrievalError,
)
_WRONG_CALL = (boto.InvalidEndpointDiscoveryConfigurationError, boto.InvalidRegionError, boto.ParamValidationError)
_TIMEOUTS = (TimeoutError, boto.ConnectTimeoutError, boto.ReadTimeoutError)

_KEYS_REMEDY = "check the access key, the secret, the session token and this machine's clock"
_BUSY_REMEDY = "try again later"
_NOT_S3_REMEDY = "check endpoint_url, and any proxy in between"


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status behind `error`, or None if there was no answer."""
    status: int | None = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status


def explain(error: BaseException, *, key: str, bucket: str, needs_object: bool) -> TreeringError:
    """Return the Treering error for `error`, with a remedy; the original is its cause.

    Args:
        error: What was raised.
        key: The key or prefix of the request.
        bucket: The bucket's name.
        needs_object: S3 may answer the request that there is no object: it reads one, replaces a version or deletes.
    """
    ours = _answered(error, key, bucket, needs_object=needs_object) if _response(error) else _unanswered(error, key)
    ours.__cause__ = error
    return ours


def explain_deletion(error: dict[str, Any], *, key: str) -> TreeringError:
    """Return the Treering error for one key that `DeleteObjects` reports."""
    code = str(error.get("Code"))
    if code == "AccessDenied":
        return _denied(code, key)
    return UnavailableError(f"object was not deleted. code={code!r}", kind=Kind.SERVER, key=key, remedy=_BUSY_REMEDY)


def _response(error: BaseException) -> dict[str, Any]:
    """Return the server's response, which s3fs may keep only in the cause of its own error."""
    found = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    return found if isinstance(found, dict) else {}


def _answered(error: BaseException, key: str, bucket: str, *, needs_object: bool) -> TreeringError:
    code, status = str(_response(error).get("Error", {}).get("Code")), status_of(error) or 0
    if code == "NoSuchBucket":
        remedy = "create the bucket, or correct its name"
        return AccessError(f"bucket does not exist. bucket={bucket!r}", kind=Kind.BUCKET, key=key, remedy=remedy)
    if (
        status == _CONFLICT
    ):  # 409 is no conflict: another request for this key is under way, and S3 asks to send this one again
        return ConflictError(f"object has another version. code={code!r}", key=key)
    if status == _NOT_FOUND:
        if needs_object and code == _NO_OBJECT:
            return rules.missing(key)
        return _not_s3(f"status={status}, code={code!r}", key)
    if code in _WRONG_KEYS:
        return AccessError(
            f"credentials were refused. code={code!r}", kind=Kind.CREDENTIALS, key=key, remedy=_KEYS_REMEDY
        )
    if status in _FORBIDDEN:
        return _denied(code, key)
    if status in _MOVED or code == "AuthorizationHeaderMalformed":
        remedy = "set the bucket's region or endpoint_url in storage_options"
        return AccessError(f"bucket is somewhere else. code={code!r}", kind=Kind.REGION, key=key, remedy=remedy)
    if code == "NotImplemented":
        return UnsafeStoreError(f"server lacks a feature we rely on. code={code!r}", kind=Kind.FEATURE, key=key)
    text = f"server could not answer. status={status}, code={code!r}"
    return UnavailableError(text, kind=Kind.SERVER, key=key, remedy=_BUSY_REMEDY)


def _unanswered(error: BaseException, key: str) -> TreeringError:
    what = type(error.__cause__ or error).__name__
    if isinstance(error, _NO_KEYS) or isinstance(error.__cause__, _NO_KEYS):
        remedy = "pass key and secret in storage_options, or set them up as for any AWS client"
        return AccessError(f"no usable credentials. error={what}", kind=Kind.CREDENTIALS, key=key, remedy=remedy)
    if isinstance(error, _WRONG_CALL) or (isinstance(error, ValueError) and not isinstance(error, OSError)):
        remedy = "check bucket, endpoint_url and region"
        return UsageError(f"the request could not be made. error={what}", kind=Kind.OPTIONS, key=key, remedy=remedy)
    if isinstance(error, KeyError):
        return _not_s3(f"missing={error.args[0]!r}", key)
    kind = Kind.TIMEOUT if isinstance(error, _TIMEOUTS) or "Timeout" in what else Kind.NETWORK
    remedy = "check the network and endpoint_url, or try again later"
    return UnavailableError(f"server did not answer. error={what}", kind=kind, key=key, remedy=remedy)


def _not_s3(what: str, key: str) -> UnavailableError:
    text = f"the answer is not one of S3. {what}"
    return UnavailableError(text, kind=Kind.SERVER, key=key, remedy=_NOT_S3_REMEDY)


def _denied(code: str, key: str) -> AccessError:
    remedy = "allow GetObject, PutObject, DeleteObject and ListBucket for these credentials"
    return AccessError(f"access is denied. code={code!r}", kind=Kind.PERMISSION, key=key, remedy=remedy)
