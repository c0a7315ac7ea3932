"""Sessions of kit."""
