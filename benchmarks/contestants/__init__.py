"""Those who store the same sessions, each in its own way.

Modules import little at their top, since starting in a new process is one of the tasks.
"""
