"""Tickets: a node's signed word that this caller may call this capability on this agent for a minute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _json
from .envelope import SKEW, Header, parse_time
from .errors import BadSeal, ClockSkew, Expired, Forbidden, Malformed, TooLarge
from .keys import verify
from .seal import from_base64, key_from_base64

DOMAIN = b"agent-reach/3.0 ticket"
MAX_TICKET = 2048  # bytes
MAX_LIFE = 60.0  # seconds
_TEXTS = ("id", "node", "caller", "caller_key", "capability", "agent", "expires_utc")
_NOTHING = _json.Span(b"", None)


@dataclass(frozen=True)
class Ticket:
    id: str
    node: str
    caller: str
    caller_key: bytes
    capability: str  # empty: a readiness probe
    agent: str
    expires: float  # seconds since 1970

    def admits(self, header: Header, agent: str) -> None:
        """Raises Forbidden unless the ticket is for exactly this caller, agent and capability."""
        if (self.caller, self.agent, self.capability) != (header.source_agent, agent, header.capability):
            raise Forbidden(
                f"the ticket lets {self.caller} call {self.capability!r} on {self.agent}, "
                f"not {header.source_agent} call {header.capability!r} on {agent}",
                step="ticket",
            )


def read_ticket(raw: bytes) -> Ticket:
    """What a ticket says; nothing is proven yet."""
    return _read_body(_split(raw)[0].value)


def open_ticket(raw: bytes, node_key: bytes | None, now: float) -> Ticket:
    """Reads a ticket; raises BadSeal unless the node with this key signed it, Expired or ClockSkew by its time."""
    body, sig = _split(raw)
    if node_key is None or not verify(node_key, sig, DOMAIN + body.raw):
        raise BadSeal("the ticket is not signed by this agent's home node", step="ticket")
    ticket = _read_body(body.value)
    left = ticket.expires - now
    if left < -SKEW:
        hint = "look up again; if this ticket is fresh, this clock is ahead of the node's: synchronise both with NTP"
        raise Expired(f"the ticket expired {-left:.1f} s ago, {SKEW:.0f} s are tolerated", step="ticket", hint=hint)
    if left > MAX_LIFE + SKEW:
        text = f"the ticket is good for another {left:.0f} s, though none lives longer than {MAX_LIFE:.0f} s"
        raise ClockSkew(text, step="ticket", hint="this clock is behind the node's: synchronise both with NTP")
    return ticket


def _split(raw: bytes) -> tuple[_json.Span, bytes]:
    if len(raw) > MAX_TICKET:
        raise TooLarge(f"the ticket has {len(raw)} bytes, at most {MAX_TICKET}", step="ticket")
    members = {} if raw == b"null" else _json.members(raw)
    if strange := members.keys() - {"body", "sig"}:
        raise Malformed(f"unknown member {min(strange)[:40]!a} in the ticket", step="ticket")
    sig = members["sig"].value if "sig" in members else None
    return members.get("body", _NOTHING), from_base64(sig, 64) if sig else b""


def _read_body(body: Any) -> Ticket:
    if not isinstance(body, dict):
        raise Malformed("the ticket's body is not an object", step="ticket")
    given = {name: "" if body.get(name) is None else body[name] for name in _TEXTS}
    if not all(isinstance(value, str) for value in given.values()):
        raise Malformed("the ticket's body needs the texts " + ", ".join(_TEXTS), step="ticket")
    return Ticket(
        id=given["id"],
        node=given["node"],
        caller=given["caller"],
        caller_key=key_from_base64(given["caller_key"]),
        capability=given["capability"],
        agent=given["agent"],
        expires=parse_time(given["expires_utc"]),
    )
