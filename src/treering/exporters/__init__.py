"""Exporters: they write sessions as files that other programs continue, and as pages for browsers."""

from treering.exporters.export import Exported, export
from treering.exporters.install import installed_path
from treering.exporters.page import ExportedPage, export_page
from treering.programs.common.target import LeftOut

__all__ = ["Exported", "ExportedPage", "LeftOut", "export", "export_page", "installed_path"]
