"""`python -m treering` is the command line."""

from treering.cli import main

if __name__ == "__main__":
    main()
