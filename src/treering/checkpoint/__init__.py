"""Checkpoints: the state and context from which an agent continues, stored as deltas."""
