"""The journal of one session: two swapped registers and immutable segments. No I/O, only protocols.

`register` compares and swaps one object, and `attempts` bounds retries; everything else uses these. `view`
holds what a process knows of a session; `resume` reads it, `append` adds records, `cover` seals and closes, `read`
walks all records, `merge` tidies segments, `life` creates and deletes. The rules they keep stand in
`docs/reference/journal.md`, each with the mutant that breaks when it is removed.
"""
