"""Sessions: what users hold. Puts transcript and checkpoint together over one journal.

`state` is the fold that says where a session stands, `reader` finds things in one, `writer` records, `verbs`,
`navigation` and `lineage` are what can be done with it, `session` and `store` are the objects callers hold, blocking
and asynchronous from the same protocols.
"""
