"""`verify` and `stats`: the integrity and the size of stored data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import click

from treering.api.store import Store
from treering.cli import exits
from treering.cli.completion import session_argument
from treering.cli.names import (
    all_sessions,
    find_session,
    namespace_cell,
    namespace_of,
    open_view,
    part_of,
    parts_of,
    typed,
)
from treering.cli.output import Cell, Field, Output, id_cell, progress
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import counted, size_text
from treering.errors import NotFoundError, TreeringError
from treering.maintenance.verify import DAMAGE, Finding
from treering.session.reader import Readable
from treering.session.verbs.reading import stored
from treering.storage.requests import Answer, Found, Get, Steps
from treering.storage.run import checked, list_all
from treering.store.info import SessionInfo


class Checked(NamedTuple):
    """The findings for one name."""

    namespace: tuple[str, ...]
    name: str
    findings: list[Finding]


@click.command()
@json_option
@session_argument(required=False)
@click.option("--strict", is_flag=True, help="Exit with 6 for oddities, too.")
@store_options()
@click.pass_context
def verify(context: click.Context, *, as_json: bool, session: str | None, strict: bool) -> None:
    """Read all stored data and report all damage.

    Checks one session, or all sessions and the values that integrations keep beside them, also in namespaces. Changes
    nothing. Ends with exit code 6 if anything is damaged. Oddities lose nothing, for example a node without its parent
    in an imported session, or bytes that a kill left behind; they are listed and count with --strict.
    """
    store = context.find_object(Settings).open()  # type: ignore[union-attr]  # made by the program
    out, (sessions, parcels) = Output(), _check(store, session)
    checks = [*sessions, *parcels]
    bad = sum(finding.severity == DAMAGE or strict for check in checks for finding in check.findings)
    if as_json:
        found = {
            "sessions": [_checked_document("session", check) for check in sessions],
            "parcels": [_checked_document("parcel", check) for check in parcels],
        }
        out.document({**found, "sound": not bad})
    else:
        for check in checks:
            for finding in check.findings:
                _print(out, check, finding)
        beside = f" and {counted(len(parcels), 'parcel')}" if parcels else ""
        inner = [check.namespace for check in checks if check.namespace]
        where = f", {len(inner)} of them in {counted(len(set(inner)), 'namespace')}" if inner else ""
        said = counted(bad, "finding") if bad else "sound"
        out.say(f"checked {counted(len(sessions), 'session')}{beside}{where}: {said}")
    context.exit(exits.CORRUPT if bad else 0)


def _check(store: Store, session: str | None) -> tuple[list[Checked], list[Checked]]:
    """Return the findings in one or all sessions and parcels; the caller prints them after the progress bar."""
    if session is None:
        checks: tuple[list[Checked], list[Checked]] = ([], [])
        with progress("verifying") as step:
            for part in parts_of(store):
                for kind, found in zip(checks, (part.verify_all(), part.verify_parcels()), strict=True):
                    for check in found:
                        kind.append(Checked(namespace_of(part), *check))
                        step(sum(map(len, checks)), f"verified {check[0]}")
        return checks
    try:
        return [Checked(namespace_of(store), session, store.verify(session))], []
    except NotFoundError:
        there, exact = find_session(store, session)
        return [Checked(namespace_of(there), exact, there.verify(exact))], []


def _checked_document(kind: str, check: Checked) -> dict[str, object]:
    return {kind: check.name, "namespace": check.namespace, "findings": check.findings}


def _print(out: Output, check: Checked, finding: Finding) -> None:
    positions = "" if finding.first is None else f"{finding.first}-{finding.end}"
    if not out.terminal:
        offset = "" if finding.offset is None else str(finding.offset)
        fields = (check.name, finding.severity, finding.kind, finding.key, offset, positions, finding.message)
        out.table((), [(*fields, finding.remedy, namespace_cell(check.namespace))])
        return
    style = "bold red" if finding.severity == DAMAGE else "yellow"
    out.line((finding.severity, style), (f"  {finding.kind}", ""), (f"  {check.name}", "cyan"))
    out.block(finding.message, indent=2)
    where = [
        ("namespace", namespace_cell(check.namespace).full),
        ("key", finding.key),
        ("positions", positions),
        ("remedy", finding.remedy),
    ]
    for label, value in where:
        if value:
            out.block(f"{label}: {value}", "dim", indent=2)


class AtRest(NamedTuple):
    """The size of a session in the store."""

    records: int
    nodes: int
    checkpoints: int
    segments: int
    waste: int
    """Segments whose records are also in other segments; sealing removes them."""
    unsealed: int
    """Records in the tail."""
    segment_bytes: int
    tail_bytes: int
    latest_bytes: int
    blobs: int
    blob_bytes: int

    @property
    def bytes(self) -> int:
        """The sum of all bytes."""
        return self.segment_bytes + self.tail_bytes + self.latest_bytes + self.blob_bytes


def at_rest(reader: Readable) -> Steps[AtRest]:
    """Measure a session by names and sizes; reads its two registers and lists its folder."""
    counts = yield from stored(reader)
    keys, card = reader.keys, reader.replica.state.card
    registers = yield tuple(Get(key, start=0, end=1, register=True) for key in (keys.latest, keys.tail))
    latest_bytes, tail_bytes = map(_size, registers)
    sizes = [entry.size for entry in (yield from list_all(keys.blobs(reader.replica.view.life)))]
    return AtRest(
        records=counts.records,
        nodes=card.nodes,
        checkpoints=card.checkpoints,
        segments=counts.segments,
        waste=counts.waste,
        unsealed=counts.tail_records,
        segment_bytes=counts.segment_bytes,
        tail_bytes=tail_bytes,
        latest_bytes=latest_bytes,
        blobs=len(sizes),
        blob_bytes=sum(sizes),
    )


def _size(answer: Answer) -> int:
    """The size of a register; an imported session has no tail before its first append."""
    return 0 if isinstance(answer, NotFoundError) else checked(answer, Found).size


@click.command()
@json_option
@session_argument(required=False)
@store_options()
@click.pass_context
def stats(context: click.Context, *, as_json: bool, session: str | None) -> None:
    """Show how much space sessions take in the store, also those in namespaces."""
    store, out = context.ensure_object(Settings).open(), Output()
    if session is not None:
        view = open_view(store, session)
        found = view.perform(at_rest)
        if as_json:
            out.document(_document(view.info, found))
        else:
            namespace = namespace_cell(view.info.namespace)
            out.facts([("session", view.id), ("namespace", namespace), *_facts(found)])
        return
    rows, errors = _measure_all(store)
    if as_json:
        total = AtRest(*(sum(column) for column in zip(*(row for _, row in rows), strict=True))) if rows else None
        out.document({"sessions": [_document(info, row) for info, row in rows], "total": total and _numbers(total)})
    else:
        _print_rows(out, rows)
    for info, error in errors:
        out.say(f"not measured: {typed(info)}: {exits.line_of(error)}")
    if errors:
        context.exit(exits.PARTLY)


def _measure_all(store: Store) -> tuple[list[tuple[SessionInfo, AtRest]], list[tuple[SessionInfo, TreeringError]]]:
    """Return the numbers of each session, and the errors of those that cannot be read."""
    found: list[tuple[SessionInfo, AtRest]] = []
    errors: list[tuple[SessionInfo, TreeringError]] = []
    with progress("counting") as step:
        for done, info in enumerate(all_sessions(store), 1):
            try:
                found.append((info, part_of(store, info.namespace).view(info.id).perform(at_rest)))
            except TreeringError as error:
                errors.append((info, error))
            step(done)
    return found, errors


def _numbers(found: AtRest) -> dict[str, int]:
    return {**found._asdict(), "bytes": found.bytes}


def _document(info: SessionInfo, found: AtRest) -> dict[str, object]:
    return {"session": info.id, "namespace": info.namespace, **_numbers(found)}


def _facts(found: AtRest) -> Iterator[tuple[str, Field]]:
    for name, number in _numbers(found).items():
        yield name.replace("_", " "), _number(name, number)


def _number(name: str, number: int) -> Cell:
    return Cell(str(number), size_text(number) if name.endswith("bytes") else f"{number:,}")


def _print_rows(out: Output, rows: Iterable[tuple[SessionInfo, AtRest]]) -> None:
    names = ("records", "nodes", "checkpoints", "segments", "waste", "unsealed", "blobs", "bytes")
    table: list[tuple[Field, ...]] = [
        (*(_number(name, _numbers(row)[name]) for name in names), id_cell(info.id), namespace_cell(info.namespace))
        for info, row in rows
    ]
    out.table((*names, "session", "namespace"), table, right=names, stretch="session")
