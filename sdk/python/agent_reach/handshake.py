"""The handshake of a link, from the dialer's side: hello, hello, proof, proof.

dialer ── hello ──▶ acceptor        both sign, with the key in their hello,
dialer ◀── hello ── acceptor        "agent-reach/3.0 link dial" or "… link accept"
dialer ── proof ──▶ acceptor        | SHA-256(dialer's hello) | SHA-256(acceptor's hello)
dialer ◀── proof ── acceptor        or goaway, and close
"""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from collections import deque
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

from . import _json, frames
from .envelope import VERSION, check_id, format_time, parse_time
from .errors import AgentReachError, BadSeal, Malformed, Unreachable, Unsupported
from .keys import PrivateKey, verify
from .seal import from_base64, key_from_base64

TIMEOUT = 10.0  # seconds for the whole handshake
_DIAL = b"agent-reach/3.0 link dial"
_ACCEPT = b"agent-reach/3.0 link accept"


class ByteStream(Protocol):
    """A WebSocket, as far as a link needs it: message boundaries mean nothing."""

    async def recv(self) -> bytes | str: ...

    async def send(self, message: bytes) -> None: ...


@dataclass(frozen=True)
class Limits:
    """What this side can take; announced in its hello."""

    max_message: int  # bytes of one envelope
    max_calls: int  # open calls that the other side asked
    window: int  # bytes per call and direction before credit


@dataclass(frozen=True)
class Peer:
    """The other side: who it proved to be, and what it can take. ``offset``: its clock minus ours, in seconds."""

    id: str
    key: bytes
    limits: Limits
    offset: float


class FrameReader:
    """Frames out of the byte stream, in order."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._decoder = frames.Decoder()
        self._ready: deque[frames.Frame] = deque()

    async def next(self) -> frames.Frame:
        while not self._ready:
            data = await self._stream.recv()
            if isinstance(data, str):
                raise Malformed("a text message on a link", step="link")
            self._ready.extend(self._decoder.feed(data))
        return self._ready.popleft()


async def dial(stream: ByteStream, reader: FrameReader, id: str, key: PrivateKey, limits: Limits) -> Peer:
    """Proves who we are and checks who they are. Raises the node's goaway, Malformed, BadSeal, Unsupported."""
    try:
        return await asyncio.wait_for(_dial(stream, reader, id, key, limits), TIMEOUT)
    except asyncio.TimeoutError:
        raise Unreachable(f"the node did not finish the handshake within {TIMEOUT:.0f} s", step="link") from None


async def _dial(stream: ByteStream, reader: FrameReader, id: str, key: PrivateKey, limits: Limits) -> Peer:
    nonce = secrets.token_bytes(32)
    ours = _hello(id, key, nonce, limits)
    await stream.send(frames.encode(frames.HELLO, 0, ours))
    theirs = await _expect(reader, frames.HELLO)
    peer, their_nonce = _read_hello(theirs)
    if their_nonce == nonce:
        raise BadSeal("the node sent our own nonce back", step="link")
    both = sha256(ours).digest() + sha256(theirs).digest()
    proof = _json.dumps({"sig": b64encode(key.sign(_DIAL + both)).decode()})
    await stream.send(frames.encode(frames.PROOF, 0, proof))
    members = _json.loads(await _expect(reader, frames.PROOF))
    sig = from_base64(members.get("sig") if isinstance(members, dict) else None, 64)
    if not verify(peer.key, sig, _ACCEPT + both):
        raise BadSeal(f"node {peer.id} did not prove that it has the key it names", step="link")
    return peer


async def _expect(reader: FrameReader, wanted: int) -> bytes:
    while True:
        frame = await reader.next()
        if frame.type == wanted:
            return frame.body
        if frame.type == frames.GOAWAY:
            raise frames.decode_error(frame.body) or Unreachable("the node refused the link", step="link")
        if frame.type <= frames.GOAWAY:
            raise Malformed(f"frame type {frame.type} during the handshake", step="link")


def _hello(id: str, key: PrivateKey, nonce: bytes, limits: Limits) -> bytes:
    return _json.dumps(
        {
            "version": VERSION,
            "role": "agent",
            "id": id,
            "key": b64encode(key.public).decode(),
            "nonce": b64encode(nonce).decode(),
            "max_message": limits.max_message,
            "max_calls": limits.max_calls,
            "window": limits.window,
            "time": format_time(),
        }
    )


def _read_hello(body: bytes) -> tuple[Peer, bytes]:
    members = _json.loads(body)
    if not isinstance(members, dict):
        raise Malformed("a hello that is no object", step="link")
    if members.get("version") != VERSION:
        raise Unsupported(f"the node speaks version {str(members.get('version'))[:20]!a}", step="link")
    if members.get("role") != "node":
        raise Malformed("the other side of the link is not a node", step="link")
    limits = Limits(*(_count(members, name) for name in ("max_message", "max_calls", "window")))
    offset = parse_time(members["time"]) - parse_time(format_time()) if "time" in members else 0.0
    peer = Peer(check_id(str(members.get("id")), "node id"), key_from_base64(members.get("key")), limits, offset)
    return peer, from_base64(members.get("nonce"), 32)


def _count(members: dict[str, Any], name: str) -> int:
    value = members.get(name)
    if type(value) is not int or not 0 < value < 1 << 53:
        raise Malformed(f"hello: {name} is {str(value)[:40]!a}", step="link", hint="right would be a positive integer")
    return value


__all__ = ["AgentReachError", "ByteStream", "FrameReader", "Limits", "Peer", "dial"]
