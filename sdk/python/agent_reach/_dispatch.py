"""Runs handlers: sync ones in worker threads, async ones on the agent's loop, at most max_concurrent_requests at once.

begin ─▶ Run: the handler says payloads ─▶ answers: sealed response envelopes, in order, then the end
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from typing import Any, NamedTuple

from . import _json
from ._author import Author, encode_payload
from ._context import CURRENT, Request
from ._workers import Workers
from .envelope import Envelope, Header
from .errors import AgentError, AgentReachError, Loop, NoRoute, Overloaded, Timeout, TooLarge, Unreachable, said_by

log = logging.getLogger("agent_reach")

Handler = Callable[..., Any]
ANY = "*"  # a handler under this name answers every capability that has none of its own


class _Said(NamedTuple):
    payload: bytes = b""
    error: AgentError | None = None
    last: bool = False  # nothing follows
    empty: bool = False  # only marks the end
    fault: AgentReachError | None = None  # the call is to end with this instead


class _Abandoned(Exception):
    """Nobody listens any more; the generator is closed."""


class Run:
    """One running handler. It is one item ahead of its listener at most."""

    def __init__(self, request: Request, loop: asyncio.AbstractEventLoop) -> None:
        self.request = request
        self._loop = loop
        self._said: asyncio.Queue[_Said] = asyncio.Queue()
        self._gate = asyncio.Semaphore(1)
        self._abandoned = False
        self._task: asyncio.Task[None] | None = None
        left = Timeout("the handler did not finish in time", step="agent", trace_id=request.header.trace_id)
        self._timer = loop.call_later(request.remaining_sec, self._said.put_nowait, _Said(fault=left))
        self._spoke = False
        self._concluded = False

    async def listen(self) -> AsyncGenerator[_Said, None]:
        while True:
            said = await self._said.get()
            if said.fault:
                raise said.fault
            if said.empty:
                if not self._spoke:  # even an empty answer is an answer
                    yield _Said(last=True)
                return
            self._spoke = True
            yield said
            if said.last:
                return
            self._gate.release()

    def abandon(self) -> None:
        """The listener has gone: an async handler is cancelled, a generator stopped at its next item."""
        self._timer.cancel()
        self._abandoned = True
        self._gate.release()
        if self._task:
            self._task.cancel()

    def start_async(self, context: contextvars.Context, handler: Handler, ended: Callable[[], None]) -> None:
        self._task = context.run(self._loop.create_task, self._run_async(handler, ended))
        self._task.add_done_callback(
            lambda _: self._conclude(None, ended)
        )  # also when it was cancelled before it began

    async def _run_async(self, handler: Handler, ended: Callable[[], None]) -> None:
        last: _Said | None = None
        try:
            result = handler(_argument(self.request))
            if isinstance(result, AsyncGenerator):
                last = await self._say_all(result)
            else:
                last = _Said(encode_payload(await result), last=True)
        except asyncio.CancelledError as e:
            if self._abandoned:
                raise
            last = self._failure(e)
        except Exception as e:
            last = self._failure(e)
        finally:
            self._conclude(last, ended)

    async def _say_all(self, items: AsyncGenerator[Any, None]) -> _Said:
        async with aclosing(items):
            async for value in items:
                await self._say(value)
        return _Said(empty=True)

    def run_in_thread(self, handler: Handler, ended: Callable[[], None]) -> None:
        """What a worker thread does with a sync handler. The generator stays in one thread."""
        last: _Said | None = None
        try:
            result = handler(_argument(self.request))
            if isinstance(result, Generator):
                last = self._pump(result)
            else:
                last = _Said(encode_payload(result), last=True)
        except BaseException as e:
            last = self._failure(e)
        finally:
            try:
                self._loop.call_soon_threadsafe(self._conclude, last, ended)
            except RuntimeError:
                log.debug("handler ended after its agent")

    def _pump(self, items: Generator[Any, None, None]) -> _Said:
        with closing(items):
            for value in items:
                if self._abandoned:
                    raise _Abandoned
                asyncio.run_coroutine_threadsafe(self._say(value), self._loop).result()
        return _Said(empty=True)

    async def _say(self, value: Any) -> None:
        payload = encode_payload(value)
        await self._gate.acquire()
        if self._abandoned:
            self._gate.release()
            raise _Abandoned
        self._said.put_nowait(_Said(payload))

    def _conclude(self, last: _Said | None, ended: Callable[[], None]) -> None:
        """The place is given back before the answer leaves: the next request may follow at its heels."""
        if not self._concluded:
            self._concluded = True
            ended()
        if last:
            self._said.put_nowait(last)

    def _failure(self, error: BaseException) -> _Said | None:
        if isinstance(error, (_Abandoned, concurrent.futures.CancelledError)) and self._abandoned:
            return None
        return _Said(error=self._explain(error), last=True)

    def _explain(self, error: BaseException) -> AgentError:
        if isinstance(error, AgentError):
            return error
        if isinstance(error, AgentReachError):  # of a call that the handler made
            return AgentError(error.code, error.text)
        header = self.request.header
        log.error(
            "handler failed, capability=%s msg_id=%s trace_id=%s",
            header.target_capability, header.msg_id, header.trace_id, exc_info=error,
        )  # fmt: skip
        return AgentError("agent_error", said_by(error))


class Dispatcher:
    """The handlers of one agent and how many of them run. Lives on the agent's loop."""

    def __init__(self, author: Author, limit: int) -> None:
        self.handlers: dict[str, Handler] = {}
        self.running = 0
        self._answering = 0
        self.closed = False  # unregistered: what still comes in is certainly not run
        self._author = author
        self._limit = limit
        self._workers = Workers(limit, f"agent-reach-{author.id}")
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self, request: Request) -> Run:
        """Starts the handler; raises NoRoute, Overloaded or Unreachable when it certainly will not run."""
        handler = self._find(request)
        if self.closed:
            raise Unreachable(f"agent {self._author.id} is leaving", step="agent")
        if self.running >= self._limit:
            text = f"agent {self._author.id} runs {self.running} requests, its limit"
            if self._author.id in request.header.chain:
                raise Loop(f"{text}, and they wait among others for this very call (chain {list(request.header.chain)})", step="agent")
            raise Overloaded(text, step="agent", retry_after=1.0)
        self.running += 1
        self._idle.clear()
        run = Run(request, asyncio.get_running_loop())
        context = contextvars.copy_context()
        context.run(CURRENT.set, request)
        if _is_async(handler):
            run.start_async(context, handler, self._ended)
        else:
            self._workers.submit(lambda: context.run(run.run_in_thread, handler, self._ended))
        return run

    async def answers(self, run: Run) -> AsyncGenerator[tuple[Envelope, bool], None]:
        """The sealed answers of a run, each with: nothing follows. Raises what the call is to end with."""
        self._answering += 1
        try:
            async with aclosing(run.listen()) as said_in_turn:
                async for said in said_in_turn:
                    yield await self._author.answer(run.request.header, said.payload, said.error), said.last
        finally:
            run.abandon()
            self._answering -= 1
            self._note_idle()

    async def wait_idle(self, timeout: float) -> bool:
        try:
            await asyncio.wait_for(self._idle.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        return True

    def stop(self, timeout: float) -> None:
        """Ends the worker threads; blocks at most timeout seconds."""
        self._workers.stop(timeout)

    def _ended(self) -> None:
        self.running -= 1
        self._note_idle()

    def _note_idle(self) -> None:
        if not self.running and not self._answering:
            self._idle.set()

    def _find(self, request: Request) -> Handler:
        header = request.header
        if header.target_agent not in ("", self._author.id):
            raise NoRoute(f"this is agent {self._author.id}, not {header.target_agent}", step="agent")
        handler = self.handlers.get(header.capability) or self.handlers.get(ANY)
        if handler is None and not header.capability and len(self.handlers) == 1:
            handler = next(iter(self.handlers.values()))
        if handler is None:
            text = f"agent {self._author.id} has no handler for {header.capability or 'a call without capability'!r}"
            raise NoRoute(text, step="agent", hint="it has: " + ", ".join(self.handlers))
        return handler


def ran_too_large(size: int, limit: int, request: Header) -> TooLarge:
    """For an answer that cannot leave: whoever asked must not take it for a request that was refused."""
    text = f"the handler ran, but its answer of {size} bytes cannot be sent: the node takes {limit}"
    hint = "let it answer less, or in parts (a generator)"
    return TooLarge(text, step="agent", hint=hint, trace_id=request.trace_id)


def _argument(request: Request) -> Any:
    return _json.loads(request.payload_bytes) if request.payload_bytes else {}


def _is_async(handler: Handler) -> bool:
    target = getattr(handler, "func", handler)  # functools.partial
    call = type(target).__call__ if not inspect.isroutine(target) else target
    return any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in (target, call))
