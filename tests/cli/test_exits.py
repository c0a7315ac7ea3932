from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.cli.conftest import Program, Recorded, environment

import treering
from treering import errors
from treering.cli.exits import EXITS, code_of, line_of


def all_errors(base: type[errors.TreeringError]) -> list[type[errors.TreeringError]]:
    """Return a class of errors and all below it."""
    return [base, *(error for child in base.__subclasses__() for error in all_errors(child))]


@pytest.mark.parametrize(
    "error", [error for error in all_errors(errors.TreeringError) if error is not errors.TreeringError]
)
def test_every_error_has_a_code(error: type[errors.TreeringError]) -> None:
    """Each class of error has an exit code of its own or that of its base, never the one for surprises."""
    assert code_of(error("something")) not in (0, 1)
    assert (
        code_of(error("something")) == code_of(error.__mro__[1]("something"))
        or error.__mro__[1] is errors.TreeringError
    )


def test_codes_differ() -> None:
    """No two rows of the table share a code or a class of error."""
    assert len({row.code for row in EXITS}) == len(EXITS)
    named = [error for row in EXITS for error in row.errors]
    assert len(set(named)) == len(named)


def test_one_line() -> None:
    """Whatever an error says is printed on one line, cleaned, with its remedy."""
    error = errors.CorruptError("frame\nis \x1b[31mdamaged", key="a/b", offset=7, remedy="restore it")
    assert line_of(error) == "frame is \\x1b[31mdamaged. key='a/b', offset=7; restore it"
    assert line_of(errors.CorruptError("damaged")).endswith(errors.CorruptError.usual_remedy)
    assert line_of(click.UsageError("no such option")) == "no such option"


def test_remedies_of_the_command_line() -> None:
    """Where the library speaks of Python arguments the command line speaks of its options."""
    error = errors.UnsafeStoreError("unsafe", kind="conditions", remedy="pass single_writer=True")
    assert line_of(error).startswith("unsafe; pass --single-writer ")
    assert "single_writer" not in line_of(error)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("show", "nothing"), 3, "'nothing'"),
        (("show",), 2, "SESSION"),
        (("--frobnicate",), 2, "--frobnicate"),
        (("frobnicate",), 2, "frobnicate"),
        (("ls", "--store", "ftp8://somewhere"), 2, "ftp8"),
        (("ls", "--store", "s3:/bucket"), 2, "s3:/bucket"),
        (("ls", "--store", "zip://x.zip"), 8, "--single-writer"),
        (("ls", "--limit", "0"), 2, "limit"),
        (("import", "/no/such/file"), 3, "/no/such/file"),
        (("import", ""), 2, "a path is empty"),
        (("rm", "s", "--yes", "--store", ""), 2, "it is empty"),
        (("verify", "--store", __file__), 2, "this is a file"),
        (("continue", "s", "--message", " "), 2, "--message is empty"),
        (("follow", "s", "--poll", "nan"), 2, "nan"),
        (("follow", "s", "--poll", "inf"), 2, "inf"),
    ],
)
def test_errors_of_a_process(program: Program, arguments: tuple[str, ...], code: int, said: str) -> None:
    """An error is one clear line on standard error, an exit code, and nothing else: no traceback, no store."""
    done = program.process(*arguments)
    assert done.code == code
    assert said in done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    assert not program.store.exists()


