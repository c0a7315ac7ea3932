"""Write a long session as one HTML file and open it in Chromium: `python -m benchmarks.pages`.

A program of its own, since no other store writes such a file. Messages are those of the other benchmarks, some two
kilobytes each (`--small`: a hundred bytes). Every 100th is followed by two branches and a checkpoint, every 1,000th
by a compaction. It prints how long the export took and how much memory at most, the size of the file, and when
the browser showed the first message and the first row of the tree, from the moment at which the page was asked for.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

import treering
from benchmarks import workload
from treering.exporters import export_page

AT_ONCE = 1000
WATCH = """
window.shown = {};
const looked = { message: "article.message", row: ".tree-row:not(.waiting)" };
new MutationObserver(() => {
  for (const [name, css] of Object.entries(looked)) {
    if (!(name in window.shown) && document.querySelector(css)) window.shown[name] = performance.now();
  }
}).observe(document, { childList: true, subtree: true });
"""


def record(folder: str, nodes: int, *, small: bool) -> None:
    """Record a session of about so many nodes."""
    words = ({"role": "user", "content": f"{at} " + "word " * 20} for at in range(nodes))
    messages = words if small else workload.session(nodes)
    with treering.open(folder).session("long", title="A long session") as session:
        waiting: list[Any] = []
        for at, message in enumerate(messages):
            waiting.append(message)
            if at % 100 == 99:
                files = {f"file-{(at + each) % 977}.py": "read" for each in range(40)}
                session.commit(waiting, state={"step": at, "files": files, "plan": ["look", "change", "test"]})
                waiting = []
                end = session.node
                for aside in range(2):
                    session.branch(f"aside-{at}-{aside}", node=session.path(limit=50)[0])
                    session.append(treering.user("another way"), treering.assistant("tried"))
                    session.switch("main")
                if at % AT_ONCE == AT_ONCE - 1:
                    session.compact(f"what was done until {at}", kept=end)
        if waiting:
            session.append(*waiting)


def export(folder: str, target: str) -> None:
    """Write the page; print what it took."""
    view = treering.open(folder).view("long")
    opened = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    done = export_page(view, target, overwrite=True)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = Path(target).stat().st_size
    stored = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    print(
        f"exported {done.nodes:,} nodes and {done.checkpoints:,} checkpoints in {seconds:.1f} s: {size / 1e6:.1f} MB "
        f"(the store has {stored / 1e6:.1f} MB); memory at most {peak / 1024:.0f} MiB, before {opened / 1024:.0f} MiB"
    )


def browse(target: str, rounds: int) -> None:
    """Open the page some times, each in a browser of its own."""
    found = [_opened(Path(target)) for _ in range(rounds)]
    for name in found[0]:
        values = [each[name] for each in found]
        print(f"{name}: median {statistics.median(values):.0f}, from {min(values):.0f} to {max(values):.0f}")


def _opened(target: Path) -> dict[str, float]:
    options = webdriver.ChromeOptions()
    for each in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1400,900"):
        options.add_argument(f"--{each}")
    options.binary_location = "/usr/bin/chromium"
    driver = webdriver.Chrome(options, Service("/usr/bin/chromedriver"))
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        driver.get(target.as_uri())
        WebDriverWait(driver, 120, 0.05).until(
            lambda _: driver.execute_script("return Object.keys(window.shown).length === 2")
        )
        shown = json.loads(driver.execute_script("return JSON.stringify(window.shown)"))
        driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        metrics = driver.execute_cdp_cmd("Performance.enable", {}) or driver.execute_cdp_cmd(
            "Performance.getMetrics", {}
        )
        heap = next(each["value"] for each in metrics["metrics"] if each["name"] == "JSHeapUsedSize")
        process = driver.service.process
        assert process is not None
        resident = max(_resident_kb(each) for each in _below(process.pid) if _is_tab(each))
        return {
            "first message, ms": shown["message"],
            "first row of the tree, ms": shown["row"],
            "heap of scripts, MB": heap / 1e6,
            "resident memory of the tab's process, MB": resident / 1e3,
        }
    finally:
        driver.quit()


def _below(process: int) -> Iterator[int]:
    """The processes that a process started, and those that these did."""
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _below(child)


def _is_tab(process: int) -> bool:
    return b"--type=renderer" in Path(f"/proc/{process}/cmdline").read_bytes()


def _resident_kb(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def main() -> None:
    """Do one of the steps, or all, each in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__.splitlines()[0])
    parser.add_argument("step", nargs="?", choices=["record", "export", "browse"], help="by default all of them")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--small", action="store_true", help="messages of a hundred bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where to keep store and page; by default they are removed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary)
        folder.mkdir(exist_ok=True)
        store, target = str(folder / "store"), str(folder / "page.html")
        if options.step is None:
            for step in ("record", "export", "browse"):
                given = [*sys.argv[1:], "--folder", str(folder)]
                subprocess.run([sys.executable, "-m", "benchmarks.pages", step, *given], check=True)
        elif options.step == "record":
            record(store, options.nodes, small=options.small)
        elif options.step == "export":
            export(store, target)
        else:
            browse(target, options.rounds)


if __name__ == "__main__":
    main()
