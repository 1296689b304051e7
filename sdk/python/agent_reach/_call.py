"""One call on a link, seen from either side: an outgoing stream, an incoming one with credit, and an end."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from . import frames
from ._outbox import Stream
from .errors import AgentReachError, Malformed, Overloaded, Timeout, TooLarge, Unreachable

if TYPE_CHECKING:
    from .link import Link


def _over() -> AgentReachError:
    return Unreachable("the call is over", step="link")


class Call:
    """asked_here: we sent the message and receive the parts; else the other way round.

    Credit: each frame's bytes are given back at once while less than ``window`` of complete, untaken envelopes wait
    here, else when they are taken. So a stalled reader costs at most window + one envelope.
    """

    def __init__(self, link: Link, id: int, *, asked_here: bool, hop: frames.Hop) -> None:
        self.id = id  # 0: asked here, and nothing of it was written yet
        self.hop = hop
        self.asked_here = asked_here
        self.expiry: asyncio.TimerHandle | None = None  # of a cancelled call: when it is forgotten all the same
        self.handed_over = False  # the last frame of the message was given to the byte stream
        self.task: asyncio.Task[None] | None = None  # who answers; cancelled when the asker gives up or the link breaks
        kind = frames.MESSAGE if asked_here else frames.PART
        self.stream = Stream(id, kind, hop.priority or 5, link.peer.limits.window)
        if asked_here:
            self.stream.on_start, self.stream.on_written = self._number, self._mark_handed_over
        self._link = link
        self._granted = link.limits.window
        self._owed = 0
        self._assembly = bytearray()
        self._expected = -1
        self._ready: deque[bytes] = deque()
        self._ready_bytes = 0
        self._over = False
        self._error: AgentReachError | None = None
        self._news = asyncio.Event()

    # what the owner of the call does

    async def next(self) -> bytes | None:
        """The next envelope of the other side; None when all was said. Raises the error that ended the call."""
        while not self._ready:
            if self._error:
                raise self._error
            if self._over:
                return None
            self._news.clear()
            await self._news.wait()
        data = self._ready.popleft()
        self._ready_bytes -= len(data)
        self._link.release(len(data))
        if self._owed and self._ready_bytes < self._link.limits.window:
            self._grant(self._owed)
            self._owed = 0
        return data

    @property
    def limit(self) -> int:
        """Bytes of an envelope that the other side takes."""
        return self._link.peer.limits.max_message

    async def send(self, data: bytes, *, final: bool = False) -> None:
        """Says one envelope; returns when its last byte is given to the byte stream (that is the back-pressure)."""
        if self._over:
            raise self._error or _over()
        if len(data) > self.limit:
            raise TooLarge(f"an envelope of {len(data)} bytes, the node takes {self.limit}", step="link")
        prefix = frames.message_prefix(self.hop, len(data)) if self.asked_here else frames.part_prefix(len(data))
        written = self._link.outbox.add(self.stream, data, prefix, final)
        await written
        if final:
            self._finish(None)

    def end(self, error: AgentReachError | None = None) -> None:
        """The answering side: all was said, or why not. A part that is still waiting is dropped."""
        if self._over:
            return
        self._link.outbox.drop(self.stream, error or _over())
        self._link.outbox.control(frames.encode_error(frames.END, self.id, error))
        self._finish(None)

    def break_off(self, error: AgentReachError) -> None:
        """The answering side: as end, and whoever is saying something stops."""
        self.end(error)
        self._give_up()

    def cancel(self, error: AgentReachError | None = None) -> None:
        """The asking side takes no more. The call stays known until the other side ends it."""
        self._release_ready()
        if self._over:
            return
        self._link.outbox.drop(self.stream, error or _over())
        if self.stream.started:
            self._link.outbox.control(frames.encode_error(frames.CANCEL, self.id, error))
            self._link.await_end(self)
        else:
            self._link.forget(self)
        self._finish(error, forget=False)

    # what the link does

    @property
    def over(self) -> bool:
        return self._over

    def receive(self, announced: int | None, body: bytes, flags: int) -> bytes | None:
        """Takes a message or part frame; returns the envelope when it is complete. announced: on first frames."""
        self._granted -= len(body)
        if self._granted < 0:
            raise Malformed(f"call {self.id}: more bytes than credit was given", step="link")
        if announced is not None and not self._announce(announced):
            return None
        if self._expected < 0:
            raise Malformed(f"call {self.id}: bytes of no envelope", step="link")
        self._assembly += body
        complete = bool(flags & frames.LAST)
        if len(self._assembly) > self._expected or (complete and len(self._assembly) != self._expected):
            raise Malformed(f"call {self.id}: an envelope is not as long as announced", step="link")
        last_of_all = complete and (flags & frames.FINAL or not self.asked_here)
        if not last_of_all:
            self._give_back(len(body))
        return self._complete() if complete else None

    def _announce(self, announced: int) -> bool:
        if self._expected >= 0:
            raise Malformed(f"call {self.id}: an envelope begins inside another", step="link")
        limits = self._link.limits
        if announced > limits.max_message:
            text = f"an envelope of {announced} bytes, this agent takes {limits.max_message}"
            self._refuse(TooLarge(text, step="link"))
        elif not self._link.reserve(announced):
            self._refuse(Overloaded("too many bytes are under way to this agent", step="link", retry_after=1.0))
        else:
            self._expected = announced
            return True
        return False

    def _refuse(self, error: AgentReachError) -> None:
        if self.asked_here:
            self.cancel(error)
        else:
            self.end(error)

    def _complete(self) -> bytes:
        data = bytes(self._assembly)
        self._assembly, self._expected = bytearray(), -1
        return data

    def deliver(self, data: bytes) -> None:
        self._ready.append(data)
        self._ready_bytes += len(data)
        self._news.set()

    def ended(self, error: AgentReachError | None) -> None:
        """The other side said end (or, to the answering side, cancel)."""
        if error is None and self._expected >= 0 and self.asked_here:
            error = Malformed("the answer ended inside an envelope", step="link")
        self._link.outbox.drop(self.stream, error or _over())
        self._finish(error)
        self._give_up()

    def stalled(self, text: str) -> None:
        """The other side takes no byte of this call; others go on."""
        if self.asked_here:
            self.cancel(Unreachable(f"{text} of the message; it certainly did not run", step="link"))
        else:
            self.break_off(Timeout(f"{text} of the answer", step="link"))

    def lost(self, text: str) -> None:
        """The link broke. Only a call that was not handed over certainly did not run."""
        error: AgentReachError = Unreachable(f"{text} before the request was handed over", step="link")
        if self.handed_over:
            error = Timeout(f"{text} after the request was handed over: unknown whether it ran", step="link")
        self._link.outbox.drop(self.stream, error)
        self._finish(error)
        self._give_up()

    def _finish(self, error: AgentReachError | None, forget: bool = True) -> None:
        if not self._over:
            self._over, self._error = True, error
        if self._expected >= 0:
            self._link.release(self._expected)
            self._assembly, self._expected = bytearray(), -1
        self._news.set()
        if forget:
            self._link.forget(self)

    def _give_up(self) -> None:
        if self.task and not self.asked_here:
            self.task.cancel()

    def _release_ready(self) -> None:
        self._link.release(self._ready_bytes)
        self._ready_bytes = 0
        self._ready.clear()

    def _give_back(self, count: int) -> None:
        if self._ready_bytes < self._link.limits.window:
            self._grant(count)
        else:
            self._owed += count

    def _grant(self, count: int) -> None:
        if count and not self._over:
            self._granted += count
            self._link.outbox.control(frames.encode_credit(self.id, count))

    def _number(self) -> int:
        self.id = self._link.number(self)
        return self.id

    def _mark_handed_over(self) -> None:
        self.handed_over = True
