"""Importers: session files of other programs, read as drafts, and as their programs see them."""

from treering.importers.entry import Entry
from treering.importers.pi import detect, find, open_source
from treering.importers.session_file import ContextMessage, FileContext, SessionFile, read
from treering.importers.source import Imported, Importer, ImportSource, Problem

__all__ = [
    "ContextMessage",
    "Entry",
    "FileContext",
    "ImportSource",
    "Imported",
    "Importer",
    "Problem",
    "SessionFile",
    "detect",
    "find",
    "open_source",
    "read",
]
