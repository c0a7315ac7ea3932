"""What the readers and writers of several programs share: lines, trees, times, and the making of a file."""
