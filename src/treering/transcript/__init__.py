"""The transcript: all steps of a conversation, as a graph of nodes that only grows."""
