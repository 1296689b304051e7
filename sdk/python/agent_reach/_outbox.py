"""What waits to be written on a link, and in which order.

Control frames first; then the streams by priority, round robin among equals, one frame of at most 16 KiB at a time,
each within the credit that the reader gave it. A call is ended when its parts are written, so `end`, a control frame,
never overtakes one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from . import frames
from .errors import AgentReachError

BATCH = 64 << 10  # bytes gathered into one write
MAX_CONTROL = 4096  # control frames that may wait; more: the peer floods or does not read


@dataclass
class _Piece:
    """One envelope on its way."""

    data: bytes
    prefix: bytes
    final: bool
    written: asyncio.Future[None]
    sent: int = 0


@dataclass
class Stream:
    """The outgoing half of one call: envelopes in order, and how many more of their bytes the reader takes.

    ``on_start`` gives the asker's number when the first frame is written: numbers grow on the wire, whatever the
    priorities. ``on_written`` is told when an envelope's last frame is given to the byte stream.
    """

    call: int
    type: int
    priority: int
    credit: int
    on_start: Callable[[], int] | None = None
    on_written: Callable[[], None] | None = None
    pieces: deque[_Piece] = field(default_factory=deque)
    in_ring: bool = False
    starving: float | None = None  # since when nothing may be written although something waits; in the loop's time
    started: bool = False

    def ready(self) -> bool:
        return bool(self.pieces) and self.credit > 0


class Outbox:
    def __init__(self, wake: Callable[[], None]) -> None:
        self.flooded = False  # a control frame was lost: the link is to be given up
        self._wake = wake
        self._control: deque[bytes] = deque()
        self._rings: list[deque[Stream]] = [deque() for _ in range(10)]

    def control(self, frame: bytes) -> None:
        if len(self._control) >= MAX_CONTROL:
            self.flooded = True
        else:
            self._control.append(frame)
        self._wake()

    def add(self, stream: Stream, data: bytes, prefix: bytes, final: bool = False) -> asyncio.Future[None]:
        """Queues one envelope; the future is done when its last frame is given to the byte stream."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        stream.pieces.append(_Piece(data, prefix, final, written))
        self.arm(stream)
        return written

    def arm(self, stream: Stream) -> None:
        """To be called when the stream may have become ready: new data or new credit."""
        if stream.pieces and stream.credit <= 0 and stream.starving is None:
            stream.starving = asyncio.get_running_loop().time()
        if stream.ready() and not stream.in_ring:
            stream.starving = None
            stream.in_ring = True
            self._rings[min(max(stream.priority, 1), 9)].append(stream)
            self._wake()

    def drop(self, stream: Stream, error: AgentReachError) -> None:
        """Forgets what the stream has not yet said; who waits for it learns why."""
        pieces, stream.pieces, stream.starving = stream.pieces, deque(), None
        for piece in pieces:
            if not piece.written.done():
                piece.written.set_exception(error)
                piece.written.exception()  # nobody may be waiting: not worth a complaint

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
                self.arm(stream)
                return frame
        return b""

    def _frame(self, stream: Stream) -> bytes:
        piece = stream.pieces[0]
        if not stream.started and stream.on_start:
            stream.call = stream.on_start()
        stream.started = True
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
        if not piece.written.done():
            piece.written.set_result(None)
        if stream.on_written:
            stream.on_written()
