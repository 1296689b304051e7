"""A forked child has the agent's memory but none of its threads: everything says so at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_node import Asked, FakeNode

from agent_reach import AgentReachAgent

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.fixture
def agent() -> Iterator[AgentReachAgent]:
    async def on_request(asked: Asked) -> None:
        await asked.answer(b"1", final=False)
        await asked.answer(b"2")

    with FakeNode(on_request=on_request) as node:
        agent = AgentReachAgent("parent", node=node.url, capabilities=[], handle_signals=False)
        agent.start()
        yield agent
        agent.stop(0)


def in_child(work: Callable[[], Any]) -> str:
    """What work raises in a forked child, or what it returns; the child has five seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = repr(work())
        except BaseException as e:
            said = f"{type(e).__name__}: {e}"
        os.write(writer, said.encode()[:4000])
        os._exit(0)
    os.close(writer)
    exit_code(child)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read().decode()


def exit_code(child: int) -> int:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


def run_async(make: Callable[[], Any]) -> Any:
    import asyncio

    async def go() -> Any:
        return await make()

    return asyncio.run(go())


ENTRIES: dict[str, Callable[[AgentReachAgent], Any]] = {
    "call": lambda a: a.call("x", {}),
    "call_full": lambda a: a.call_full("x", {}),
    "stream": lambda a: a.stream("x", {}),
    "stream_async": lambda a: a.stream_async("x", {}),
    "broadcast": lambda a: a.broadcast("x", {}),
    "lookup": lambda a: a.lookup("x"),
    "call_async": lambda a: run_async(lambda: a.call_async("x", {})),
    "call_full_async": lambda a: run_async(lambda: a.call_full_async("x", {})),
    "broadcast_async": lambda a: run_async(lambda: a.broadcast_async("x", {})),
    "lookup_async": lambda a: run_async(lambda: a.lookup_async("x")),
    "start": lambda a: a.start(1),
    "stop": lambda a: a.stop(0),
    "set_available": lambda a: a.set_available(None),
    "rpc_handler": lambda a: a.rpc_handler("*"),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_child_is_told_at_once(agent: AgentReachAgent, entry: str) -> None:
    said = in_child(lambda: ENTRIES[entry](agent))
    assert said.startswith("AgentReachError: ") and f"(pid {os.getpid()})" in said, said
    assert "agent parent was made in another process" in said and "make one AgentReachAgent in each process" in said
    assert agent.call("x", {}) == [1, 2], "the parent's goes on"


def test_a_child_is_told_while_the_parent_holds_the_lock(agent: AgentReachAgent) -> None:
    import threading

    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with agent._lock:
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(5)
    try:
        assert "another process" in in_child(lambda: agent.call("x", {}))
    finally:
        done.set()
        thread.join()


def test_a_stream_of_the_parent(agent: AgentReachAgent) -> None:
    stream = agent.stream("x", {})
    assert next(stream) == 1
    assert "another process" in in_child(lambda: next(stream))
    assert in_child(stream.close) == "None", "what the child forgets is not its own"
    assert list(stream) == [2]


def test_a_child_has_its_own(agent: AgentReachAgent) -> None:
    def work() -> Any:
        with AgentReachAgent("child", node=str(agent._settings.nodes[0]), capabilities=[], handle_signals=False) as own:
            return own.call("x", {})

    assert in_child(work) == "[1, 2]"


PROGRAM = """
import os, signal, sys, time
from agent_reach import AgentReachAgent
agent = AgentReachAgent("parent", node=sys.argv[1], capabilities=[])
agent.start()
with agent:
    child = os.fork()
    if child == 0:
        if sys.argv[2] == "own":
            own = AgentReachAgent("child", node=sys.argv[1], capabilities=[])
            own.start()
        if sys.argv[2] != "exits":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(4)
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), agent.call("x", {}), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(4)
sys.exit(9)
"""


@pytest.mark.parametrize(("how", "code"), [("exits", 7), ("signalled", -signal.SIGTERM), ("own", 0)])
def test_a_child_ends(agent: AgentReachAgent, how: str, code: int) -> None:
    """The parent's agent neither holds up a child's exit nor swallows its signals, and leaves politely itself."""
    node = str(agent._settings.nodes[0])
    done = subprocess.run([sys.executable, "-c", PROGRAM, node, how], capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.returncode) == (f"{code} [1, 2]\n", 0), done.stderr
