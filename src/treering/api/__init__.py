"""The public stores and sessions, blocking and asynchronous; `python -m tests.facades` writes most of both."""
