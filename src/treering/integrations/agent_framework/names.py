"""The keys that the classes of this folder use in the state of a session.

Rule: one session may hold a history, a snapshot and checkpoints, and other state. No two of them share a key.
"""

from __future__ import annotations

from typing import Final

MARK: Final = "agent_framework"
"""The field of cards and of the metadata of checkpoints with facts of the framework, and the prefix of all keys."""
CHECKPOINT: Final = f"{MARK}/workflow"
"""The key of the workflow checkpoint that was saved last; see `pieces` for the keys below it."""
LATE: Final = f"{MARK}/late"
"""A key that exists if the checkpoint saved last may not be the one with the greatest timestamp."""
SNAPSHOT: Final = f"{MARK}/session"
"""The key of the facts about a snapshot of an `AgentSession`."""
VALUES: Final = f"{MARK}/state"
"""The key of the state in that snapshot."""
