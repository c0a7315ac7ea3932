"""`import`: make sessions from files of other programs, and update the sessions of files that grew."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from treering.cli import exits
from treering.cli.output import Output, id_cell, progress
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import counted
from treering.errors import ConflictError, NotFoundError, TreeringError, UsageError
from treering.importers.discovery import ENDINGS, find_sessions
from treering.importers.file_importer import FileImporter, ImportResult
from treering.importers.origin import stat_of
from treering.importers.parsed_file import is_foreign
from treering.kinds import Kind
from treering.programs import BUILT_IN
from treering.programs.common.folder import StoredFolder, is_url
from treering.programs.common.source import Problem, find_special

_SPECIAL = "this is a pipe, a socket or a device, and no file"
PROBLEMS_SHOWN = 5  # of each file; `--problems` shows all


class File(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one file."""

    path: str
    session: str | None = None
    outcome: str = "failed"
    """As in `ImportResult`; or `failed`, `rewritten`, or `passed over` for a file in a folder that is no session."""
    records: int = 0
    branch: str = ""
    problems: list[Problem] = []
    problem_count: int = 0
    error: str | None = None
    code: int = 0
    """The exit code for this file's error."""


class Found(msgspec.Struct, frozen=True):
    """A file to import."""

    path: Path | StoredFolder
    named: bool
    """The user named the file itself, not a folder that contains it."""


@click.command("import")
@json_option
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--format", "format_name", metavar="FORMAT", help=f"Of all files: {', '.join(sorted(BUILT_IN))}.")
@click.option("--name", metavar="NAME", help="Name of the session, for a single file.  [default: its id in the file]")
@click.option("--project", metavar="NAME", default="", help="Project of the new sessions.")
@click.option("--policy", metavar="NAME", help="What models see in the new sessions.  [default: as in their program]")
@click.option("--again", is_flag=True, help="Make another session of a file that was rewritten since it was imported.")
@click.option("--problems", "all_problems", is_flag=True, help="Show every problem, not the first few of each file.")
@store_options()
@click.pass_context
def import_(
    context: click.Context, *, as_json: bool, paths: tuple[str, ...], format_name: str | None, name: str | None,
    project: str, policy: str | None, again: bool, all_problems: bool,
) -> None:  # fmt: skip
    """Make sessions from the files of other programs.

    Reads session files of pi, oh-my-pi, Operator-Use, kit, evva and Claude Code, plain or compressed by gzip, and
    folders of such files. For Strands Agents it reads folders of sessions, also below s3://bucket/prefix.

    An imported file that did not change is not read again; one that has grown adds its new records. A file that cannot
    be read is reported, and the other files are imported. Files in a folder that hold no session are skipped, and
    listed. /dev/stdin and pipes are read to their end.
    """
    settings, out = context.ensure_object(Settings), Output()
    store = settings.open()
    files = _files(paths, format_name)
    if name == "":  # as an unset variable of a shell; it would mean the id in the file
        raise click.UsageError("--name is empty")
    if name is not None and len(files) > 1:
        raise click.UsageError("--name goes with a single file")
    importer = FileImporter(store, project=project, policy=policy)
    shown_max = None if all_problems else PROBLEMS_SHOWN
    outcomes: list[File] = []
    counts, codes = Counter[str](), Counter[int]()
    with progress("importing", len(files)) as step:
        for done, file in enumerate(files):
            step(done, f"importing {file.path}")
            if isinstance(file, Found):
                outcome = _import(
                    importer, file, format_name=format_name, name=name, again=again, shown_max=shown_max,
                    debug=settings.debug,
                )  # fmt: skip
            else:
                outcome = file
            _count(outcome, counts, codes)
            if as_json:
                outcomes.append(outcome)
            else:
                _print(out, outcome)
        linked = importer.link_parents()
    if as_json:
        out.document({"files": outcomes, "linked": linked})
    out.say(_summary(counts, linked))
    context.exit(_code(codes, len(files)))


def _files(paths: tuple[str, ...], format_name: str | None) -> list[Found | File]:
    """Return all files to import. Files of a folder are sorted by their last write, so that lists have that order, too.

    A path that does not exist is included, and its import fails.
    """
    files: list[Found | File] = []
    for path in paths:
        if not path:  # an unset variable of a shell would name the working folder
            raise click.UsageError("a path is empty")
        try:
            found = sorted(find_sessions(path, format_name), key=lambda each: stat_of(each)[1])
            if is_url(path) and not found:  # a bucket has no empty folders, so this one may be misspelt
                raise NotFoundError(f"there are no sessions below this address. path={path!r}", kind=Kind.FILE)
        except TreeringError as error:
            files.append(_failed(path, error))
            continue
        files += [Found(each, str(each) in (path, str(Path(path)))) for each in found]
        if not is_url(path):
            files += [_passed_over(str(each), _SPECIAL) for each in find_special(Path(path), ENDINGS)]
    return files


