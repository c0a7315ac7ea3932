"""Sessions of evva."""
