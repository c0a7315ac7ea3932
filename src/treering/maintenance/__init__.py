"""Look after stored sessions: find damage. Nothing here changes what it looks at."""
