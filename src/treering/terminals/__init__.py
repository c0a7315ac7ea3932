"""Which session a terminal used last: kept on this computer, so that it is the one to continue there."""

from treering.terminals.breadcrumb import leave_breadcrumb
from treering.terminals.recent import arecent, recent
from treering.terminals.terminal import Terminal, this_terminal

__all__ = ["Terminal", "arecent", "leave_breadcrumb", "recent", "this_terminal"]
