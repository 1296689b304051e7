"""SIGTERM and SIGINT let started agents leave politely: drain, then end the process with code 0.

A second one ends it at once. The handler only starts a thread: it may interrupt the main thread anywhere, also while
that holds a lock the draining needs. A forked child inherits the handler but no agent: signals mean to it what they meant
before, until it starts an agent of its own.
"""

from __future__ import annotations

import _thread
import logging
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, Protocol

log = logging.getLogger("agent_reach")


class Stoppable(Protocol):
    def stop(self) -> None: ...


class _Leaving:
    """One for the process, as signals are: the started agents, and how far their leaving is."""

    def __init__(self, before: dict[int, Any]) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.agents: set[Stoppable] = set()
        self.before = before
        self.began = False
        self.done = False


_of_process = [_Leaving({})]


def _here() -> _Leaving:
    """This process's; of a parent's nothing is kept but what its signals meant: its lock may be held for ever."""
    if _of_process[0].pid != os.getpid():
        _of_process[0] = _Leaving(dict(_of_process[0].before))
    return _of_process[0]


def watch(agent: Stoppable) -> None:
    """From the main thread; signals for which the program has a handler of its own are left alone."""
    leaving = _here()
    with leaving.lock:
        leaving.agents.add(agent)
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)
        if before in (signal.SIG_DFL, signal.default_int_handler):
            leaving.before[number] = before
            signal.signal(number, _on_signal)


def forget(agent: Stoppable) -> None:
    """The last agent gone, the signals mean again what they meant before."""
    leaving = _here()
    with leaving.lock:
        leaving.agents.discard(agent)
        if leaving.agents or leaving.began or threading.current_thread() is not threading.main_thread():
            return
        before, leaving.before = leaving.before, {}
    for number, handler in before.items():
        if signal.getsignal(number) is _on_signal:
            signal.signal(number, handler)


def rest() -> None:
    """For the main thread when a signal has stopped what it was about: waits for the process's end, which _leave brings."""
    leaving = _here()
    while leaving.began and threading.current_thread() is threading.main_thread():
        time.sleep(0.05)


def _on_signal(number: int, frame: FrameType | None) -> None:
    leaving = _here()
    if leaving.done:
        if threading.main_thread().is_alive():
            raise SystemExit(0)
    elif leaving.began:
        os._exit(128 + number)
    elif not leaving.agents:
        signal.signal(number, leaving.before.get(number, signal.SIG_DFL))
        signal.raise_signal(number)
    else:
        leaving.began = True
        threading.Thread(target=_leave, args=(number,), name="agent-reach-leaving", daemon=True).start()


def _leave(number: int) -> None:
    leaving = _here()
    log.info("leaving, signal=%d", number)
    stops = [threading.Thread(target=agent.stop, daemon=True) for agent in list(leaving.agents)]
    for stop in stops:
        stop.start()
    for stop in stops:
        stop.join()
    leaving.done = True
    main = threading.main_thread()
    if not main.is_alive() or main.ident is None:
        return
    if sys.platform == "win32":
        _thread.interrupt_main(number)
    else:
        signal.pthread_kill(main.ident, number)
