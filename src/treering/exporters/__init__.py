"""Exporters: sessions written as files of other programs, which these take up where the session stands."""

from treering.exporters.export import Exported, export
from treering.programs.common.target import LeftOut

__all__ = ["Exported", "LeftOut", "export"]
