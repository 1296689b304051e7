"""An event loop in a thread of its own, and the ways into it from other threads and loops."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from ._process import Home
from .errors import Unreachable

T = TypeVar("T")


class LoopThread:
    """The thread is a daemon: whoever wants the process to stay alive keeps another."""

    def __init__(self, name: str, home: Home | None = None) -> None:
        self._home = home or Home(name)
        self.loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    @property
    def inside(self) -> bool:
        return threading.current_thread() is self._thread

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs work on the loop and waits for it; not from the loop itself, which would wait for itself."""
        if self.inside:
            work.close()
            raise RuntimeError("this blocks the agent's event loop; in async handlers use the …_async methods")
        future = self._submit(work)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Unreachable("the agent was stopped", step="call") from None
        except BaseException:
            future.cancel()
            raise

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for callers that are async themselves, on whatever loop."""
        if self.inside:
            return await work
        return await asyncio.wrap_future(self._submit(work))

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        try:
            self._home.check()
        except BaseException:
            work.close()
            raise
        # What is submitted before stop sets its mark is cancelled by stop; what comes later would never run.
        with self._lock:
            if not self._stopped:
                return asyncio.run_coroutine_threadsafe(work, self.loop)
        work.close()
        raise Unreachable("the agent was stopped", step="call")

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """An async generator of the loop as an iterator; closing it closes the generator."""
        try:
            while True:
                try:
                    yield self.call(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            if self._home.here:
                with suppress(Unreachable):
                    self.call(_close(items))

    async def aiterate(self, items: AsyncGenerator[T, None]) -> AsyncIterator[T]:
        try:
            while True:
                try:
                    yield await self.wait(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            if self._home.here:
                with suppress(Unreachable):
                    await self.wait(_close(items))

    def stop(self) -> None:
        """Cancels what still runs and ends the thread."""
        self._home.check()
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            cancelled = asyncio.run_coroutine_threadsafe(_cancel_all(), self.loop)
        cancelled.result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5.0)
        if not self._thread.is_alive():
            self.loop.close()


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await items.__anext__()


async def _close(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()


async def _cancel_all() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=2.0)
    await asyncio.get_running_loop().shutdown_asyncgens()
