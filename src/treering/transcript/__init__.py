"""The transcript: all that happened, as a graph of nodes that only grows."""
