"""The program `treering`, also as `python -m treering`."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # as in `treering.cli.exits`, which is not loaded yet


def start() -> None:
    """Load the command line and run it."""
    try:
        from treering.cli import main  # here, so that an interrupt while it loads ends without a traceback
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    main()


if __name__ == "__main__":
    start()
