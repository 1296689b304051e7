"""A link: one WebSocket to a node that carries many calls both ways (envelope/DESIGN.md, Link).

    dial ─▶ handshake ─▶ run: read ┐
                              write ├─ the first that ends ends the link; every call then learns whether it was
                              watch ┘  handed over (timeout) or not (unreachable)

All of it lives on one event loop; nothing here is safe for other threads.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from . import _json, frames
from ._call import Call
from ._outbox import Outbox
from ._workers import Workers
from .address import Address
from .errors import AgentReachError, Malformed, Overloaded, Unreachable, Unsupported, error_from_object
from .handshake import TIMEOUT, FrameReader, Limits, Peer, dial
from .keys import PrivateKey

log = logging.getLogger("agent_reach")

SUBPROTOCOL = Subprotocol("agent-reach.3")
STALL = 30.0  # seconds without a byte moving, although something waits, after which a link is dead
PING = 10.0  # seconds between looks at a quiet link
MAX_UNDER_WAY = 64 << 20  # announced bytes of all incoming envelopes together
_CLOSE = 1.0  # seconds given to a peer for a polite close

Accept = Callable[[Call, bytes], Awaitable[None]]


class Link:
    """``accept`` gets each call that the node asks, and its message; it answers with call.send and call.end."""

    def __init__(self, ws: ClientConnection, reader: FrameReader, peer: Peer, limits: Limits, accept: Accept) -> None:
        self.peer = peer
        self.limits = limits
        self.outbox = Outbox(self._wake_writer)
        self.refusal: AgentReachError | None = None  # the node's goaway: it takes no new calls
        self.going_away = asyncio.Event()
        self.dropped_parts = 0
        self._ws = ws
        self._reader = reader
        self._accept = accept
        self._calls: dict[int, Call] = {}
        self._unsent: set[Call] = set()  # asked here, nothing written yet, so without a number
        self._next_id = 1
        self._last_theirs = 0
        self._theirs = 0
        self._slots = asyncio.Semaphore(peer.limits.max_calls)
        self._under_way = 0
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._lost = ""
        now = asyncio.get_running_loop().time()
        self._heard = now
        self._write_began: float | None = None

    # calls

    async def open(self, hop: frames.Hop) -> Call:
        """A new call; waits while the node has as many open as it takes. Raises Unreachable on a link that closes."""
        await self._slots.acquire()
        if self._lost or self.refusal or self._closing.is_set():
            self._slots.release()
            raise Unreachable(self._lost or "the node takes no new calls on this link", step="link")
        call = Call(self, 0, asked_here=True, hop=hop)
        self._unsent.add(call)
        return call

    def number(self, call: Call) -> int:
        """The number of a call that is about to be written for the first time."""
        self._unsent.discard(call)
        id, self._next_id = self._next_id, self._next_id + 2
        self._calls[id] = call
        return id

    @property
    def busy(self) -> bool:
        return bool(self._calls or self._unsent)

    def forget(self, call: Call) -> None:
        if call.expiry:
            call.expiry.cancel()
        if call in self._unsent:
            self._unsent.discard(call)
        elif self._calls.pop(call.id, None) is None:
            return
        if call.asked_here:
            self._slots.release()
        else:
            self._theirs -= 1

    def await_end(self, call: Call) -> None:
        """A cancelled call is remembered until the node ends it, at most a while."""
        call.expiry = asyncio.get_running_loop().call_later(STALL, self.forget, call)

    def reserve(self, count: int) -> bool:
        if self._under_way + count > MAX_UNDER_WAY:
            return False
        self._under_way += count
        return True

    def release(self, count: int) -> None:
        self._under_way -= count

    # life

    async def run(self) -> None:
        """Carries frames until the link is closed or lost; never raises for what the other side does."""
        parts = [asyncio.ensure_future(part()) for part in (self._read, self._write, self._watch)]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            await self._farewell(next(iter(done)))
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            self._lose(self._lost or "the link was closed")
            await self._shut()

    async def close(self) -> None:
        """Asks run to end; what waits to be written is given a moment."""
        self._closing.set()

    async def _farewell(self, first: asyncio.Future[None]) -> None:
        error = first.exception()
        if error is None:
            self._lost = "the link was closed"
            return
        self._lost = f"the link to node {self.peer.id} was lost: {error or type(error).__name__}"
        if isinstance(error, AgentReachError):
            await self._send_quickly(frames.encode_error(frames.GOAWAY, 0, error))
        elif not isinstance(error, (OSError, WebSocketException)):
            log.error("link failed", exc_info=error)

    async def _send_quickly(self, data: bytes) -> None:
        try:
            await asyncio.wait_for(self._ws.send(data), _CLOSE)
        except (asyncio.TimeoutError, OSError, WebSocketException):
            pass

    async def _shut(self) -> None:
        try:
            await asyncio.wait_for(self._ws.close(), _CLOSE)
        except (asyncio.TimeoutError, OSError, WebSocketException):
            pass
        finally:
            self._ws.transport.abort()

    def _lose(self, text: str) -> None:
        self._lost = text
        for call in [*self._calls.values(), *self._unsent]:
            call.lost(text)
        self.going_away.set()

    # frames in

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            frame = await self._reader.next()
            self._heard = loop.time()
            self._on_frame(frame)

    def _on_frame(self, frame: frames.Frame) -> None:
        if frame.type == frames.PART:
            self._on_part(frame)
        elif frame.type == frames.MESSAGE:
            self._on_message(frame)
        elif frame.type == frames.CREDIT:
            self._on_credit(frame)
        elif frame.type in (frames.END, frames.CANCEL):
            self._on_end(frame)
        elif frame.type == frames.PING and not frame.flags & frames.ACK:
            self.outbox.control(frames.encode(frames.PING, 0, frame.body[:8], frames.ACK))
        elif frame.type == frames.GOAWAY:
            self.refusal = frames.decode_error(frame.body) or Unreachable("the node is leaving", step="link")
            self.going_away.set()
        elif frame.type in (frames.HELLO, frames.PROOF):
            raise Malformed("a second handshake on the link", step="link")

    def _on_part(self, frame: frames.Frame) -> None:
        call = self._calls.get(frame.call)
        if call is None or call.over:
            self.dropped_parts += 1
            return
        if not call.asked_here:
            raise Malformed(f"call {frame.call}: a part from the side that asked", step="link")
        announced, body = frames.split_part(frame.body) if frame.flags & frames.FIRST else (None, frame.body)
        data = call.receive(announced, body, frame.flags)
        if data is not None:
            call.deliver(data)
        if frame.flags & frames.FINAL and frame.flags & frames.LAST:
            call.ended(None)

    def _on_message(self, frame: frames.Frame) -> None:
        hop: frames.Hop | None = None
        announced, body = None, frame.body
        if frame.flags & frames.FIRST:
            hop, announced, body = frames.split_message(frame.body)
            if not self._admit(frame.call, hop):
                return
        call = self._calls.get(frame.call)
        if call is None or call.asked_here:
            return
        data = call.receive(announced, body, frame.flags)
        if data is not None:
            self.release(len(data))
            call.task = asyncio.ensure_future(self._accept(call, data))

    def _admit(self, id: int, hop: frames.Hop) -> bool:
        if id % 2 or id <= self._last_theirs:
            raise Malformed(f"call number {id} after {self._last_theirs}; a node's are even and grow", step="link")
        self._last_theirs = id
        if self._theirs >= self.limits.max_calls:
            error = Overloaded(f"{self._theirs} calls are open on this link", step="link", retry_after=1.0)
            self.outbox.control(frames.encode_error(frames.END, id, error))
            return False
        self._theirs += 1
        self._calls[id] = Call(self, id, asked_here=False, hop=hop)
        return True

    def _on_credit(self, frame: frames.Frame) -> None:
        call = self._calls.get(frame.call)
        if call:
            call.stream.credit += frames.credit_of(frame.body)
            self.outbox.arm(call.stream)

    def _on_end(self, frame: frames.Frame) -> None:
        call = self._calls.get(frame.call)
        if call is None:
            return
        call.ended(frames.decode_error(frame.body))
        if frame.type == frames.CANCEL and not call.asked_here:
            self.outbox.control(frames.encode(frames.END, frame.call))

    # frames out

    def _wake_writer(self) -> None:
        self._wake.set()

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self.outbox.flooded:
                raise Overloaded(f"node {self.peer.id} floods the link, or does not read it", step="link")
            while batch := self.outbox.take():
                self._write_began = loop.time()
                await self._ws.send(batch)
                self._write_began = None

    async def _watch(self) -> None:
        """Ends when the link is to be closed; raises when the other side moves nothing."""
        loop = asyncio.get_running_loop()
        while not self._closing.is_set():
            try:
                await asyncio.wait_for(self._closing.wait(), PING)
            except asyncio.TimeoutError:
                self._look(loop.time())
        for _ in range(20):
            if not self._wake.is_set() and self._write_began is None:
                return
            await asyncio.sleep(_CLOSE / 20)

    def _look(self, now: float) -> None:
        quiet = now - self._heard
        if quiet > STALL:
            raise Unreachable(f"node {self.peer.id} was silent for {quiet:.0f} s", step="link")
        if self._write_began is not None and now - self._write_began > STALL:
            raise Unreachable(f"node {self.peer.id} took no byte for {STALL:.0f} s", step="link")
        for call in list(self._calls.values()):
            if call.stream.starving is not None and now - call.stream.starving > STALL:
                call.stalled(f"node {self.peer.id} took no byte for {STALL:.0f} s")
        if quiet >= PING * 0.9:
            self.outbox.control(frames.encode(frames.PING, 0, b"keepaliv"))


async def open_link(address: Address, id: str, key: PrivateKey, limits: Limits, accept: Accept, io: Workers) -> Link:
    """Connects and proves both sides. Raises Unreachable, or what the node says or does wrong."""
    ws = await _connect(address, io)
    try:
        if ws.subprotocol != SUBPROTOCOL:
            raise Unsupported(
                f"{address} does not speak {SUBPROTOCOL}", step="link", hint="is this an agent-reach node?"
            )
        reader = FrameReader(ws)
        peer = await dial(ws, reader, id, key, limits)
        return Link(ws, reader, peer, limits, accept)
    except (OSError, ConnectionClosed) as e:
        ws.transport.abort()
        raise Unreachable(f"{address} closed the link during the handshake: {e}", step="link") from None
    except BaseException:
        ws.transport.abort()
        raise


async def _connect(address: Address, io: Workers) -> ClientConnection:
    # The socket is made in a worker of ours: asyncio's resolver runs in an executor that is gone once the main
    # thread has ended, and an agent lives on after that. No proxy is consulted either.
    try:
        dialing = io.run(socket.create_connection, (address.host, address.port), TIMEOUT)
        sock = await asyncio.wait_for(dialing, TIMEOUT)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return await connect(address.link_url, sock=sock, **_options(address))
    except InvalidStatus as e:
        raise _refusal(address, e) from None
    except (OSError, WebSocketException, asyncio.TimeoutError) as e:
        hint = "is a node running there? start one with: agent-reach --role router_and_registry"
        raise Unreachable(f"{address}: {e or type(e).__name__}", step="link", hint=hint) from None


def _options(address: Address) -> dict[str, Any]:
    options: dict[str, Any] = {
        "subprotocols": [SUBPROTOCOL], "compression": None, "open_timeout": TIMEOUT, "close_timeout": _CLOSE,
        "ping_interval": None, "max_size": 8 << 20, "max_queue": 32, "write_limit": 128 << 10,
    }  # fmt: skip
    if address.secure:
        options |= {"ssl": ssl.create_default_context(), "server_hostname": address.host}
    if "proxy" in inspect.signature(connect.__init__).parameters:
        options["proxy"] = None
    return options


def _refusal(address: Address, refused: InvalidStatus) -> AgentReachError:
    response = refused.response
    try:
        members = _json.loads(bytes(response.body or b""))
        if isinstance(members, dict) and "code" in members:
            return error_from_object(members)
    except Malformed:
        pass
    return Unreachable(f"{address} answered {response.status_code} to /v1/link", step="link")
