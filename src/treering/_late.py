"""Import the names of a package when they are first used (PEP 562): most processes use few of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.kinds import Kind

__all__ = ["Kind", "late", "later", "modules"]


def late(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package.

    Args:
        package: Its name.
        places: The module of each name; for a module of the package, its own full name.
    """

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(places[name])
        return module if places[name] == f"{package}.{name}" else getattr(module, name)

    return get


def later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports a module when it is called, and calls the module's function of this name."""

    def call(*args: Any) -> Any:
        return getattr(import_module(module), name)(*args)

    return call


def modules(package: str, *names: str) -> dict[str, str]:
    """Return the places of modules of a package, for `late`."""
    return {name: f"{package}.{name}" for name in names}


class _Words:
    """A stand-in for `treering.kinds.Kind`, which is created when an error first names one of its members.

    Creating an enumeration of this size takes as long as importing seven modules of this package, and most processes
    raise no error. So every module that a resume loads uses this stand-in.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(import_module("treering.kinds").Kind, name)
        except (ImportError, OSError):  # no file can be opened any more, and the error to be raised says so
            return name.lower()  # equal to the member, except for `READ_ONLY`, which has a hyphen


if not TYPE_CHECKING:
    Kind = _Words()
