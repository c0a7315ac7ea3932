"""Sessions: what users hold. Puts transcript and checkpoint together over one journal.

`state` folds the records into the current state of a session. `reader` and `writer` put together the parts of a session
opened for reading or writing; `verbs` holds the operations on them. All are protocols without I/O: the facades in
`treering.api` run them, blocking or asynchronously.
"""
