"""Sessions of oh-my-pi, which began as a copy of pi."""
