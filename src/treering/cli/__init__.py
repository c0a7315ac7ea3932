"""The command line. Only this package prints and reads the environment; all other work is done by the library."""

from treering.cli.app import main

__all__ = ["main"]
