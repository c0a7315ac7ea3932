"""The OpenAPI document of the API, made from the routes and their types, and an HTML page of it for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.responses import Response

import treering
from treering.server.errors import STATUS, STATUS_OF_KIND, FailureBody
from treering.server.route import JSON, LINES, Route
from treering.server.table import ROUTES

SCHEMAS: Final = "#/components/schemas/"
FAILURES: Final = sorted({*STATUS.values(), *STATUS_OF_KIND.values()})


@cache
def document(api: str) -> Mapping[str, Any]:
    """Return the OpenAPI document.

    Args:
        api: The path of the API below the application's path.
    """
    types = _types()
    found, components = msgspec.json.schema_components(types, schema_hook=_anything, ref_template=SCHEMAS + "{name}")
    schemas = dict(zip(map(repr, types), found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(f"{api}/{route.shown_path}", {})[route.method.lower()] = _operation(route, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Treering",
            "version": treering.__version__,
            "description": "Sessions of AI agents: what happened in them, and what they need to go on.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {"failure": _content("What happened, and what to do.", schemas[repr(FailureBody)])},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _anything(_: type) -> dict[str, Any]:
    """The schema of values whose type is not known: those that agents recorded."""
    return {"description": "Any value that an agent recorded."}


def _types() -> list[Any]:
    found: list[Any] = [FailureBody]
    for route in ROUTES:
        found += [route.types.query, *([route.types.body] if route.types.body is not None else [])]
        found += [route.types.answer] if _is_json(route) else []
    return list({repr(each): each for each in found}.values())


def _is_json(route: Route) -> bool:
    return not (isinstance(route.types.answer, type) and issubclass(route.types.answer, Response))


def _answer(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    said = HTTPStatus(route.status).phrase
    if _is_json(route):
        return _content(said, schemas[repr(route.types.answer)])
    if route.status == HTTPStatus.NO_CONTENT:
        return {"description": said}
    return _content(said, {"type": "string"}, route.media_type)


def _operation(route: Route, schemas: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    summary, said = route.said
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": summary,
        "parameters": [*map(_in_path, route.names), *_in_query(route, schemas, components), *_headers(route)],
        "responses": {
            str(route.status): _answer(route, schemas),
            **{str(status): {"$ref": "#/components/responses/failure"} for status in FAILURES},
        },
    }
    if said:
        operation["description"] = said
    if route.types.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {LINES if route.types.lines else JSON: {"schema": schemas[repr(route.types.body)]}},
        }
    return operation


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _in_query(route: Route, schemas: Mapping[str, Any], components: Mapping[str, Any]) -> list[dict[str, Any]]:
    schema = components[schemas[repr(route.types.query)]["$ref"].removeprefix(SCHEMAS)]
    needed = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": _asked(each)}
        for name, each in schema["properties"].items()
    ]


def _asked(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a parameter without null, since a null parameter is left out."""
    if "anyOf" not in schema:
        return schema
    (kind,) = [each for each in schema["anyOf"] if each.get("type") != "null"]
    return kind if schema.get("default") is None else {**kind, "default": schema["default"]}


def _headers(route: Route) -> Sequence[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "required": False, "description": said, "schema": {"type": "string"}}
        for name, said in route.headers.items()
    ]


def _content(said: str, schema: object, media_type: str = JSON) -> dict[str, Any]:
    return {"description": said, "content": {media_type: {"schema": schema}}}


def page(described: Mapping[str, Any]) -> str:
    """Return the document as an HTML page without scripts or external resources."""
    parts = [f"<h1>{escape(described['info']['title'])}</h1><p>{escape(described['info']['description'])}</p>"]
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2>{method.upper()} {escape(path)}</h2><p>{escape(operation['summary'])}</p>")
            if said := operation.get("description"):
                parts.append(f"<p>{escape(said)}</p>")
            asked = "".join(
                f"<li><code>{escape(each['name'])}</code> ({each['in']})" for each in operation["parameters"]
            )
            parts.append(f"<ul>{asked}</ul>" if asked else "")
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Treering: the API</title>{"".join(parts)}'
