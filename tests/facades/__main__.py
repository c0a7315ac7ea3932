"""Write the modules of `treering.api`; with `--check`, only say which of them are not up to date."""

from __future__ import annotations

import sys

from tests.facades.pages import every_page
from tests.facades.source import ROOT


def main(arguments: list[str]) -> int:
    """Write what differs, or with `--check` only name it."""
    stale = [(page.path, text) for page in every_page() if (text := page.text) != page.written]
    for path, text in stale:
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is not what `python -m tests.facades` writes")
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
