"""The parts of a running agent, put together; all of it lives on the agent's loop."""

from __future__ import annotations

import asyncio
import logging
import time
from base64 import b64encode
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from ._author import Author
from ._call import Call
from ._caller import Caller
from ._context import Request
from ._delivery import Delivery
from ._dispatch import Dispatcher, ran_too_large
from ._session import Session
from ._workers import Workers
from .address import Address
from .envelope import decode_bytes
from .errors import MAX_TEXT, AgentReachError, Expired, Timeout, Unsupported, cut
from .handshake import Limits
from .http_endpoint import Endpoint
from .keys import PrivateKey

log = logging.getLogger("agent_reach")

OVERHEAD = 8 << 10  # bytes of header and seal beside a payload, with room to spare
WINDOW = 256 << 10
IO_THREADS = 32
SETTLE = 5.0  # seconds to wait for the node's probe after registering
_NO_DEADLINE = 0xFFFFFFFF


@dataclass(frozen=True)
class Settings:
    """What the agent was made with."""

    agent_id: str
    key: PrivateKey
    nodes: list[Address]
    capabilities: list[dict[str, Any]]
    endpoint: dict[str, Any]
    display_name: str
    heartbeat_interval_sec: int
    max_concurrent_requests: int
    max_payload_bytes: int
    handlers: dict[str, Any] = field(default_factory=dict)

    @property
    def serves_http(self) -> bool:
        return self.endpoint.get("type") == "http"


class Core:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._author = Author(settings.agent_id, settings.key)
        self._io = Workers(IO_THREADS, f"agent-reach-{settings.agent_id}-io")
        self.dispatcher = Dispatcher(self._author, settings.max_concurrent_requests)
        self.dispatcher.handlers = settings.handlers
        max_message = settings.max_payload_bytes + OVERHEAD
        limits = Limits(max_message, max(64, 4 * settings.max_concurrent_requests), WINDOW)
        interval = settings.heartbeat_interval_sec
        self.session = Session(self._author, settings.nodes, limits, self._serve, self._io, interval)
        self.session.descriptor = self._descriptor
        self.session.status = self._status
        self.caller = Caller(self._author, self.session, self._io, max_message + OVERHEAD)
        self.available: list[str] | None = None
        self._delivery = Delivery(self._author, self.dispatcher, self.session.keys)
        self._endpoint: Endpoint | None = None
        self._serving = False
        self._started = False

    # life

    def begin(self) -> None:
        """Begins to attach, unless that was done: as one that only calls, if serve was not called before."""
        if not self._started:
            self._started = True
            self.session.start()

    async def serve(self, timeout: float) -> None:
        """Registers what the agent offers; returns when that is done and the node has seen that the agent answers.

        Raises what a node refused it with, or Unreachable.
        """
        self._serving = True
        if self._settings.serves_http:
            self._listen()
        called_before = self._started
        self.begin()
        await self.session.ready(time.monotonic() + timeout, rounds=float("inf"))
        if called_before:
            await self.session.register()
        if await self.session.settle(SETTLE) == "pending":
            where = self._settings.endpoint.get("url", "its link")
            log.warning("agent still pending: the node got no answer from %s, id=%s", where, self._settings.agent_id)

    async def leave(self, drain: float) -> None:
        """Unregisters, lets running handlers finish for at most drain seconds, closes everything else."""
        self.caller.direct.tell()
        await self.session.leave()
        self.dispatcher.closed = True
        await self.dispatcher.wait_idle(drain)
        if self._endpoint:
            await self._io.run(self._endpoint.stop)
        await self.session.stop()

    def stop_threads(self) -> None:
        """Blocks, at most two seconds: a handler that does not end keeps its (daemon) thread."""
        self.dispatcher.stop(1.0)
        self._io.stop(1.0)

    def _listen(self) -> None:
        endpoint = self._settings.endpoint
        loop = asyncio.get_running_loop()
        limit = self._settings.max_payload_bytes
        self._endpoint = Endpoint(endpoint["url"], endpoint.get("bind", ""), self._delivery.answers, loop, limit)
        self._endpoint.start()

    # what the node learns

    def _descriptor(self) -> dict[str, Any]:
        settings = self._settings
        endpoint = {name: value for name, value in settings.endpoint.items() if name != "bind"}
        descriptor: dict[str, Any] = {
            "agent_id": settings.agent_id,
            "display_name": settings.display_name,
            "capabilities": settings.capabilities if self._serving else [],
            "endpoint": endpoint if self._serving else {"type": "link"},
            "heartbeat_interval_sec": settings.heartbeat_interval_sec,
            "max_concurrent_requests": settings.max_concurrent_requests,
            "current_load": self.dispatcher.running,
            "public_key": b64encode(settings.key.public).decode(),
        }
        return {name: value for name, value in descriptor.items() if value != ""}

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = {"current_load": self.dispatcher.running}
        if self.available is not None:
            status["capabilities"] = self.available
        return status

    # calls that come over the link

    async def _serve(self, call: Call, data: bytes) -> None:
        try:
            await self._answer(call, data)
        except AgentReachError as e:
            call.end(e)
        except Exception as e:
            log.exception("call failed")
            call.end(AgentReachError(cut(f"a fault in the agent's SDK: {e!r}", MAX_TEXT), step="agent"))

    async def _answer(self, call: Call, data: bytes) -> None:
        envelope = decode_bytes(data, self._settings.max_payload_bytes)
        header = envelope.header
        if header.msg_type == "heartbeat":  # a probe
            await call.send((await self._author.answer(header, b"{}")).to_bytes(), final=True)
            return
        if header.msg_type not in ("request", "broadcast"):
            raise Unsupported(f"a {header.msg_type} is not delivered to agents", step="agent")
        left = float(header.ttl_sec)
        if call.hop.remaining_ms != _NO_DEADLINE:
            left = min(86400.0, call.hop.remaining_ms / 1000)
        if left <= 0:
            raise Expired("no time is left of the request", step="agent", trace_id=header.trace_id)
        run = self.dispatcher.begin(Request(header, envelope.payload, time.monotonic() + left, self._author.id))
        # A reader without credit must not hold the call for ever.
        late = Timeout("the answer could not be given in time", step="agent", trace_id=header.trace_id)
        timer = asyncio.get_running_loop().call_later(left + 1.0, call.break_off, late)
        try:
            async with aclosing(self.dispatcher.answers(run)) as answers:
                async for answer, last in answers:
                    data = answer.to_bytes()
                    if len(data) > call.limit:
                        raise ran_too_large(len(data), call.limit, header)
                    await call.send(data, final=last)
            call.end()
        finally:
            timer.cancel()
