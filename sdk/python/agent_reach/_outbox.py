"""What waits to be written on a link, and in which order.

Control frames first; then the streams by priority, round robin among equals, one frame of at most 16 KiB at a time,
each within the credit that the reader gave it. `end` never overtakes a part of its call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from . import frames
from .errors import AgentReachError, Overloaded

BATCH = 64 << 10  # bytes gathered into one write
MAX_CONTROL = 4096  # control frames that may wait; more: the peer floods or does not read


@dataclass
class _Piece:
    """One envelope on its way, or (data None) the end of the call."""

    data: bytes | None
    prefix: bytes = b""
    final: bool = False
    end: bytes = b""
    sent: int = 0
    written: asyncio.Future[None] | None = None


@dataclass
class Stream:
    """The outgoing half of one call: envelopes in order, and how many more of their bytes the reader takes."""

    call: int
    type: int
    priority: int
    credit: int
    on_written: Callable[[], None] | None = None
    pieces: deque[_Piece] = field(default_factory=deque)
    in_ring: bool = False
    started: bool = False

    def ready(self) -> bool:
        return bool(self.pieces) and (self.pieces[0].data is None or self.credit > 0)


class Outbox:
    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._control: deque[bytes] = deque()
        self._rings: list[deque[Stream]] = [deque() for _ in range(10)]

    def control(self, frame: bytes) -> None:
        if len(self._control) >= MAX_CONTROL:
            raise Overloaded(f"{MAX_CONTROL} control frames wait on the link", step="link")
        self._control.append(frame)
        self._wake()

    def add(self, stream: Stream, data: bytes, prefix: bytes, final: bool = False) -> asyncio.Future[None]:
        """Queues one envelope; the future is done when its last frame is given to the byte stream."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        stream.pieces.append(_Piece(data, prefix, final, written=written))
        self.arm(stream)
        return written

    def add_end(self, stream: Stream, error: AgentReachError | None) -> None:
        end = frames.encode_error(frames.END, stream.call, error)
        if stream.pieces:
            stream.pieces.append(_Piece(None, end=end))
            self.arm(stream)
        else:
            self.control(end)

    def arm(self, stream: Stream) -> None:
        """To be called when the stream may have become ready: new data or new credit."""
        if stream.ready() and not stream.in_ring:
            stream.in_ring = True
            self._rings[min(max(stream.priority, 1), 9)].append(stream)
            self._wake()

    def drop(self, stream: Stream, error: BaseException | None = None) -> None:
        """Forgets what the stream has not yet said; who waits for it learns why."""
        pieces, stream.pieces = stream.pieces, deque()
        for piece in pieces:
            if piece.written and not piece.written.done():
                if error:
                    piece.written.set_exception(error)
                    piece.written.exception()
                else:
                    piece.written.cancel()

    def take(self) -> bytes:
        """The next bytes to write, zero when nothing may be written now."""
        batch: list[bytes] = []
        size = 0
        while size < BATCH:
            frame = self._control.popleft() if self._control else self._next()
            if not frame:
                break
            batch.append(frame)
            size += len(frame)
        return b"".join(batch)

    def _next(self) -> bytes:
        for ring in self._rings:
            while ring:
                stream = ring.popleft()
                stream.in_ring = False
                if not stream.ready():
                    continue
                frame = self._frame(stream)
                if stream.ready():
                    stream.in_ring = True
                    ring.append(stream)
                return frame
        return b""

    def _frame(self, stream: Stream) -> bytes:
        piece = stream.pieces[0]
        stream.started = True
        if piece.data is None:
            stream.pieces.popleft()
            return piece.end
        prefix = b"" if piece.sent else piece.prefix
        count = min(frames.CHUNK - len(prefix), stream.credit, len(piece.data) - piece.sent)
        body = prefix + piece.data[piece.sent : piece.sent + count]
        flags = 0 if piece.sent else frames.FIRST
        piece.sent += count
        stream.credit -= count
        if piece.sent == len(piece.data):
            flags |= frames.LAST | (frames.FINAL if piece.final else 0)
            stream.pieces.popleft()
            self._written(stream, piece)
        return frames.encode(stream.type, stream.call, body, flags)

    def _written(self, stream: Stream, piece: _Piece) -> None:
        if piece.written and not piece.written.done():
            piece.written.set_result(None)
        if stream.on_written:
            stream.on_written()
