"""Where the bytes go: requests, the drivers that run them, and wrappers that retry, count or fail on purpose."""
