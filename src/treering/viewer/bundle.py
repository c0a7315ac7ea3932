"""The modules of the viewer as one script.

A page that is opened from a disk may not import modules, so they are joined: each becomes a function, after those that
it imports. Its `import` lines become assignments from the results of other functions, and the function returns the
exported names. The viewer's modules import and export in no other way; a test checks that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter

from treering.viewer.assets import assets

_import = re.compile(r'^import \{ ([\w$, ]+) \} from "\./([\w-]+\.js)";$', re.MULTILINE)
_export = re.compile(r"^export ((?:async )?(?:function\*?|class|const) ([\w$]+))", re.MULTILINE)
_either = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


@cache
def script() -> str:
    """Return the script of a page that contains all files of the viewer."""
    modules = {name: asset.data.decode() for name, asset in assets().items() if name.endswith(".js")}
    return "".join(["'use strict';\n", *(_wrapped(name, modules[name]) for name in in_order(modules))])


def in_order(modules: Mapping[str, str]) -> list[str]:
    """Return the names of modules, each behind the modules that it imports.

    Args:
        modules: Texts by name.

    Raises:
        ValueError: Modules import each other in a circle.
    """
    try:
        return [*TopologicalSorter({name: _imported(text) for name, text in modules.items()}).static_order()]
    except CycleError as error:
        raise ValueError(f"modules import each other: {' -> '.join(error.args[1])}") from error


def _imported(text: str) -> list[str]:
    return [name for _, name in _import.findall(text)]


def _wrapped(name: str, text: str) -> str:
    """Return a module as a function that is called at once.

    Raises:
        ValueError: The module imports or exports in another way.
    """
    names = [match[2] for match in _export.finditer(text)]
    text = _export.sub(
        r"\1", _import.sub(lambda match: f"const {{ {_renamed(match[1])} }} = {_variable(match[2])};", text)
    )
    for odd in _either.findall(text):
        raise ValueError(f"module imports or exports in a way that is not known here. module={name!r}, line={odd!r}")
    returned = f"return {{ {', '.join(names)} }};\n" if names else ""
    return f"const {_variable(name)} = (() => {{\n{text}\n{returned}}})();\n"


def _renamed(names: str) -> str:
    """Return the names of an import as a destructuring pattern: `a as b` becomes `a: b`."""
    return ", ".join(_each_renamed(names))


def _each_renamed(names: str) -> Iterator[str]:
    for name in filter(None, map(str.strip, names.split(","))):
        yield name.replace(" as ", ": ")


def _variable(name: str) -> str:
    return "module_" + re.sub(r"\W", "_", name)
