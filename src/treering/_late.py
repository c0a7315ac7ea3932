"""Import what a package offers when it is first used (PEP 562): most processes use little of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


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


def modules(package: str, *names: str) -> dict[str, str]:
    """Return the places of modules of a package, for `late`."""
    return {name: f"{package}.{name}" for name in names}
