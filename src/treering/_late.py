"""Import what a package offers when it is first used (PEP 562): most processes use little of it."""

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
        places: By name, the module that has it; a module of the package by its own name.
    """

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(places[name])
        return module if places[name] == f"{package}.{name}" else getattr(module, name)

    return get


def later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports a module when it is called, and calls what has a name there."""

    def call(*args: Any) -> Any:
        return getattr(import_module(module), name)(*args)

    return call


def modules(package: str, *names: str) -> dict[str, str]:
    """Return the places of modules of a package, for `late`."""
    return {name: f"{package}.{name}" for name in names}


class _Words:
    """Stands for `treering.kinds.Kind`, which is made when an error first names one of its members.

    An enumeration of so many takes as long to make as seven modules of ours to import, and most processes fail at
    nothing. So every module that a resume loads names kinds by this.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(import_module("treering.kinds").Kind, name)
        except (ImportError, OSError):  # no file can be opened any more, which is what the error will say
            return name.lower()  # which is what a member equals; `READ_ONLY` alone has a hyphen


if not TYPE_CHECKING:
    Kind = _Words()
