"""Code shared by the readers and writers of several programs: lines, trees, times, and the composition of a file."""
