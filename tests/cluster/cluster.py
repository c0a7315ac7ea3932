"""SeaweedFS as six processes: a master, three volume servers that keep every object twice, a filer, an S3 gateway."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.servers import S3Server, free_ports, spawn, wait_until_ready, weed
from tests.storage.processes import wait_until

VOLUME_SERVERS = 3
REPLICATION = "001"  # a second copy on another server of the same rack


class Cluster:
    """Six processes that are started together and killed one by one.

    Attributes:
        server: How to reach it.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="treering-cluster-"))
        names = ["master", "filer", "s3", *map(_volume, range(VOLUME_SERVERS))]
        ports = free_ports(2 * len(names))
        self._ports = dict(zip(names, zip(ports[::2], ports[1::2], strict=True), strict=True))
        self.server = S3Server(f"http://127.0.0.1:{self._ports['s3'][0]}", "treering-key", "treering-secret")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all, each when those that it needs answer, and wait until objects are stored."""
        try:
            self._start_master()
            for number in range(VOLUME_SERVERS):
                self.start_volume(number)
            self._wait_for_volumes()
            self._start(
                "filer", "filer", f"-master={self._address('master')}", "-defaultReplicaPlacement=" + REPLICATION
            )
            self._wait("filer", "/")
            self._start_gateway()
            self._make_bucket()
        except BaseException:
            self.stop()
            raise

    def start_volume(self, number: int) -> None:
        """Start a volume server, or start it again with what it has stored."""
        name = _volume(number)
        (self._folder / name).mkdir(exist_ok=True)
        options = [f"-dir={self._folder / name}", f"-master={self._address('master')}", "-rack=r1", "-max=50"]
        self._start(name, "volume", *options, "-preStopSeconds=0")

    def wait_until_whole(self) -> None:
        """Wait until all are known to each other again and objects are stored."""
        self._wait_for_volumes()
        self._wait_until_ready()

    def kill_volume(self, number: int) -> None:
        """End a volume server at once."""
        process = self._processes.pop(_volume(number))
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End everything at once, by process, and remove what was stored."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_master(self) -> None:
        (self._folder / "master").mkdir()
        options = [f"-mdir={self._folder / 'master'}", f"-defaultReplication={REPLICATION}", "-volumeSizeLimitMB=64"]
        self._start("master", "master", *options, "-telemetry=false")
        self._wait("master", "/cluster/status", lambda found: '"IsLeader":true' in found.replace(" ", ""))

    def _start_gateway(self) -> None:
        keys = {"accessKey": self.server.key, "secretKey": self.server.secret}
        identity = {"name": "treering", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
        (self._folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        options = [f"-filer={self._address('filer')}", f"-config={self._folder / 's3.json'}"]
        self._start(
            "s3", "s3", *options, "-port.iceberg=0", "-port.lance=0", "-autoCreateBucket=false", bind="-ip.bind"
        )

    def _make_bucket(self) -> None:
        self._wait("s3", "/healthz")
        client = self.server.client()
        with contextlib.suppress(
            client.exceptions.BucketAlreadyOwnedByYou
        ):  # said also when it was made by this request
            client.create_bucket(Bucket=self.server.bucket)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        wait_until_ready(self.server, lambda: all(each.poll() is None for each in self._processes.values()))

    def _wait_for_volumes(self) -> None:
        self._wait("master", "/dir/status", lambda found: found.count('"Url"') == VOLUME_SERVERS)

    def _start(self, name: str, kind: str, *options: str, bind: str = "-ip") -> None:
        port, grpc = self._ports[name]
        command = [weed(), kind, f"{bind}=127.0.0.1", f"-port={port}", f"-port.grpc={grpc}", *options]
        self._processes[name] = spawn(command, str(self._folder), self.server)

    def _address(self, name: str) -> str:
        port, grpc = self._ports[name]
        return f"127.0.0.1:{port}.{grpc}"

    def _wait(self, name: str, path: str, found: Callable[[str], bool] = bool) -> None:
        """Wait until a process answers as it should."""
        process, port = self._processes[name], self._ports[name][0]
        if not wait_until(lambda: found(_read(port, path)), is_running=lambda: process.poll() is None):
            log = (self._folder / "weed.log").read_text(errors="replace")[-2000:]
            raise AssertionError(f"{name} did not start. exit={process.poll()}, log={log}")


def _volume(number: int) -> str:
    return f"volume{number}"


def _read(port: int, path: str) -> str:
    """Return what is found there, with its status; empty if nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return f"{answer.status} {answer.read().decode(errors='replace')}"
    except OSError:
        return ""
    finally:
        connection.close()
