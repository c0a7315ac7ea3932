"""The command line. Only this package prints and reads the environment; everything it does goes through the library."""

from treering.cli.app import main

__all__ = ["main"]
