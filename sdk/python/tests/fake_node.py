"""The node's side of a link, written for the tests alone: for faults that a real node cannot produce."""

from __future__ import annotations

import asyncio
import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_bytes
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from agent_reach import frames, keys
from agent_reach._author import Author
from agent_reach._loop import LoopThread
from agent_reach.envelope import Envelope, Header, check_header, decode_bytes, format_time, new_id
from agent_reach.errors import AgentReachError
from agent_reach.frames import Frame, Hop
from agent_reach.seal import key_from_base64, leaf_of, seal_leaves

PATIENCE = 10.0


@dataclass
class Asked:
    """A message of the agent."""

    link: FakeLink
    call: int
    hop: Hop
    envelope: Envelope

    async def answer(self, payload: bytes, author: Author | None = None, final: bool = True, **error: Any) -> None:
        request = self.envelope.header
        node = author or self.link.node.author
        values = {"status": "error", "error": error} if error else {"status": "ok"}
        envelope = await node.write(
            payload, msg_type="response", in_reply_to=request.msg_id, trace_id=request.trace_id,
            target_agent=request.source_agent, **values,
        )  # fmt: skip
        await self.part(envelope.to_bytes(), final)

    async def part(self, data: bytes, final: bool = True) -> None:
        for at in range(0, len(data), 16000):
            first, last = at == 0, at + 16000 >= len(data)
            flags = first * frames.FIRST | last * frames.LAST | (last and final) * frames.FINAL
            prefix = frames.part_prefix(len(data)) if first else b""
            await self.link.send(frames.encode(frames.PART, self.call, prefix + data[at : at + 16000], flags))

    async def end(self, error: AgentReachError | None = None) -> None:
        await self.link.send(frames.encode_error(frames.END, self.call, error))


class FakeLink:
    def __init__(self, node: FakeNode, ws: ServerConnection) -> None:
        self.node = node
        self.ws = ws
        self.agent = ""
        self.frames: list[Frame] = []  # all that came after the handshake
        self._decoder = frames.Decoder()
        self._ready: list[Frame] = []
        self._messages: dict[int, tuple[Hop, int, bytearray]] = {}
        self._next = 2
        self.parts: dict[int, list[bytes]] = {}
        self.ends: dict[int, AgentReachError | None] = {}
        self.give_credit = True
        self.tasks: set[asyncio.Task[Any]] = set()

    async def send(self, data: bytes) -> None:
        await self.ws.send(data)

    async def next(self) -> Frame:
        while not self._ready:
            data = await self.ws.recv()
            assert isinstance(data, bytes)
            self._ready += self._decoder.feed(data)
        return self._ready.pop(0)

    async def ask(self, header: Header, payload: bytes, *, remaining_ms: int = 10_000, priority: int = 5) -> int:
        """Asks the agent; returns the number of the call."""
        raw = header.to_bytes()
        seal = seal_leaves(self.node.author.key, [leaf_of(raw, payload)])[0]
        data = Envelope(header, raw, payload, seal).to_bytes()
        call, self._next = self._next, self._next + 2
        for at in range(0, len(data), 16000):
            first, last = at == 0, at + 16000 >= len(data)
            prefix = frames.message_prefix(Hop(remaining_ms, 4, priority, 0), len(data)) if first else b""
            flags = first * frames.FIRST | last * frames.LAST
            await self.send(frames.encode(frames.MESSAGE, call, prefix + data[at : at + 16000], flags))
        return call

    async def serve(self) -> None:
        while True:
            frame = await self.next()
            self.frames.append(frame)
            self.node.notify()
            if frame.type == frames.MESSAGE:
                await self._on_message(frame)
            elif frame.type == frames.PART:
                await self._on_part(frame)
            elif frame.type == frames.PING and self.node.answer_pings:
                await self.send(frames.encode(frames.PING, 0, frame.body, frames.ACK))
            elif frame.type == frames.END:
                self.ends[frame.call] = frames.decode_error(frame.body)
            self.node.notify()

    async def _on_message(self, frame: Frame) -> None:
        body = frame.body
        if frame.flags & frames.FIRST:
            hop, length, body = frames.split_message(body)
            self._messages[frame.call] = (hop, length, bytearray())
        hop, length, data = self._messages[frame.call]
        data += body
        if self.give_credit:
            await self.send(frames.encode_credit(frame.call, len(body)))
        if frame.flags & frames.LAST:
            assert len(data) == length
            asked = Asked(self, frame.call, hop, decode_bytes(bytes(data)))
            task = asyncio.ensure_future(self.node.on_asked(asked))
            self.tasks.add(task)

    async def _on_part(self, frame: Frame) -> None:
        body = frame.body
        if frame.flags & frames.FIRST:
            _, body = frames.split_part(body)
            self.parts.setdefault(frame.call, []).append(b"")
        self.parts[frame.call][-1] += body
        if frame.flags & frames.FINAL:
            self.ends[frame.call] = None
        elif self.give_credit:
            await self.send(frames.encode_credit(frame.call, len(body)))


