"""`import`: make sessions of files that other programs wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
import msgspec

from treering.cli import exits
from treering.cli.output import Output, Step, id_cell, progress
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import counted, one_line
from treering.errors import ConflictError, TreeringError
from treering.importers import ImportSource, Problem, find, open_source
from treering.session.store import LoadFacts, Store

PROBLEMS_SHOWN = 5  # of each file; `--problems` shows all
TITLE_CHARACTERS_MAX = 200  # the card is read by every list and must stay small; the note of the import has it all


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one file."""

    path: str
    session: str | None = None
    records: int = 0
    problems: list[Problem] = []
    error: str | None = None
    exists: bool = False
    """There is a session of that name already."""
    code: int = 0
    """The exit code that the error alone would have."""


@click.command("import")
@json_option
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--name", metavar="NAME", help="Name of the session, for a single file.  [default: its id in the file]")
@click.option("--project", metavar="NAME", default="", help="Project of the new sessions.")
@click.option("--problems", "all_problems", is_flag=True, help="Show every problem, not the first few of each file.")
@store_options()
@click.pass_context
def import_(
    context: click.Context, *, as_json: bool, paths: tuple[str, ...], name: str | None, project: str, all_problems: bool
) -> None:
    """Make sessions of the files of another program.

    Reads session files of pi, plain or compressed by gzip, and folders of them.

    A file that cannot be read is reported and the others are imported. A session that exists already is left as it is.
    """
    store, out = context.find_object(Settings).open(), Output()  # type: ignore[union-attr]  # made by the program
    files = _files(paths)
    if name is not None and len(files) > 1:
        raise click.UsageError("--name goes with a single file")
    outcomes = []
    with progress("importing", len(files)) as step:
        for done, file in enumerate(files):
            step(done, f"importing {file.path if isinstance(file, Outcome) else file}")
            outcomes.append(_import(store, file, name=name, project=project))
    if as_json:
        out.document(_document(outcomes))
    else:
        for outcome in outcomes:
            _print(out, outcome, None if all_problems else PROBLEMS_SHOWN)
        out.say(_summary(outcomes))
    context.exit(_code(outcomes))


def _files(paths: tuple[str, ...]) -> list[Path | Outcome]:
    """All files meant, in order; a path that is not there is an outcome of its own."""
    files: list[Path | Outcome] = []
    for path in paths:
        try:
            files += find(path)
        except TreeringError as error:
            files.append(_failed(path, error))
    return files


def _import(store: Store, path: Path | Outcome, *, name: str | None, project: str) -> Outcome:
    if isinstance(path, Outcome):
        return path
    try:
        source = open_source(path)
        session = name or source.header.session_id
        records = load(store, source, session, project)
    except TreeringError as error:
        return _failed(str(path), error)
    return Outcome(path=str(path), session=session, records=records, problems=source.problems)


def _failed(path: str, error: TreeringError) -> Outcome:
    exists = isinstance(error, ConflictError)
    return Outcome(path=path, error=exits.line_of(error), exists=exists, code=exits.code_of(error))


def load(store: Store, source: ImportSource, session: str, project: str = "", progress: Step | None = None) -> int:
    """Make a session of an opened file; return how many records it has.

    Raises:
        ConflictError: There is a session of that name.
    """
    done = 0

    def report(records: int) -> None:
        nonlocal done
        done = records
        if progress is not None:
            progress(records)

    header = source.header
    facts: LoadFacts = {
        "title": one_line(header.title, TITLE_CHARACTERS_MAX),
        "project": project,
        "cwd": header.cwd,
        "extra": {"imported": header.format},
    }
    if header.created_ms is not None:
        facts["created_ms"] = header.created_ms
    store.load(session, source.drafts(), leaf=lambda: source.leaf, facts=facts, progress=report)
    return done


def _print(out: Output, outcome: Outcome, problems_max: int | None) -> None:
    if outcome.error is not None:
        out.say(f"{outcome.path}: {'exists already' if outcome.exists else 'failed'}: {outcome.error}")
        return
    out.row(id_cell(outcome.session), str(outcome.records), outcome.path)
    shown = outcome.problems[:problems_max]
    for problem in shown:
        out.say(f"{outcome.path}:{problem.line}: {problem.kind}: {problem.message}")
    left = outcome.problems[len(shown) :]
    if left:
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(each.kind for each in left).most_common())
        out.say(f"{outcome.path}: {counted(len(left), 'more problem')} ({kinds}); --problems shows all")


def _summary(outcomes: list[Outcome]) -> str:
    done = [outcome for outcome in outcomes if outcome.error is None]
    exist = sum(outcome.exists for outcome in outcomes)
    failed = len(outcomes) - len(done) - exist
    records = sum(outcome.records for outcome in done)
    odd = sum(len(outcome.problems) for outcome in done)
    text = f"imported {counted(len(done), 'session')}, {counted(records, 'record')}, {counted(odd, 'problem')}"
    return text + (f"; {exist} existed already" if exist else "") + (f"; {failed} failed" if failed else "")


def _document(outcomes: list[Outcome]) -> object:
    return {"files": [{name: getattr(each, name) for name in each.__struct_fields__} for each in outcomes]}


def _code(outcomes: list[Outcome]) -> int:
    """One file: its own code. Several: whether all went well; that some existed already is no failure then."""
    if len(outcomes) == 1:
        return outcomes[0].code
    return exits.PARTLY if any(outcome.code and not outcome.exists for outcome in outcomes) else 0
