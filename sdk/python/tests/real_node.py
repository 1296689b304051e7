"""A real node on a free port of this machine, and agents in processes of their own."""

from __future__ import annotations

import http.client
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PATIENCE = 20.0


def build(folder: Path) -> Path:
    """AGENT_REACH_BIN, or the node built from this repository."""
    given = os.environ.get("AGENT_REACH_BIN")
    if given:
        return Path(given)
    if not shutil.which("go"):
        pytest.skip("no go, and no AGENT_REACH_BIN")
    binary = folder / "agent-reach"
    done = subprocess.run(
        ["go", "build", "-o", str(binary), "./cmd/agent-reach"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"the node does not build: {done.stderr[-500:]}")
    return binary


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class RealNode:
    def __init__(self, binary: Path, folder: Path, extra: str = "") -> None:
        self.binary = binary
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        (folder / "config.yaml").write_text(
            f'node:\n  role: router_and_registry\n  listen_addr: "127.0.0.1:{self.port}"\n'
            f'auth:\n  public_key_store: "./keys/public_keys.json"\n{extra}'
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> RealNode:
        log = (self.folder / "node.log").open("ab")
        command = [str(self.binary), "--role", "router_and_registry", "--config", "config.yaml"]
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        log.close()
        wait_for(lambda: self.get("/readyz")[0] == 200, f"node ready; log: {self.folder}/node.log")
        return self

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def log(self) -> str:
        return (self.folder / "node.log").read_text()

    def end(self, number: int = signal.SIGKILL) -> None:
        if self.process:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)
            self.process = None


class Program:
    """A Python program in a process of its own; its lines of output and of log can be waited for."""

    def __init__(self, folder: Path, code: str, **environment: str) -> None:
        lines = textwrap.dedent(code)
        self.file = folder / f"program-{time.monotonic_ns()}.py"
        self.file.write_text(lines)
        self._seen: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            [sys.executable, "-u", self.file.name], cwd=folder, text=True, encoding="utf-8",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **environment},
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line.rstrip())
        self._lines.put(None)

    def wait_line(self, part: str) -> str:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line with {part!r}; there were: {self._seen}") from None
            if line is None:
                raise AssertionError(f"the program ended without a line with {part!r}; there were: {self._seen}")
            self._seen.append(line)
            if part in line:
                return line

    def finish(self) -> tuple[int, str]:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        while not self._lines.empty():
            line = self._lines.get()
            self._seen += [line] if line is not None else []
        return code, "\n".join(self._seen)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        if self.process.stdout:
            self.process.stdout.close()


def wait_for(condition: Any, what: str, patience: float = PATIENCE) -> Any:
    until = time.monotonic() + patience
    pause = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < until, f"did not happen: {what}"
        pause.wait(0.05)
    return found
