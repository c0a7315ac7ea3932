"""What users hold: stores and sessions, blocking and asynchronous. Both are written by `python -m tests.facades`."""
