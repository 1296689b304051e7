"""What an HTTP agent demands of a delivery before a handler runs, and what it answers to a probe.

document ─▶ ticket (home node's key, this caller, agent, capability, not expired) ─▶ caller's seal (key of the
ticket) ─▶ clock ─▶ not seen before ─▶ handler
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from ._author import Author
from ._context import Request
from ._dispatch import Dispatcher, Run
from ._keyring import KeyRing
from .envelope import Envelope, check_window
from .errors import AgentReachError, BadSeal, Expired, Forbidden, Unsupported
from .seen import Seen
from .tickets import open_ticket, read_ticket


class Delivery:
    """Lives on the agent's loop."""

    def __init__(self, author: Author, dispatcher: Dispatcher, keys: KeyRing) -> None:
        self._author = author
        self._dispatcher = dispatcher
        self._keys = keys
        self._seen = Seen()

    async def answers(
        self, envelope: Envelope, ticket: bytes, timeout: float | None
    ) -> AsyncGenerator[tuple[bytes, bool], None]:
        """Response documents, each with: nothing follows. Raises what the delivery is refused with.

        timeout: seconds left of the deadline, as the node says; None: the ttl.
        """
        try:
            now = self._admit(envelope, ticket)
            if envelope.header.msg_type == "heartbeat":
                yield (await self._author.answer(envelope.header, b"{}")).to_document(), True
                return
            run = self._begin(envelope, timeout, now)
        except AgentReachError as e:
            e.trace_id = e.trace_id or envelope.header.trace_id
            raise
        async with aclosing(self._dispatcher.answers(run)) as answers:
            async for answer, last in answers:
                yield answer.to_document(), last

    def _begin(self, envelope: Envelope, timeout: float | None, now: float) -> Run:
        header = envelope.header
        if header.msg_type not in ("request", "broadcast"):
            raise Unsupported(f"a {header.msg_type} is not delivered to agents", step="agent")
        left = header.ttl_sec if timeout is None else timeout
        if left <= 0:
            raise Expired("no time is left of the request", step="agent")
        self._seen.check(header)
        run = self._dispatcher.begin(Request(header, envelope.payload, time.monotonic() + left, self._author.id))
        self._seen.accept(header, now)
        return run

    def _admit(self, envelope: Envelope, raw_ticket: bytes) -> float:
        """Returns the time by which it judged: that of the home node's clock."""
        header = envelope.header
        if not raw_ticket:
            raise Forbidden(
                "no ticket: this agent takes calls only from its node and from callers that looked it up",
                step="ticket",
                hint="call it through its node",
            )
        node = read_ticket(raw_ticket).node
        now = self._keys.node_time(node)
        ticket = open_ticket(raw_ticket, self._keys.node_key(node), now)
        ticket.admits(header, self._author.id)
        if header.msg_type == "heartbeat" and ticket.capability:
            raise Forbidden("a probe's ticket names no capability", step="ticket")
        if not self._keys.proves(envelope, ticket.caller_key):
            raise BadSeal(f"the seal does not prove that {header.source_agent} said this", step="seal")
        check_window(header, now)
        return now
