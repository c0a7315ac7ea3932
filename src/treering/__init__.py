"""Treering."""
