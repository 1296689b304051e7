"""Frames of a link: u32 length | u8 type | u8 flags | u32 call | body, all big-endian (envelope/DESIGN.md, Link)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from . import _json
from .errors import AgentReachError, Malformed, TooLarge, error_from_object

HELLO, PROOF, MESSAGE, PART, END, CANCEL, PING, CREDIT, GOAWAY = range(1, 10)

FIRST = 0x01  # first frame of an envelope
LAST = 0x02  # last frame of an envelope
FINAL = 0x04  # part: and the end of the call
ACK = 0x08  # ping: this is the answer

MAX_BODY = 64 << 10  # what a frame may carry
CHUNK = 16 << 10  # what a frame sent from here carries at most, so that nothing waits long behind it

_HEAD = struct.Struct(">IBBI")
_LENGTH = struct.Struct(">I")
_HOP = struct.Struct(">IBBB")


class Frame(NamedTuple):
    type: int
    flags: int
    call: int
    body: bytes


class Hop(NamedTuple):
    """What a node adds outside the sealed part: it changes at every hop."""

    remaining_ms: int
    hops_left: int
    priority: int
    attempts: int


def encode(type: int, call: int, body: bytes = b"", flags: int = 0) -> bytes:
    """Raises TooLarge for a body that no reader would take: it would cost the whole link."""
    _check_length(len(body) + 6)
    return _HEAD.pack(len(body) + 6, type, flags, call) + body


def encode_error(type: int, call: int, error: AgentReachError | None) -> bytes:
    """An end, cancel or goaway frame; no error: an empty body."""
    return encode(type, call, _json.dumps(error.to_object()) if error else b"")


def decode_error(body: bytes) -> AgentReachError | None:
    if not body:
        return None
    members = _json.loads(body)
    if not isinstance(members, dict):
        raise Malformed("an error that is no object", step="link")
    return error_from_object(members)


def message_prefix(hop: Hop, length: int) -> bytes:
    """What stands in front of the first bytes of a message of that length."""
    return bytes((_HOP.size,)) + _HOP.pack(*hop) + _LENGTH.pack(length)


def part_prefix(length: int) -> bytes:
    return _LENGTH.pack(length)


def split_message(body: bytes) -> tuple[Hop, int, bytes]:
    """A first message frame's hop, announced length and bytes. A longer hop is cut, a shorter one refused."""
    size = body[0] if body else 0
    if size < _HOP.size or len(body) < 1 + size + _LENGTH.size:
        raise Malformed(f"a message frame of {len(body)} bytes with a hop of {size}", step="link")
    (length,) = _LENGTH.unpack_from(body, 1 + size)
    return Hop(*_HOP.unpack_from(body, 1)), length, body[1 + size + _LENGTH.size :]


def split_part(body: bytes) -> tuple[int, bytes]:
    if len(body) < _LENGTH.size:
        raise Malformed(f"a first part frame of {len(body)} bytes", step="link")
    return _LENGTH.unpack_from(body)[0], body[_LENGTH.size :]


def credit_of(body: bytes) -> int:
    if len(body) != _LENGTH.size:
        raise Malformed(f"a credit frame of {len(body)} bytes", step="link")
    return int(_LENGTH.unpack(body)[0])


def encode_credit(call: int, count: int) -> bytes:
    return encode(CREDIT, call, _LENGTH.pack(count))


class Decoder:
    """Bytes as they come in, whole frames out. It holds at most one incomplete frame between calls."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= _HEAD.size:
                length, type, flags, call = _HEAD.unpack_from(self._buffer, at)
                _check_length(length)
                end = at + 4 + length
                if end > len(self._buffer):
                    break
                body = bytes(self._buffer[at + _HEAD.size : end])
                at = end
                yield Frame(type, flags, call, body)
        finally:
            del self._buffer[:at]


def _check_length(length: int) -> None:
    if length < 6:
        raise Malformed(f"a frame of length {length}, at least 6", step="link")
    if length > MAX_BODY + 6:
        raise TooLarge(f"a frame of length {length}, at most {MAX_BODY + 6}", step="link")
