"""What is imported when: a local store loads neither fsspec, nor an S3 client, nor asyncio, nor the command line."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import treering
from tests.storage.processes import finish, start

HEAVY = [
    "asyncio", "botocore", "aiobotocore", "boto3", "click", "fsspec", "platformdirs", "rich", "s3fs", "sqlite3",
    "tenacity", "textual",
]  # fmt: skip

SEEN = """
import sys
def seen():
    heavy = sys.argv[1].split(",")
    print(*sorted(name for name in heavy if name in sys.modules))
"""
LOCAL = """
import treering
store = treering.open(sys.argv[2])
with store.session("s", title="T") as session:
    session.append(treering.user("x"))
    session.commit([treering.assistant("y")], state={"n": 1})
    session.branch("b")
    session.compact("gist")
    session.seal()
    session.optimize(everything=True)
    session.fork("copy")
with store.session("s", shared=True) as session:
    assert session.history().rows
view = store.view("s")
assert view.tree() and list(view.lines()) and next(view.follow(first=0))
store.copy("s", name="t")
assert store.sessions().rows and store.verify("s") == []
store.delete("t")
"""


NO_LOCKS = """
import sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):  # as on Windows
    sys.modules[name] = None
import treering
import treering.search
from treering.cli import main
with treering.open("memory://anywhere").session("s") as session:
    session.append("works")
assert [item.message["content"] for item in session.context] == ["works"]
for use in (
    lambda: treering.open(sys.argv[1]),
    lambda: treering.search.Index(treering.open("memory://anywhere"), sys.argv[1]),
):
    try:
        use()
    except treering.TreeringError as error:
        assert error.kind == "locks" and "fcntl" in str(error), error
    else:
        raise AssertionError("opened without locks")
"""


def test_a_system_without_file_locks_has_other_stores(tmp_path: Path) -> None:
    """Everything can be imported there; a store on its disk is refused, in a sentence."""
    done = subprocess.run(
        [sys.executable, "-c", NO_LOCKS, str(tmp_path / "store")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "store").exists()


UNNEEDED = [
    "asyncio", "bisect", "concurrent", "csv", "dataclasses", "email", "hashlib", "http", "json", "logging", "pathlib",
    "pickle", "random", "shutil", "signal", "socket", "sqlite3", "statistics", "struct", "subprocess", "tempfile",
    "threading", "urllib", "weakref", "zipfile",
]  # fmt: skip
"""Of the standard library: what resuming needs neither itself nor through msgspec and zstandard."""
OURS_MAX = 66
"""Modules of ours that a resume loads. Each costs every new process about 0.3 ms, so this number only ever falls."""
RESUME = """
import sys
import treering
with treering.open(sys.argv[2]).session("s", create=False) as session:
    assert [item.node for item in session.context] and session.state == {"n": 1}
unneeded = sys.argv[1].split(",")
print(*sorted(name for name in sys.modules if name.partition(".")[0] in [*unneeded, "treering"]))
"""

TEXTS = (
    RESUME
    + """
from msgspec.json import Decoder
for module in [sys.modules[name] for name in sys.modules if name.startswith("treering")]:
    for decoded in [each.type for each in vars(module).values() if isinstance(each, Decoder)]:
        if any(isinstance(each, str) for each in getattr(decoded, "__annotations__", {}).values()):
            print("text", decoded.__name__)
print("kinds", "treering.kinds" in sys.modules)
"""
)


def modules_after(code: str, *arguments: object) -> list[str]:
    """The heavy modules that a fresh interpreter has loaded after `code`."""
    return finish(start(SEEN + code + "\nseen()", ",".join(HEAVY), *arguments, prelude="")).split()


def test_import_treering_is_light() -> None:
    """`import treering` loads nothing heavy."""
    assert modules_after("import treering") == []


def test_a_local_store_is_light(tmp_path: Path) -> None:
    """Everything a session can do on a local path, or on a `file://` URL, works without anything heavy."""
    assert modules_after(LOCAL, tmp_path / "store") == []
    assert modules_after(LOCAL, f"file://{tmp_path}/other") == []


def test_a_memory_store_is_light() -> None:
    """So does a store in memory."""
    assert modules_after(LOCAL, "memory://light") == []


def test_a_resume_loads_little(tmp_path: Path) -> None:
    """A new process that resumes a session loads nothing that it does without, and few modules of ours."""
    with treering.open(tmp_path).session("s") as session:
        session.commit([treering.user("x"), treering.assistant("y")], state={"n": 1})
    loaded = finish(start(RESUME, ",".join(UNNEEDED), tmp_path, prelude="")).split()
    assert [name for name in loaded if not name.startswith("treering")] == []
    assert len(loaded) <= OURS_MAX, loaded


def test_a_resume_compiles_no_annotation_and_makes_no_kind(tmp_path: Path) -> None:
    """Annotations of decoded structs are no texts, which msgspec would compile, and no error means no kinds."""
    with treering.open(tmp_path).session("s") as session:
        session.commit([treering.user("x"), treering.assistant("y")], state={"n": 1})
    assert finish(start(TEXTS, "none", tmp_path, prelude="")).splitlines()[1:] == ["kinds False"]


def test_a_kind_is_its_name_in_small_letters() -> None:
    """So an error has its kind where no file can be opened, and kinds not be loaded. One older kind has a hyphen."""
    assert [kind for kind in treering.Kind if kind != kind.name.lower()] == [treering.Kind.READ_ONLY]


def test_the_asynchronous_half_is_loaded_when_it_is_named() -> None:
    """Asynchronous names load asyncio, and still nothing else."""
    assert modules_after("import treering\ntreering.AsyncSession") == ["asyncio"]


@pytest.mark.parametrize("module", ["fsspec", "s3fs", "tenacity"])
def test_a_local_store_works_without_the_packages(tmp_path: Path, module: str) -> None:
    """A local store works where a package for remote stores cannot even be imported."""
    hide = f"import sys\nsys.modules[{module!r}] = None\n"
    finish(start(SEEN + hide + LOCAL, "", tmp_path, prelude=""))


def test_s3_without_its_package_says_what_to_install() -> None:
    """Opening an S3 store without s3fs names the extra."""
    code = """
sys.modules["s3fs"] = None
import treering
try:
    treering.open("s3://bucket/x")
except treering.UsageError as error:
    assert "treering[s3]" in str(error), error
    print("told")
"""
    assert finish(start("import sys\n" + code, prelude="")) == "told\n"


def test_importing_starts_no_thread_and_prints_nothing() -> None:
    """Importing has no effects: no thread, no output, no warning."""
    code = "import threading, treering; assert threading.active_count() == 1"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def protocol_modules() -> list[Path]:
    """Everything that is to be a protocol without I/O."""
    source = Path(treering.__file__).parent
    folders = ("journal", "checkpoint", "transcript", "session", "store", "erasure", "maintenance")
    found = [path for folder in folders for path in sorted((source / folder).rglob("*.py"))]
    return [*found, source / "api/store_body.py", source / "api/session_body.py"]


@pytest.mark.parametrize("path", protocol_modules(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_protocols_do_no_io(path: Path) -> None:
    """No protocol runs another one, or asks a driver: that holds up the event loop, unseen by a simulation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {each.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names}
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert (imported & {"run", "arun", "asyncio", "threading"}, called & {"execute", "aexecute"}) == (set(), set())
