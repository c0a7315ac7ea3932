"""What the machine itself takes: nobody who does the same can be quicker."""

from __future__ import annotations

import os

from benchmarks.contestants.contestant import Contestant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.workload import Message

LINE_BYTES = 1_180
"""What Treering's journal writes for a message of 1,000 bytes."""


class WriteAndSync(Contestant):
    """`os.write` and `os.fdatasync`, of as many bytes as Treering writes."""

    def write(self, session: str, messages: Sequence[Message]) -> None:  # noqa: ARG002  # it has no sessions
        os.makedirs(self.place, exist_ok=True)

    def begin(self, session: str) -> None:
        self.file = os.open(f"{self.place}/{session}.bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.data = b"x" * (LINE_BYTES - 1) + b"\n"

    def append(self, text: str) -> None:  # noqa: ARG002  # nothing is encoded
        os.write(self.file, self.data)
        os.fdatasync(self.file)

    def end(self) -> None:
        os.close(self.file)


class Nothing(Contestant):
    """Starts Python, and ends."""

    def write(self, session: str, messages: Sequence[Message]) -> None:
        """Nothing is kept."""

    def resume(self, session: str) -> Sequence[str]:  # noqa: ARG002  # there is nothing to resume
        return []


class Decode(Contestant):
    """Opens, decompresses and decodes the files that Treering reads; writes nothing."""

    def write(self, session: str, messages: Sequence[Message]) -> None:
        """Nothing: Treering has written it."""

    def resume(self, session: str) -> Sequence[str]:
        import msgspec
        import zstandard

        with open(f"{self.place}/treering/latest/{session}.jsonl.zst", "rb") as file:
            data = file.read()
        with open(f"{self.place}/treering/sessions/{session}/tail.jsonl", "rb") as file:
            lines = file.read().rstrip(b"\0").splitlines()
        while data:
            frame = zstandard.ZstdDecompressor().decompressobj()
            lines += frame.decompress(data).splitlines()
            data = frame.unused_data
        decoder = msgspec.json.Decoder()
        return [decoder.decode(line) for line in lines] and []


class BareGet(Contestant):
    """One GET of as many bytes as Treering's `latest` has, by boto3 with a client at hand."""

    def __init__(self, place: str, window: int = 10) -> None:
        super().__init__(place, window)
        import boto3

        self.client = boto3.client("s3")
        self.bucket, _, self.prefix = place.partition("://")[2].partition("/")

    def write(self, session: str, messages: Sequence[Message]) -> None:
        """Nothing: Treering has written it."""

    def resume(self, session: str) -> Sequence[str]:
        key = f"{self.prefix}/treering/latest/{session}.jsonl.zst"
        self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return []
