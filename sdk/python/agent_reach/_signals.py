"""SIGTERM and SIGINT let started agents leave politely: drain, then end the process with code 0.

A second one ends it at once. The handler only starts a thread: it may interrupt the main thread anywhere, also while
that holds a lock the draining needs.
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

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.agents: set[Stoppable] = set()
        self.before: dict[int, Any] = {}
        self.began = False
        self.done = False


_leaving = _Leaving()


def watch(agent: Stoppable) -> None:
    """From the main thread; signals for which the program has a handler of its own are left alone."""
    with _leaving.lock:
        _leaving.agents.add(agent)
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)
        if before in (signal.SIG_DFL, signal.default_int_handler):
            _leaving.before[number] = before
            signal.signal(number, _on_signal)


def forget(agent: Stoppable) -> None:
    """The last agent gone, the signals mean again what they meant before."""
    with _leaving.lock:
        _leaving.agents.discard(agent)
        if _leaving.agents or _leaving.began or threading.current_thread() is not threading.main_thread():
            return
        before, _leaving.before = _leaving.before, {}
    for number, handler in before.items():
        if signal.getsignal(number) is _on_signal:
            signal.signal(number, handler)


def rest() -> None:
    """For the main thread when a signal has stopped what it was about: waits for the process's end, which _leave brings."""
    while _leaving.began and threading.current_thread() is threading.main_thread():
        time.sleep(0.05)


def _on_signal(number: int, frame: FrameType | None) -> None:
    if _leaving.done:
        if threading.main_thread().is_alive():
            raise SystemExit(0)
    elif _leaving.began:
        os._exit(128 + number)
    elif not _leaving.agents:
        signal.signal(number, _leaving.before.get(number, signal.SIG_DFL))
        signal.raise_signal(number)
    else:
        _leaving.began = True
        threading.Thread(target=_leave, args=(number,), name="agent-reach-leaving", daemon=True).start()


def _leave(number: int) -> None:
    log.info("leaving, signal=%d", number)
    stops = [threading.Thread(target=agent.stop, daemon=True) for agent in list(_leaving.agents)]
    for stop in stops:
        stop.start()
    for stop in stops:
        stop.join()
    _leaving.done = True
    main = threading.main_thread()
    if not main.is_alive() or main.ident is None:
        return
    if sys.platform == "win32":
        _thread.interrupt_main(number)
    else:
        signal.pthread_kill(main.ident, number)
