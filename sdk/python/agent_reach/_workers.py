"""Threads for blocking work, driven from the event loop.

Not concurrent.futures: its pools refuse work once the main thread has ended, and an agent lives on after that.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
Job = Callable[[], None]


class Workers:
    """At most ``size`` daemon threads, started when needed, each ended by stop()."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._waiting = 0  # jobs queued or running
        self._stopped = False

    def submit(self, job: Job) -> None:
        """Runs job in a thread; job handles its own exceptions."""
        with self._lock:
            if self._stopped:
                raise RuntimeError("the agent is stopped")
            self._waiting += 1
            if self._waiting > len(self._threads) and len(self._threads) < self._size:
                self._start()
        self._jobs.put(job)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """function(*args) in a thread. Cancelling does not interrupt it; its result is then thrown away."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = function(*args)
            except BaseException as e:
                tell(done.set_exception, e)
            else:
                tell(done.set_result, result)

        def tell(say: Callable[[Any], None], what: Any) -> None:
            try:
                loop.call_soon_threadsafe(lambda: None if done.done() else say(what))
            except RuntimeError:
                pass  # the loop is closed: nobody waits any more

        self.submit(job)
        return await done

    def stop(self, timeout: float) -> None:
        """Ends idle threads, and busy ones when their job ends; waits at most timeout seconds for them."""
        with self._lock:
            self._stopped = True
            threads = list(self._threads)
        for _ in threads:
            self._jobs.put(None)
        until = time.monotonic() + timeout
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            finally:
                with self._lock:
                    self._waiting -= 1
                del job
