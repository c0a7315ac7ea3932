"""Exporters: sessions written as files of other programs, in which these programs continue at the session's head."""

from treering.exporters.export import Exported, export
from treering.exporters.install import installed_path
from treering.programs.common.target import LeftOut

__all__ = ["Exported", "LeftOut", "export", "installed_path"]
