"""Which messages were accepted already: an exact memory of (source, msg_id), bounded, ordered by the messages' time.

When memory is full the window shrinks from its old end: what is older than the oldest forgotten message is refused
as expired, so a forgotten id is never a second execution.
"""

from __future__ import annotations

import heapq

from .envelope import MAX_WINDOW, SKEW, Header
from .errors import Duplicate, Expired

_LIFE = MAX_WINDOW + SKEW  # seconds after its timestamp during which any message may be admitted


class Seen:
    def __init__(self, limit: int = 100_000) -> None:
        self._limit = limit
        self._known: set[tuple[str, str]] = set()
        self._by_time: list[tuple[float, tuple[str, str]]] = []
        self._floor = float("-inf")  # messages up to this time may have been forgotten

    def check(self, header: Header) -> None:
        """Raises Duplicate for a message that was accepted, Expired for one that may have been."""
        if (header.source_agent, header.msg_id) in self._known:
            raise Duplicate(f"msg_id {header.msg_id} of {header.source_agent} was executed already", step="seen")
        if header.timestamp <= self._floor:
            raise Expired("the message is older than what this agent can remember", step="seen", hint="send it anew")

    def accept(self, header: Header, now: float) -> None:
        key = (header.source_agent, header.msg_id)
        self._known.add(key)
        heapq.heappush(self._by_time, (header.timestamp, key))
        while self._by_time and (self._by_time[0][0] < now - _LIFE or len(self._by_time) > self._limit):
            at, old = heapq.heappop(self._by_time)
            self._known.discard(old)
            self._floor = max(self._floor, at)
