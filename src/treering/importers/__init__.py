"""Importers: they read session files of other programs as drafts, and in the way of these programs."""

from treering.importers.discovery import Folder, Recent, discover, find_sessions, recent
from treering.importers.file_importer import FileImporter, ImportResult
from treering.importers.file_repair import Repaired, diagnose, repair
from treering.importers.origin import Origin, origin_of
from treering.importers.parsed_file import Diagnosis, FileFinding
from treering.importers.session_file import ContextMessage, FileContext, SessionFile, read
from treering.programs import register_program
from treering.programs.common.entry import Entry
from treering.programs.common.folder import StoredFolder
from treering.programs.common.growth import Looks
from treering.programs.common.read_file import ReadFile
from treering.programs.common.rules import Rules
from treering.programs.common.source import Imported, Importer, ImportSource, Problem
from treering.programs.formats import Format, detect_format, find_format

__all__ = [
    "ContextMessage",
    "Diagnosis",
    "Entry",
    "FileContext",
    "FileFinding",
    "FileImporter",
    "Folder",
    "Format",
    "ImportResult",
    "ImportSource",
    "Imported",
    "Importer",
    "Looks",
    "Origin",
    "Problem",
    "ReadFile",
    "Recent",
    "Repaired",
    "Rules",
    "SessionFile",
    "StoredFolder",
    "detect_format",
    "diagnose",
    "discover",
    "find_format",
    "find_sessions",
    "origin_of",
    "read",
    "recent",
    "register_program",
    "repair",
]
