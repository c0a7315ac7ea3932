"""The limits of what a server accepts, returns and keeps, with their reasons."""

from __future__ import annotations

from typing import Final

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Limit of a request body: a message with some large images. One append of the journal is limited to as much."""
QUERY_BYTES_MAX: Final = 8192
"""Limit of the query string of a URL."""
ROWS_MAX: Final = 500
"""Most rows of a page of history, of sessions, checkpoints or hits."""
OUTLINE_ROWS_MAX: Final = 2000
"""Most rows of a window of the tree."""
IDS_MAX: Final = 1000
"""Most ids in a list of nodes."""
CARDS_SEARCHED_MAX: Final = 500
"""A request for sessions with a text looks at so many cards at most; its cursor continues behind them."""
VIEWS_MAX: Final = 64
"""Most views that are kept open, one for each recently requested session."""
VIEW_NODES_MAX: Final = 1_000_000
"""Most nodes in all kept views together; a view whose tree was requested takes about 100 bytes for each."""
STREAMS_MAX: Final = 1000
"""Most answers that one worker writes at a time; each has an open session."""
STREAM_IDLE_SECONDS: Final = 60.0
"""A client that sends no piece for this time counts as dead. Models think for some seconds before a tool call."""
STREAM_POLL_SECONDS: Final = 0.2
"""Interval at which a followed answer is polled."""
HEARTBEAT_SECONDS: Final = 15
"""Proxies end a response that is silent for a minute, many after 30 seconds."""
POLL_SECONDS: Final = 1.0
"""Interval at which a followed session is polled; all its followers share the polls."""
MESSAGES_MAX: Final = 1000
"""Most messages of one request."""
VIEWERS_MAX: Final = 64
"""Most viewers of a session whose choice is remembered; the least recent choice is dropped."""
ID_CHARACTERS_MAX: Final = 2000
"""Limit of the ids of nodes that an interface or a viewer sends; ids of programs have some dozens of characters."""
TEXT_CHARACTERS_MAX: Final = 4096
"""Limit of the title, project and folder of a new session: a path may be as long on Linux."""
NAME_CHARACTERS_MAX: Final = 200
"""Limit of an idempotency key, and of the names of viewers, heads and sessions."""