def test_a_terminal_that_lacks_a_character_shows_the_rest(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question mark stands for it, where an error would hide everything."""
    with treering.open(program.store).session("s") as session:
        session.append(treering.user("oat \u4e2d " * 100))
    monkeypatch.setenv("PYTHONIOENCODING", "iso-8859-1")
    done = program.on_terminal("log", "s")
    assert done.code == 0, done.out
    assert "oat ? oat ? oat" in done.out


def test_debug(program: Program) -> None:
    """With --debug the traceback comes as well, and the exit code stays."""
    done = program.process("show", "nothing", "--debug")
    assert "Traceback" in done.err
    assert done.code == 3


def test_failures_that_are_not_ours(recorded: Recorded, tmp_path: Path) -> None:
    """A file that cannot be written is reported like everything else."""
    done = recorded.program.process("export", "tea", "--out", tmp_path / ("x" * 300))
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "xxx" in done.err


def test_full_disk(recorded: Recorded) -> None:
    """Output that could not be written is not passed over in silence."""
    with open("/dev/full", "wb") as full:
        done = recorded.program.process("export", "tea", stdout=full)
    assert done.code == 1
    assert "No space left" in done.err
    assert "Traceback" not in done.err


def test_reader_goes_away(recorded: Recorded) -> None:
    """A pipe that is closed early ends the command quietly."""
    with recorded.store.session("long") as session:
        session.commit([f"message {number} " + "x" * 500 for number in range(500)])
    process = recorded.program.start("export", "long")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141
    process.stderr.close()


@pytest.mark.parametrize(
    ("inherited", "code", "said"), [(signal.default_int_handler, 130, "interrupted"), (signal.SIG_IGN, 0, "")]
)
def test_interrupt(recorded: Recorded, inherited: signal.Handlers, code: int, said: str) -> None:
    """Ctrl-C ends a command with one word and the code that shells expect; jobs in the background it does not reach."""
    with recorded.store.session("long") as session:
        session.commit([f"message {number} " + "x" * 500 for number in range(500)])
    ours = signal.signal(
        signal.SIGINT, inherited
    )  # shells start jobs in the background with it ignored: these tests, too
    try:
        process = recorded.program.start("export", "long")
    finally:
        signal.signal(signal.SIGINT, ours)
    assert process.stdout is not None
    process.stdout.read(10)  # it is at work, and waits for us to read on
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.decode().strip() == said


def test_pipe_gets_plain_text(recorded: Recorded) -> None:
    """In a pipe there are no colours, no boxes and no cut fields, whatever the locale."""
    for command in ("ls", "tree", "log", "context", "checkpoints", "show"):
        arguments = [command] if command == "ls" else [command, "tea"]
        process = subprocess.run(
            recorded.program.command(*arguments),
            env={**environment(), "LC_ALL": "C", "COLUMNS": "20"},
            capture_output=True,
            check=True,
        )
        assert b"\x1b" not in process.stdout
        assert "…" not in process.stdout.decode()
    assert recorded.second in recorded.program.process("log", "tea").out


def test_json_pipes_into_other_programs(recorded: Recorded) -> None:
    """Odd text in a title stays valid JSON on one line."""
    with recorded.store.session("tea") as session:
        session.set_title('\x1b[31m"quoted"\n\u2028 🌲')
    document = recorded.program.process("ls", "--json")
    assert document.out.count("\n") == 1
    assert document.json["sessions"][0]["title"] == '\x1b[31m"quoted"\n\u2028 🌲'


def test_control_characters(recorded: Recorded) -> None:
    """Stored text never reaches the terminal as a command, on whatever way it is shown."""
    with recorded.store.session("tea") as session:
        session.set_title("\x1b]0;owned\x07")
        node = session.append("\x1b[2Jgone\r\x9b31m\u202e").node
        session.label(node, "\x1b[31mred")
        session.commit(state={"\x1b[5m": "\x1b[5m"})
    for arguments in (
        ("ls",), ("log", "tea"), ("log", "tea", "--full"), ("context", "tea"), ("tree", "tea", "--text"),
        ("show", "tea"), ("show", "tea", node), ("export", "tea", "--format", "markdown"), ("diff", "tea", "green"),
        ("checkpoints", "tea"), ("show", "tea", "\x1b[31m"),
    ):  # fmt: skip
        done = recorded.program(*arguments, code=None)
        for steering in ("\x1b", "\x07", "\x9b", "\r", "\u202e"):
            assert steering not in done.out + done.err


@pytest.mark.parametrize("arguments", [("ls",), ("log", "tea"), ("show", "tea"), ("follow", "tea", "--first", "0")])
def test_control_characters_in_json(recorded: Recorded, arguments: tuple[str, ...]) -> None:
    """JSON holds stored text as it is, with escapes for all that a terminal would execute."""
    odd = "\x1b\x7f\x80\x9b31m\u202e\u2066 ünï 🌲"
    with recorded.store.session("tea") as session:
        session.set_title(odd)
        node = session.append({"role": "user", "content": odd}).node
        session.label(node, odd)
        session.commit(state={odd: odd})
        end = session.stored().records
    limit = ["--limit", end] if arguments[0] == "follow" else []
    out = recorded.program(*arguments, *limit, "--json").out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", out)
    assert "ünï 🌲" in out
    assert json.dumps(odd) in json.dumps([json.loads(line) for line in out.splitlines()])


def test_light_start() -> None:
    """Help is shown without loading what only some stores need."""
    code = (
        "import sys\nfrom treering.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    loaded = set(process.stderr.split())
    assert "treering" in loaded
    assert not loaded & {"asyncio", "fsspec", "s3fs", "botocore", "aiobotocore", "tenacity", "rich", "platformdirs"}


def test_default_place(tmp_path: os.PathLike[str]) -> None:
    """Without --store and TREERING_STORE sessions are in the user's data folder; the variable comes before it."""
    data = {**environment(), "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "treering", "continue", "--json"]
    code = "import treering, sys; treering.open(sys.argv[1]).session('s', cwd='.').append('hi')"
    where = [
        sys.executable,
        "-c",
        "import platformdirs; print(platformdirs.user_data_dir('treering', appauthor=False))",
    ]
    place = subprocess.run(where, env=data, capture_output=True, text=True, check=True).stdout.strip()
    assert place.startswith(str(tmp_path))
    assert subprocess.run(command, env=data, capture_output=True, check=False).returncode == 3
    assert not os.path.exists(place)
    subprocess.run([sys.executable, "-c", code, place], env=data, check=True)
    assert subprocess.run(command, env=data, capture_output=True, check=False).returncode == 0
    named = {**data, "TREERING_STORE": str(tmp_path) + "/other"}
    assert subprocess.run(command, env=named, capture_output=True, check=False).returncode == 3


@pytest.mark.parametrize("format_", ["html", "pi", "markdown"])
def test_a_pipe_is_not_replaced_by_a_file(recorded: Recorded, tmp_path: Path, format_: str) -> None:
    """Nor is a device, whatever --force says; a link keeps its place, and its file is written."""
    pipe, file, link = tmp_path / "pipe", tmp_path / "file", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(file)
    told = recorded.program("export", "tea", "--format", format_, "--out", pipe, "--force", code=2).err
    assert "no regular file" in told
    assert pipe.is_fifo()
    recorded.program("export", "tea", "--format", format_, "--out", link)
    assert (link.is_symlink(), file.stat().st_size > 0) == (True, True)


@pytest.mark.parametrize("format_", ["html", "jsonl", "markdown", "pi"])
def test_a_file_that_cannot_be_made(recorded: Recorded, tmp_path: Path, format_: str) -> None:
    """A folder is not replaced, one that is missing is not made, and a file is replaced on demand only."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    for name, code, said, forced in (
        ("folder", 2, "this is a folder", ["--force"]),
        ("none/file", 3, "there is no such folder", ["--force"]),
        ("file", 2, "pass --force to replace it", []),
    ):
        done = recorded.program("export", "tea", "--format", format_, "--out", tmp_path / name, *forced, code=code)
        assert said in done.err
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "store") == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_standard_streams_may_be_closed(recorded: Recorded, closed: str) -> None:
    """A command does its work, says its exit code, and no file of the store becomes its output."""
    for arguments, code in (("ls", 0), ("show nothing", 3)):
        command = f'"$@" {arguments} {closed}'
        shell = ["sh", "-c", command, "sh", *recorded.program.command()]
        done = subprocess.run(shell, env=environment(), capture_output=True, text=True, check=False)
        assert (done.returncode, "unexpected" in done.stderr) == (code, False), done.stderr
        assert bool(done.stdout) is (code == 0 and "1" not in closed)


def test_a_working_folder_that_is_gone(recorded: Recorded) -> None:
    """A command that needs it says so; one that does not runs."""
    gone = recorded.program.store.parent / "gone"
    for target, code in ((str(recorded.program.store), 0), ("relative", 1)):
        gone.mkdir()
        command = [sys.executable, "-m", "treering", "--store", target, "ls"]
        shell = ["sh", "-c", f'rmdir "{gone}"; exec "$@"', "sh", *command]
        done = subprocess.run(shell, env=environment(), cwd=gone, capture_output=True, text=True, check=False)
        told = "treering: the working folder does not exist any more; change to another one\n"
        assert (done.returncode, done.stderr) == (code, told if code else "")
