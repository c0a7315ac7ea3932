"""The programs whose sessions are read and written, one folder each; `common` has the code that they share.

A program is a package, and each of its modules is a part:

    read     reads its session files as drafts                        `treering.programs.formats.Format`
    locate   finds its session files                                  `treering.programs.formats.Locator`
    write    writes a session as a file of the program                `treering.programs.common.target.Exporter`
    policy   chooses messages for a model; its import registers it    `treering.checkpoint.policy`
    message  translates messages with field names of its own          `treering.messages.Shape`
    repair   describes its files for `treering doctor`                `treering.programs.common.tree_rules`

Only `read` and `locate` are required. Names of policies and views begin with the name of the program, followed by a
character that is no letter, so that the program is found by these names when a session is resumed.

Other distributions register a package by an entry point of the group `treering.programs`. A part is imported when it is
needed. Entry points are read only if no known program has a name or accepts a file.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

from treering._late import Kind
from treering.errors import UsageError
from treering.messages import register_shape

GROUP: Final = "treering.programs"
"""The group of the entry points by which distributions offer programs: each gives a program's name and package."""
BUILT_IN: Final = ("omp", "kit", "operator", "evva", "claude", "strands", "pi")
"""The built-in programs, in the order in which they are asked whether they accept a file.

pi comes last, since its header is the simplest; the other programs accept no file of pi."""

_registered: dict[str, object] = {}


def register_program(name: str, program: object) -> None:
    """Register a program in this process. It is asked before the built-in programs whether it accepts a file.

    A distribution can offer a program to every process instead, by an entry point of the group `treering.programs`.

    Args:
        name: A word of small letters and underscores.
        program: The name of its package, or an object with the parts as attributes. A registered program of the same
            name is replaced.

    Raises:
        UsageError: A built-in program has this name.
    """
    if name in BUILT_IN:
        raise UsageError(f"program has the name of one that exists. program={name!r}", kind=Kind.FORMAT)
    _registered[name] = program
    _load_message(name)


def known_programs() -> list[str]:
    """Return the names of all registered programs, in the order in which they are asked about a file."""
    return [*_registered, *BUILT_IN]


def part_of(name: str, part: str) -> Any:
    """Return a part of a program, imported if necessary; None if there is no such program or part.

    Args:
        name: The program.
        part: `read`, `locate`, `write`, `policy`, `message` or `repair`.
    """
    program = _find(name)
    if not isinstance(program, str):
        return getattr(program, part, None)
    module = f"{program}.{part}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name in (module, program):
            return None
        raise


def has_part(name: str, part: str) -> bool:
    """Tell whether a program has a part, without importing it."""
    from importlib.util import find_spec

    program = _find(name)
    return find_spec(f"{program}.{part}") is not None if isinstance(program, str) else hasattr(program, part)


def load_policies(name: str) -> None:
    """Import the module that registers the policies and views of a program, if there is one."""
    part_of(name, "policy")


def load_messages() -> None:
    """Register the messages of the built-in programs."""
    for name in BUILT_IN:
        _load_message(name)


def load_installed_messages() -> None:
    """Register the messages of programs that other distributions offer."""
    for name in _installed():
        _load_message(name)


def _load_message(name: str) -> None:
    shape = part_of(name, "message")
    if shape is not None:
        register_shape(name, shape)


def load_installed() -> list[str]:
    """Register the programs that other distributions offer, and return the names of new ones.

    A program that cannot be imported is ignored.
    """
    before = set(_registered)
    for name in _installed():
        _find(name)
    return [name for name in _registered if name not in before]


def _find(name: str) -> object:
    if name in BUILT_IN:
        return f"{__name__}.{name}"
    if name not in _registered and name in _installed():
        package = _installed()[name]
        try:
            import_module(f"{package}.read")
        except ImportError:
            return None
        _registered[name] = package
    return _registered.get(name)


@cache
def _installed() -> dict[str, str]:
    """Return the packages of programs in other distributions, by the programs' names."""
    from importlib.metadata import entry_points  # slow to import

    return {point.name: point.value for point in entry_points(group=GROUP) if point.name not in BUILT_IN}
