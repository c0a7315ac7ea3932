"""A process that resumes one session and ends. It imports as little as it can besides the contestant's own needs."""

import sys
from importlib import import_module


def main() -> None:
    """Resume the session that the arguments name, and print the peak of memory in bytes."""
    module, kind, place, window, session = sys.argv[1:]
    getattr(import_module(f"benchmarks.contestants.{module}"), kind)(place, int(window)).resume(session)
    print(peak_memory())


def peak_memory() -> int:
    """Return the most bytes this process ever had in memory."""
    try:
        with open("/proc/self/status") as file:
            # What `getrusage` tells on Linux includes the parent before it started us.
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except FileNotFoundError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
