"""The request that is being answered right now, as seen by the handler and by the calls it makes."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field

from .envelope import Header


@dataclass(frozen=True)
class Request:
    """What a handler may want to know beyond its payload. ``deadline`` is on time.monotonic's clock."""

    header: Header
    payload_bytes: bytes = field(repr=False)
    deadline: float
    agent_id: str

    @property
    def remaining_sec(self) -> float:
        """How long the caller still waits; 0 when it no longer does."""
        return max(0.0, self.deadline - time.monotonic())


CURRENT: ContextVar[Request | None] = ContextVar("agent_reach_request", default=None)


def current_request() -> Request | None:
    """The request that the running handler answers; None outside a handler."""
    return CURRENT.get()
