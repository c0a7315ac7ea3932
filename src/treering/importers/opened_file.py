"""A session file of another program, opened to be imported."""

from __future__ import annotations

from pathlib import Path

from treering.importers.origin import Origin, name_of_path, stat_of
from treering.programs.common.folder import StoredFolder
from treering.programs.common.growth import Growth, Looks, grows
from treering.programs.common.source import ImportSource
from treering.programs.formats import Format, detect_format, find_format


def open_file(place: Path | StoredFolder, of: Format | None, name: str | None, pipe: Path | None) -> OpenedFile:
    """Open a file.

    Args:
        place: The file or folder.
        of: Its format, if that is not registered.
        name: The name of its format, if `of` is None; by default the format is detected.
        pipe: The pipe from which the file was copied, or None.
    """
    stat = stat_of(place) if pipe is None else (0, 0)
    found = of or (find_format(name) if name is not None else detect_format(place))
    return OpenedFile(pipe or place, stat, found, found.open_source(place), lasts=pipe is None)


class OpenedFile:
    """A file about to be imported."""

    def __init__(
        self, path: Path | StoredFolder, stat: tuple[int, int], found: Format, source: ImportSource, *, lasts: bool
    ) -> None:
        self.path = path
        self.name = name_of_path(path) if lasts else ""
        """The path as text; empty for a pipe, which can be read only once."""
        self.stat = stat
        """Size and time from before the file was opened, so that later growth is noticed."""
        self.format = found
        self.source = source

    def growth(self, looks: Looks, units_max: int = 0) -> Growth | None:
        """Return the reading that continues after at most `units_max` records; None: read from the beginning."""
        path, source = self.path, self.source
        lasts = self.name and isinstance(path, Path) and grows(source)
        return looks.growth(Path(path), source.header.format, units_max) if lasts else None

    def is_of(self, origin: Origin) -> bool:
        """Tell by the header whether it is the session of an origin."""
        header = self.source.header
        return (origin.format, origin.id) == (header.format, header.session_id)
