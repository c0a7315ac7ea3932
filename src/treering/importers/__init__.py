"""Importers: session files of other programs, read as drafts, and as their programs see them."""

from treering.importers.discovery import discover, find_sessions, recent
from treering.importers.doctor import Diagnosis, Finding, diagnose
from treering.importers.entry import Entry
from treering.importers.formats import Format, detect_format, find_format, register_format
from treering.importers.intake import Intake, Taken
from treering.importers.mending import Repaired, repair
from treering.importers.origin import Origin, origin_of
from treering.importers.pi import detect, find, open_source
from treering.importers.rules import Rules
from treering.importers.session_file import ContextMessage, FileContext, SessionFile, read
from treering.importers.source import Imported, Importer, ImportSource, Problem

__all__ = [
    "ContextMessage",
    "Diagnosis",
    "Entry",
    "FileContext",
    "Finding",
    "Format",
    "ImportSource",
    "Imported",
    "Importer",
    "Intake",
    "Origin",
    "Problem",
    "Repaired",
    "Rules",
    "SessionFile",
    "Taken",
    "detect",
    "detect_format",
    "diagnose",
    "discover",
    "find",
    "find_format",
    "find_sessions",
    "open_source",
    "origin_of",
    "read",
    "recent",
    "register_format",
    "repair",
]
