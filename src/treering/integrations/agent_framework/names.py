"""Where the classes of this folder keep what they keep, in the state of a session.

Rule: a session may hold all of it: a history, a snapshot and checkpoints, and other state beside. No key of one is a
key of another.
"""

from __future__ import annotations

from typing import Final

MARK: Final = "agent_framework"
"""What cards and the metadata of checkpoints tell about the framework is under this name, and so are our keys."""
CHECKPOINT: Final = f"{MARK}/workflow"
"""The key with the workflow's checkpoint that was saved last; see `pieces` for those below it."""
LATE: Final = f"{MARK}/late"
"""The key that says that this may not be the one with the greatest timestamp."""
SNAPSHOT: Final = f"{MARK}/session"
"""The key with the facts about a snapshot of an `AgentSession`."""
VALUES: Final = f"{MARK}/state"
"""The key with its state."""
