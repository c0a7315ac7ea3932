"""Checkpoints: what is needed to go on, and how it is stored as changes."""
