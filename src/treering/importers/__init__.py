"""Importers: session files of other programs, read as drafts."""

from treering.importers.pi import detect, find, open_source
from treering.importers.source import Imported, Importer, ImportSource, Problem

__all__ = ["ImportSource", "Imported", "Importer", "Problem", "detect", "find", "open_source"]
