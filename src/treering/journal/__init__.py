"""The journal of one session: two swapped registers and immutable segments. No I/O, only protocols.

`view` says what a process knows of a session; `resume` learns it, `append` adds records, `cover` seals and closes,
`read` walks all records, `merge` tidies segments, `life` creates and deletes. The rules they keep stand in
`docs/reference/journal.md`, each with the mutant that breaks when it is removed.
"""