def _import(
    importer: FileImporter,
    file: Found,
    *,
    format_name: str | None,
    name: str | None,
    again: bool,
    shown_max: int | None,
    debug: bool,
) -> File:
    """Import one file. Whatever its failure is, it is the result, and the other files are imported."""
    try:
        result = importer.load(file.path, format=format_name, name=name, again=again)
    except TreeringError as error:
        if not file.named and isinstance(file.path, Path) and _is_other(file.path, error):
            return _passed_over(str(file.path), exits.line_of(error))
        return _failed(str(file.path), error)
    except Exception as error:  # noqa: BLE001  # a defect of the importer that only this file may show
        if debug:
            traceback.print_exc()
        return _failed(str(file.path), error)
    return _outcome(result, shown_max)


def _outcome(result: ImportResult, shown_max: int | None) -> File:
    return File(
        path=result.path,
        session=result.session,
        outcome=result.outcome,
        records=result.records,
        branch=result.branch,
        problems=result.problems[:shown_max],
        problem_count=len(result.problems),
    )


def _is_other(path: Path, error: TreeringError) -> bool:
    """Return whether a file in a folder is a different kind of file, and not a damaged session."""
    return error.kind == Kind.FORMAT and (_is_document(str(path)) or is_foreign(path))


def _is_document(path: str) -> bool:
    return path.endswith((".json", ".json.gz"))


def _passed_over(path: str, reason: str) -> File:
    return File(path=path, outcome="passed over", error=reason)


def _failed(path: str, error: Exception) -> File:
    outcome = "rewritten" if isinstance(error, ConflictError) and error.kind == Kind.REWRITTEN else "failed"
    line = exits.line_of(error)
    if isinstance(error, UsageError) and error.kind == Kind.FORMAT:
        line += f"; `treering doctor {path}` tells what is wrong with a file that is damaged"
    return File(path=path, outcome=outcome, error=line, code=exits.code_of(error))


def _count(outcome: File, counts: Counter[str], codes: Counter[int]) -> None:
    counts[outcome.outcome] += 1
    counts["records"] += outcome.records
    counts["problems"] += outcome.problem_count
    codes[outcome.code] += 1


def _print(out: Output, outcome: File) -> None:
    if outcome.error is not None:
        if outcome.outcome != "passed over" or outcome.error == _SPECIAL or not _is_document(outcome.path):
            out.say(f"{outcome.path}: {outcome.outcome}: {outcome.error}")
        return
    if outcome.outcome == "unchanged":
        return
    out.row(id_cell(outcome.session), str(outcome.records), outcome.path, outcome.outcome)
    if outcome.branch:
        out.say(f"{outcome.path}: session went on here, so the new records are on the head {outcome.branch!r}")
    for problem in outcome.problems:
        out.say(f"{outcome.path}:{problem.line}: {problem.kind}: {problem.message}")
    if outcome.problem_count > len(outcome.problems):
        left = counted(outcome.problem_count - len(outcome.problems), "more problem")
        out.say(f"{outcome.path}: {left}; --problems shows all, and `treering doctor` what can be done")


def _summary(counts: Counter[str], linked: int) -> str:
    parts: Iterable[tuple[int, str]] = (
        (counts["updated"], f"{counts['updated']} updated"),
        (counts["unchanged"], f"{counts['unchanged']} unchanged"),
        (counts["copy"], f"{counted(counts['copy'], 'copied file')}"),
        (linked, f"{linked} linked with their parents"),
        (counts["passed over"], f"{counted(counts['passed over'], 'other file')} passed over"),
        (counts["rewritten"], f"{counts['rewritten']} rewritten since, see --again"),
        (counts["failed"], f"{counts['failed']} failed"),
    )
    text = f"imported {counted(counts['new'], 'session')}, {counted(counts['records'], 'record')}"
    text += f", {counted(counts['problems'], 'problem')}"
    return "; ".join([text, *(said for count, said in parts if count)])


def _code(codes: Counter[int], files: int) -> int:
    """Return the code of a single file, or for several files whether all succeeded."""
    if files == 1:
        return next(iter(codes))
    return exits.PARTLY if any(code for code in codes) else 0
