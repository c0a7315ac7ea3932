"""Every number that bounds what a server takes, gives or keeps, with its reason."""

from __future__ import annotations

from typing import Final

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of a request: a message with some large images. One append of the journal holds no more, either."""
QUERY_BYTES_MAX: Final = 8192
"""Of what stands behind the `?` of a URL."""
ROWS_MAX: Final = 500
"""Most rows of a page of history, of sessions, checkpoints or hits."""
OUTLINE_ROWS_MAX: Final = 2000
"""Most rows of a window of the tree."""
IDS_MAX: Final = 1000
"""Most ids in a list of nodes."""
CARDS_SEARCHED_MAX: Final = 500
"""Newest cards that are looked through for a text: a screen of a list asks for one page of that."""
VIEWS_MAX: Final = 64
"""Views that are kept open, one for each session asked for lately."""
VIEW_NODES_MAX: Final = 1_000_000
"""Nodes in all kept views together; a view of a session whose tree was looked at has about 100 bytes for each."""
STREAMS_MAX: Final = 1000
"""Answers that one worker writes at a time; each has an open session."""
STREAM_IDLE_SECONDS: Final = 60.0
"""A client that sends no piece for so long is taken for dead. Models think for some seconds before a tool."""
STREAM_POLL_SECONDS: Final = 0.2
"""Between two looks at an answer that somebody follows."""
HEARTBEAT_SECONDS: Final = 15
"""Proxies end a response that is silent for a minute, many after 30 seconds."""
POLL_SECONDS: Final = 1.0
"""Between two looks at a session that somebody follows; all its followers share them."""
MESSAGES_MAX: Final = 1000
"""Of one request."""
VIEWERS_MAX: Final = 64
"""Whose choice is remembered for a session; who chose least recently is forgotten."""
NAME_CHARACTERS_MAX: Final = 200
"""Of an idempotency key, and of the name of a viewer."""
