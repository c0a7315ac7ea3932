"""Limits of the sizes of a session's objects, and when to seal."""

from __future__ import annotations

import msgspec

# A tail is read on every resume and, on an object store, uploaded with every append. A larger record goes to blobs.
TAIL_BYTES_MAX = 1024 * 1024
# One append may be larger than that if it is alone in the tail; the next append seals it. Uploaded in a single request.
APPEND_BYTES_MAX = 16 * 1024 * 1024
# Seal well before the cap, so that one more append fits.
TAIL_BYTES_SEAL = TAIL_BYTES_MAX // 2
# Local disks re-upload nothing; the only bound for the tail is how much a resume should have to read.
LOG_BYTES_SEAL = 1024 * 1024
# Sealed records stay in the tail until the next append. If no append follows, dropping them takes a write of its own.
# That pays from this size on: below it, it would save a few blocks on a disk, and a few packets for a resume.
SEALED_BYTES_DROP = 64 * 1024
# Sealing costs two requests. At least this many appends between two seals keep it within 1.2 requests an append.
APPENDS_PER_SEAL_MIN = 10
# The price of these two requests in bytes: as much could be uploaded during their round trips, for which the caller
# waits.
SEAL_REQUESTS_BYTES = 192 * 1024
# A merge reads its inputs whole, so this bounds its memory (decompressed, about six times as much).
MERGED_BYTES_MAX = 8 * 1024 * 1024
# A bound for the decompressed size as well: text may compress a thousand times.
MERGED_TEXT_BYTES_MAX = 64 * 1024 * 1024
# Fewer segments than this are not worth a merge: each merge level rewrites every byte once.
MERGE_RUN_MIN = 8
# A merge whose output is little more than its largest input would rewrite that input again and again.
MERGE_GROWTH_MIN = 4
# Each erased payload is named in the tail, which every resume reads, and which every append on an object store sends.
ERASED_MAX = 10_000


class SealSchedule(msgspec.Struct):
    """Counts the bytes uploaded since the last seal; decides when the next seal pays.

    Rule (rent or buy): seal when the bytes uploaded again for the tail outweigh what sealing would cost: a segment,
    `latest`, and two requests, counted as `SEAL_REQUESTS_BYTES`. That keeps the sum within twice the optimum.
    """

    appends: int = 0
    sent_again_bytes: int = 0

    def appended(self, *, sent_bytes: int, new_bytes: int) -> None:
        """Count one append that uploaded `sent_bytes`, of which `new_bytes` were not in the store before."""
        self.appends += 1
        self.sent_again_bytes += max(0, sent_bytes - new_bytes)

    def should_seal(self, *, tail_bytes: int, latest_bytes: int) -> bool:
        """Whether to seal now.

        Args:
            tail_bytes: Size of the tail object as stored.
            latest_bytes: Size of `latest` when it was last written.
        """
        if tail_bytes >= TAIL_BYTES_SEAL:
            return True
        price_bytes = tail_bytes + latest_bytes + SEAL_REQUESTS_BYTES
        return self.appends >= APPENDS_PER_SEAL_MIN and self.sent_again_bytes >= price_bytes

    def sealed(self) -> None:
        self.appends = self.sent_again_bytes = 0
