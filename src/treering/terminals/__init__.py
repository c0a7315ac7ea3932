"""Remember on this computer which session each terminal used last, so that it can be continued there."""

from treering.terminals.breadcrumb import leave_breadcrumb
from treering.terminals.recent import arecent, recent
from treering.terminals.terminal import Terminal, this_terminal

__all__ = ["Terminal", "arecent", "leave_breadcrumb", "recent", "this_terminal"]
