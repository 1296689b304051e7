"""AgentReachAgent: be an agent, call, look up."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from . import _check, _log, _signals
from ._ask import NO_PAYLOAD, Ask, make_ask
from ._context import current_request
from ._core import Core, Settings
from ._dispatch import ANY
from ._loop import LoopThread
from ._process import Home
from .address import parse_addresses
from .answers import Candidate, Outcome, Response
from .envelope import check_id
from .keys import PrivateKey, generate, load_or_create

log = logging.getLogger("agent_reach")

F = TypeVar("F", bound=Callable[..., Any])
Asked = Mapping[str, Any] | str | None

START_TIMEOUT = 60.0  # seconds that start() waits for a node
MAX_PAYLOAD = 4 << 20


class AgentReachAgent:
    """One agent of the network. Its methods may be used from any thread; those named …_async from any event loop.

    It lives in the process that made it: in a forked child every method raises AgentReachError.

    capability, capabilities: two names of one list of what it offers, each with name and version at least.
    node: address, several with commas or a list; default AGENT_REACH_NODE, else http://127.0.0.1:7981.
    endpoint: {"type": "link"} (the default: no port is needed) or {"type": "http", "url": …}; "bind": "host:port" when
    the address to listen on is another than the published one.
    private_key_path: made when it is missing; None: a key that lasts as long as the process.
    """

    def __init__(
        self,
        agent_id: str,
        private_key_path: str | os.PathLike[str] | None = None,
        capability: Sequence[Mapping[str, Any]] | None = None,
        capabilities: Sequence[Mapping[str, Any]] | None = None,
        endpoint: Mapping[str, Any] | None = None,
        heartbeat_interval_sec: int = 30,
        node: str | Iterable[str] | None = None,
        max_concurrent_requests: int = 10,
        display_name: str = "",
        *,
        private_key_passphrase: str | bytes | None = None,
        drain_timeout_sec: float = 30.0,
        max_payload_bytes: int = MAX_PAYLOAD,
        handle_signals: bool = True,
    ) -> None:
        _log.show_by_default()
        about: dict[str, Any] = {
            "agent_id": check_id(_check.text(agent_id, "agent_id"), "agent_id"),
            "nodes": parse_addresses(_check.node(node)),
            "capabilities": _check.capabilities(capability, capabilities),
            "endpoint": _check.endpoint(endpoint),
            "display_name": _check.text(display_name, "display_name"),
            "heartbeat_interval_sec": _check.whole(heartbeat_interval_sec, "heartbeat_interval_sec", 1, 86400),
            "max_concurrent_requests": _check.whole(max_concurrent_requests, "max_concurrent_requests", 1, 100_000),
            "max_payload_bytes": _check.whole(max_payload_bytes, "max_payload_bytes", 1, 1 << 30),
        }
        drain_timeout_sec = _check.seconds(drain_timeout_sec, "drain_timeout_sec", 86400)
        # The key last: none is made for an agent that is not.
        self._settings = Settings(**about, key=_key(private_key_path, private_key_passphrase))
        self._home = Home(f"agent {agent_id}")
        self._drain = drain_timeout_sec
        self._handle_signals = handle_signals
        self._lock = threading.RLock()
        self._loop: LoopThread | None = None
        self._core: Core | None = None
        self._keeper: threading.Thread | None = None  # not a daemon: keeps the process alive until stop()
        self._stopping = False
        self._stopped = threading.Event()

    @property
    def agent_id(self) -> str:
        return self._settings.agent_id

    @property
    def public_key(self) -> bytes:
        return self._settings.key.public

    # be an agent

    def rpc_handler(self, capability: str) -> Callable[[F], F]:
        """Marks the function that answers a capability: it takes the payload (a dict) and returns the answer's.

        Sync functions run in worker threads, async ones on the agent's event loop; generators answer in parts. "*"
        answers every capability without a function of its own. current_request() tells who asks.
        """
        self._home.check()
        _check.text(capability, "a capability's name")
        declared = [one["name"] for one in self._settings.capabilities]
        if capability != ANY and capability not in declared:
            raise ValueError(
                f"rpc_handler({capability!r}): not among the declared capabilities: {', '.join(declared) or 'none'}"
            )

        def register(function: F) -> F:
            self._settings.handlers[capability] = function
            return function

        return register

    def start(self, timeout_sec: float = START_TIMEOUT) -> None:
        """Registers and serves. Returns when registered; the process then lives until stop(), SIGTERM or SIGINT.

        Raises what a node refused the registration with, or Unreachable when none was found in time.
        """
        self._home.check()
        handlers = self._settings.handlers
        missing = [
            one["name"] for one in self._settings.capabilities if one["name"] not in handlers and ANY not in handlers
        ]
        if missing:
            raise ValueError(f"no rpc_handler for {', '.join(missing)}: what is declared gets requests")
        loop, core = self._running()
        if self._handle_signals:
            _signals.watch(self)  # before the first request can come, or a signal would cut it off
        try:
            loop.call(core.serve(timeout_sec))
        except BaseException:
            self.stop(0)
            _signals.rest()
            raise
        self._keeper = threading.Thread(target=self._stopped.wait, name=f"agent-reach-{self.agent_id}-alive")
        self._keeper.start()

    def stop(self, drain_timeout_sec: float | None = None) -> None:
        """Leaves: unregisters, lets running handlers finish (for drain_timeout_sec), ends all threads.

        Called inside a handler of this agent it returns at once and the rest happens behind it.
        """
        self._home.check()
        request = current_request()
        if request and request.agent_id == self.agent_id or self._loop and self._loop.inside:
            threading.Thread(target=self._stop, args=(drain_timeout_sec,), daemon=True).start()
        else:
            self._stop(drain_timeout_sec)

    def _stop(self, drain: float | None) -> None:
        with self._lock:
            first, self._stopping = not self._stopping, True
        if not first:
            self._stopped.wait()
            return
        try:
            if self._loop and self._core:
                self._loop.call(self._core.leave(self._drain if drain is None else drain))
                self._loop.stop()
                self._core.stop_threads()
        finally:
            atexit.unregister(self._at_exit)
            self._stopped.set()
            if self._keeper:
                self._keeper.join(1.0)
            _signals.forget(self)

    def set_available(self, capabilities: Iterable[str] | None) -> None:
        """Switches to this subset of the declared capabilities (busy hours); None: all. The node hears it soon."""
        loop, core = self._running()
        names = None if capabilities is None else list(capabilities)

        def change() -> None:
            core.available = names
            core.session.beat_soon()

        loop.loop.call_soon_threadsafe(change)

    def __enter__(self) -> AgentReachAgent:
        return self

    def __exit__(self, *_: object) -> None:
        if self._home.here:
            self.stop()

    def __repr__(self) -> str:
        return f"AgentReachAgent({self.agent_id!r})"

    # call

    def call(self, request: Asked = None, payload: Any = NO_PAYLOAD, *, direct: bool = False, **fields: Any) -> Any:
        """Asks and returns the answer's payload (of a streamed answer: a list of its parts' payloads).

        call({"target_capability": "stock.query", "payload": {...}, "ttl_sec": 30}), or
        call("stock.query", {...}, ttl_sec=30); further fields: target_agent, priority, trace_id, traceparent,
        conversation_id, idempotency_key, msg_id. direct=True goes straight to the agent where that is possible.
        """
        loop, core, ask = self._prepare(request, payload, fields)
        if ask.values["msg_type"] == "broadcast":
            return loop.call(core.caller.broadcast(ask))
        return _payload(loop.call(core.caller.call(ask, direct)))

    def call_full(
        self, request: Asked = None, payload: Any = NO_PAYLOAD, *, direct: bool = False, **fields: Any
    ) -> Response:
        """As call, with the answer's header."""
        loop, core, ask = self._prepare(request, payload, fields)
        return loop.call(core.caller.call(ask, direct))

    async def call_async(
        self, request: Asked = None, payload: Any = NO_PAYLOAD, *, direct: bool = False, **fields: Any
    ) -> Any:
        loop, core, ask = self._prepare(request, payload, fields)
        if ask.values["msg_type"] == "broadcast":
            return await loop.wait(core.caller.broadcast(ask))
        return _payload(await loop.wait(core.caller.call(ask, direct)))

    async def call_full_async(
        self, request: Asked = None, payload: Any = NO_PAYLOAD, *, direct: bool = False, **fields: Any
    ) -> Response:
        loop, core, ask = self._prepare(request, payload, fields)
        return await loop.wait(core.caller.call(ask, direct))

    def stream(self, request: Asked = None, payload: Any = NO_PAYLOAD, **fields: Any) -> Iterator[Any]:
        """The payloads of the answer's parts as they come. Leaving the loop early cancels the call."""
        loop, core, ask = self._prepare(request, payload, fields)
        return loop.iterate(_payloads(core, ask))

    def stream_async(self, request: Asked = None, payload: Any = NO_PAYLOAD, **fields: Any) -> AsyncIterator[Any]:
        loop, core, ask = self._prepare(request, payload, fields)
        return loop.aiterate(_payloads(core, ask))

    def broadcast(self, request: Asked = None, payload: Any = NO_PAYLOAD, **fields: Any) -> list[Outcome]:
        """Asks every available agent of the capability: one outcome for each."""
        loop, core, ask = self._prepare(request, payload, fields)
        return loop.call(core.caller.broadcast(ask))

    async def broadcast_async(self, request: Asked = None, payload: Any = NO_PAYLOAD, **fields: Any) -> list[Outcome]:
        loop, core, ask = self._prepare(request, payload, fields)
        return await loop.wait(core.caller.broadcast(ask))

    # look up

    def lookup(self, request: Asked = None, payload: Any = NO_PAYLOAD, **fields: Any) -> list[Candidate]:
        """Who could answer now, best first, with endpoints, public keys and scores. Nothing is handed over."""
        loop, core, ask = self._prepare(request, payload, fields)
        return loop.call(core.caller.lookup(ask))

    async def lookup_async(self, request: Asked = None, payload: Any = NO_PAYLOAD, **fields: Any) -> list[Candidate]:
        loop, core, ask = self._prepare(request, payload, fields)
        return await loop.wait(core.caller.lookup(ask))

    # inside

    def _prepare(self, request: Asked, payload: Any, fields: Mapping[str, Any]) -> tuple[LoopThread, Core, Ask]:
        self._home.check()
        ask = make_ask(self.agent_id, request, payload, fields)
        loop, core = self._running()
        loop.loop.call_soon_threadsafe(core.begin)
        return loop, core, ask

    def _running(self) -> tuple[LoopThread, Core]:
        self._home.check()
        with self._lock:
            if self._stopping:
                raise RuntimeError(f"agent {self.agent_id} is stopped; make a new one")
            if self._loop is None or self._core is None:
                self._loop = LoopThread(f"agent-reach-{self.agent_id}", self._home)
                self._core = self._loop.call(_make_core(self._settings))
                atexit.register(self._at_exit)
            return self._loop, self._core

    def _at_exit(self) -> None:
        if self._home.here:
            self.stop(0)


async def _make_core(settings: Settings) -> Core:
    return Core(settings)


async def _payloads(core: Core, ask: Ask) -> AsyncGenerator[Any, None]:
    """Zero bytes stand for an answer without items; a generator that yields nothing answers so."""
    stream = core.caller.stream(ask)
    try:
        async for response in stream:
            if response.payload_bytes:
                yield response.payload
    finally:
        await stream.aclose()


def _payload(response: Response) -> Any:
    if response.parts:
        return [part.payload for part in response.parts]
    return response.payload


def _key(path: str | os.PathLike[str] | None, passphrase: str | bytes | None) -> PrivateKey:
    if path is not None:
        return load_or_create(path, passphrase)
    log.warning("no private_key_path: this agent's key ends with the process")
    return generate()