@dataclass
class FakeNode:
    """Answers register, heartbeat and unregister by itself; on_request answers what the agent calls."""

    id: str = "fake-node"
    window: int = 256 << 10
    max_message: int = 8 << 20
    max_calls: int = 1000
    refuse: AgentReachError | None = None
    wrong_proof: bool = False
    state: str = "available"
    answer_pings: bool = False
    mute: bool = False  # accepts the WebSocket and says nothing
    on_request: Callable[[Asked], Awaitable[None]] | None = None
    on_heartbeat: Callable[[Asked], Awaitable[None]] | None = None
    author: Author = field(init=False)
    published: dict[str, str] = field(default_factory=dict)
    lookups: list[str] = field(default_factory=list)
    links: list[FakeLink] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self.author = Author(self.id, keys.generate())
        self._changed = threading.Condition()
        self._server: Server | None = None

    def __enter__(self) -> FakeNode:
        self.loop = LoopThread("fake-node")
        self.loop.call(self._start(0))
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call(self.down())
        self.loop.stop()

    async def _start(self, port: int) -> None:
        self._server = await serve(
            self._on_connection, "127.0.0.1", port, subprotocols=["agent-reach.3"], compression=None,  # type: ignore[list-item]
            process_request=self._on_http, max_size=None, ping_interval=None, close_timeout=0.2,
        )  # fmt: skip
        self.url = f"http://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}"

    async def down(self) -> None:
        assert self._server
        self._server.close(close_connections=False)
        for link in self.links:
            link.ws.transport.abort()
            for task in link.tasks:
                task.cancel()
        await asyncio.sleep(0)

    def _on_http(self, connection: ServerConnection, request: Any) -> Any:
        if request.path.startswith("/v1/agents/"):
            id = request.path.rpartition("/")[2]
            self.lookups.append(id)
            return connection.respond(200, json.dumps({"agent_id": id, "public_key": self.published.get(id)}))
        return None

    async def _on_connection(self, ws: ServerConnection) -> None:
        link = FakeLink(self, ws)
        try:
            if self.mute:
                await asyncio.sleep(60)
            if not await self._handshake(link):
                return
            self.links.append(link)
            await link.serve()
        except ConnectionClosed:
            pass

    async def _handshake(self, link: FakeLink) -> bool:
        theirs = (await link.next()).body
        hello = json.loads(theirs)
        link.agent = hello["id"]
        limits = {"max_message": self.max_message, "max_calls": self.max_calls, "window": self.window}
        ours = json.dumps(
            {"version": "3.0", "role": "node", "id": self.id, "key": b64encode(self.author.key.public).decode(),
             "nonce": b64encode(token_bytes(32)).decode(), "time": format_time(), **limits}
        ).encode()  # fmt: skip
        await link.send(frames.encode(frames.HELLO, 0, ours))
        proof = json.loads((await link.next()).body)
        both = sha256(theirs).digest() + sha256(ours).digest()
        assert keys.verify(key_from_base64(hello["key"]), b64decode(proof["sig"]), b"agent-reach/3.0 link dial" + both)
        if self.refuse:
            await link.send(frames.encode_error(frames.GOAWAY, 0, self.refuse))
            return False
        domain = b"agent-reach/3.0 link dial" if self.wrong_proof else b"agent-reach/3.0 link accept"
        sig = b64encode(self.author.key.sign(domain + both)).decode()
        await link.send(frames.encode(frames.PROOF, 0, json.dumps({"sig": sig}).encode()))
        return True

    async def on_asked(self, asked: Asked) -> None:
        self.asked.append(asked)
        self.notify()
        kind = asked.envelope.header.msg_type
        if kind == "register":
            state = {"agent_id": asked.link.agent, "node_id": self.id, "state": self.state, "score": 10.0, "nodes": []}
            await asked.answer(json.dumps(state).encode())
        elif kind == "heartbeat" and self.on_heartbeat:
            await self.on_heartbeat(asked)
        elif kind in ("heartbeat", "unregister"):
            await asked.answer(b'{"state":"available"}')
        elif self.on_request:
            await self.on_request(asked)
        self.notify()

    # for the test's thread

    def of(self, kind: str) -> list[Asked]:
        return [a for a in self.asked if a.envelope.header.msg_type == kind]

    def notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def wait(self, condition: Callable[[], Any], what: str = "") -> Any:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), f"did not happen: {what}"
        return condition()

    def ask(
        self, target: str, payload: Any, *, source: str = "some-caller", remaining_ms: int = 10_000, **values: Any
    ) -> int:
        """Asks the agent on its newest link; returns the call's number."""
        given = {"msg_id": new_id(), "msg_type": "request", "source_agent": source, "timestamp_utc": format_time()}
        header = check_header({**given, "target_capability": target, **values})
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        return self.loop.call(self.links[-1].ask(header, data, remaining_ms=remaining_ms))

    def ended(self, call: int) -> tuple[list[Envelope], AgentReachError | None]:
        link = self.links[-1]
        self.wait(lambda: call in link.ends, f"end of call {call}")
        return [decode_bytes(part) for part in link.parts.get(call, [])], link.ends[call]
