"""`doctor`: find damage in a session file of another program, and write a repaired copy."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from treering.cli import exits
from treering.cli.output import Output
from treering.cli.settings import json_option, store_options
from treering.cli.text import counted
from treering.importers.file_repair import diagnose, repair
from treering.importers.parsed_file import Diagnosis, FileFinding
from treering.programs import BUILT_IN

FINDINGS_SHOWN = 50


@click.command()
@json_option
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "format_name", metavar="FORMAT", help=f"One of {', '.join(sorted(BUILT_IN))}.")
@click.option("--write", "out_file", metavar="OUT", type=click.Path(path_type=Path), help="Write a repaired copy.")
@click.option("--all", "everything", is_flag=True, help="Show every finding, not the first fifty.")
@store_options()
@click.pass_context
def doctor(
    context: click.Context, *, as_json: bool, file: Path, format_name: str | None, out_file: Path | None,
    everything: bool,
) -> None:  # fmt: skip
    """Report the defects of a session file of another program.

    Every defect is shown with its line and byte offset, and with its repair in a copy. The file is never changed; with
    --write the copy goes to a new file.
    """
    out = Output()
    done = repair(file, out_file, format=format_name) if out_file is not None else None
    found = done.diagnosis if done is not None else diagnose(file, format=format_name)
    if as_json:
        copy = {"path": done.path, "entries": done.entries, "bytes": done.bytes} if done is not None else None
        out.document({"diagnosis": found, "damaged": found.damaged, "copy": copy})
    else:
        _print(out, found, None if everything else FINDINGS_SHOWN)
    if done is not None:
        out.say(f"wrote {done.path}: {counted(done.entries, 'record')}, read again and found right")
    elif found.damaged:
        out.say("`treering doctor FILE --write OUT` writes a repaired copy")
    context.exit(exits.CORRUPT if found.damaged and done is None else 0)


def _print(out: Output, found: Diagnosis, shown_max: int | None) -> None:
    for finding in found.findings[:shown_max]:
        out.row(str(finding.line), str(finding.offset), finding.severity, finding.kind, _told(finding))
    if shown_max is not None and len(found.findings) > shown_max:
        out.say(f"{counted(len(found.findings) - shown_max, 'more finding')}; --all shows them")
    kinds = Counter(finding.severity for finding in found.findings)
    told = ", ".join(f"{count} {severity}" for severity, count in sorted(kinds.items())) or "nothing is wrong"
    out.say(f"{found.path}: {found.format} version {found.version}, {counted(found.entries, 'record')}: {told}")


def _told(finding: FileFinding) -> str:
    return f"{finding.message}; {finding.remedy}" if finding.remedy else finding.message
