"""Write the tables of the HTTP reference from the routes; with `--check`, only say whether they are up to date.

A table stands between two comments, the first of which names it. `python -m tests.docs.http` writes the page anew.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from tests.docs.docstrings import attributes, paragraph
from tests.docs.pages import ROOT, rewrite

from treering.server import answers
from treering.server.errors import STATUS, STATUS_OF_KIND
from treering.server.route import Route
from treering.server.security import ALWAYS
from treering.server.table import READS, STREAMS, WRITES

PAGE = ROOT / "docs/reference/http.md"

_block = re.compile(r"(<!-- ([\w .]+): written by `python -m tests\.docs\.http` -->\n).*?(\n<!-- end -->)", re.DOTALL)


def routes(some: Iterable[Route]) -> Iterator[list[str]]:
    """What each route takes and answers, and what it does."""
    for route in some:
        takes = [*_fields(route.types.query, "?"), *(_fields(route.types.body, "") if route.types.body else [])]
        answer = "" if route.status == 204 else f"`{_name(route.types.answer)}`"
        yield [f"`{route.method} {route.shown_path}`", ", ".join(takes), answer, paragraph(route.handler.__doc__)]


def _name(kind: Any) -> str:
    if kind is Any:
        return "JSON"
    text = kind.__name__ if isinstance(kind, type) and not getattr(kind, "__args__", ()) else str(kind)
    text = re.sub(r"[\w.]+\.(\w+)", r"\1", text)
    return {"EventSourceResponse": "events", "Response": "bytes"}.get(text, text)


def _fields(kind: Any, mark: str) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        yield f"`{mark}{field.encode_name}`" if field.required else f"`{mark}{field.encode_name}`?"


def types() -> Iterator[list[str]]:
    """The types that the API has beside those of the library, with what is said of their fields."""
    for kind in vars(answers).values():
        if isinstance(kind, type) and kind.__module__ == answers.__name__:
            fields = ", ".join(f"`{name}`" for name in kind.__annotations__)
            base = kind.__mro__[1]
            more = f"fields of `{base.__name__}`, and " if base is not msgspec.Struct else ""
            yield [f"`{kind.__name__}`", paragraph(kind.__doc__), f"{more}{fields}"]


def parameters() -> Iterator[list[str]]:
    """What is said of parameters and fields of bodies, by the route that has them."""
    for route in (*READS, *WRITES, *STREAMS):
        for kind in (route.types.query, route.types.body):
            said = attributes(kind) if kind is not None else {}
            for name, (_, text) in said.items():
                yield [f"`{route.handler.__name__}`", f"`{name}`", " ".join(text.split())]


def statuses() -> Iterator[list[str]]:
    """The statuses of errors, with the classes and kinds that have them."""
    for status in sorted({*STATUS.values(), *STATUS_OF_KIND.values()}):
        classes = [f"`{kind.__name__}`" for kind, each in STATUS.items() if each == status]
        kinds = [f"`{kind}`" for kind, each in STATUS_OF_KIND.items() if each == status]
        yield [str(status), ", ".join(classes), ", ".join(kinds)]


def headers() -> Iterator[list[str]]:
    """The headers of every answer."""
    for name, value in ALWAYS.items():
        yield [f"`{name}`", f"`{value}`"]


ROUTES = ["Route", "Takes", "Answers", "What it does"]
TABLES = {
    "reads": lambda: (ROUTES, routes(READS)),
    "writes": lambda: (ROUTES, routes(WRITES)),
    "streams": lambda: (ROUTES, routes(STREAMS)),
    "parameters": lambda: (["Of", "Name", "Meaning"], parameters()),
    "answers": lambda: (["Type", "What it is", "Fields"], types()),
    "statuses": lambda: (["Status", "Classes of errors", "Kinds"], statuses()),
    "headers": lambda: (["Header", "Value"], headers()),
}


def page(text: str) -> str:
    """The page with its tables written anew."""
    return _block.sub(lambda found: f"{found[1]}\n{_table(*TABLES[found[2]]())}\n{found[3]}", text)


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    cells = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(each.replace('|', 'or') for each in row)} |" for row in cells).replace(
        "| --- ", "|---"
    )


if __name__ == "__main__":
    sys.exit(rewrite(PAGE, page, sys.argv[1:], root=ROOT, program="tests.docs.http"))
