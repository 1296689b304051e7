"""What comes back: responses, outcomes of a broadcast, candidates of a look-up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import _json
from .envelope import Envelope, Header
from .errors import AgentError, AgentReachError, Malformed, error_from_object
from .seal import key_from_base64
from .tickets import read_ticket


@dataclass(frozen=True)
class Response:
    """One answer, or one part of a streamed one.

    ``payload`` is None both for null and for zero bytes; look at ``payload_bytes`` to tell them apart. ``parts``: all
    parts of a streamed answer that was not asked for as a stream.
    """

    header: Header
    payload: Any
    payload_bytes: bytes = field(repr=False)
    parts: tuple[Response, ...] = field(default=(), repr=False)

    @property
    def agent(self) -> str:
        """Who answered."""
        return self.header.source_agent


@dataclass(frozen=True)
class Outcome:
    """What became of a broadcast at one agent."""

    agent: str
    ok: bool
    duration_ms: float
    response: Response | None = None
    error: AgentReachError | None = None

    @property
    def payload(self) -> Any:
        return self.response.payload if self.response else None


@dataclass(frozen=True)
class Candidate:
    """An agent that could answer now, best first. ``ticket`` is the raw document for a direct call, or no bytes."""

    agent: str
    public_key: bytes
    score: float
    endpoint: dict[str, Any]
    ticket: bytes = field(default=b"", repr=False)
    details: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def direct(self) -> bool:
        """Whether it can be called without the hop over a node."""
        return bool(self.ticket) and self.endpoint.get("type") == "http" and bool(self.endpoint.get("url"))

    @property
    def expires(self) -> float:
        """When the ticket ends, in seconds since 1970; 0 without a ticket."""
        return read_ticket(self.ticket).expires if self.ticket else 0.0


def read_response(envelope: Envelope, request: Header) -> Response:
    """A response that belongs to request; raises the error that it carries. Its seal is checked elsewhere."""
    header = envelope.header
    for name, got, want in (
        ("msg_type", header.msg_type, "response"),
        ("in_reply_to", header.in_reply_to, request.msg_id),
        ("target_agent", header.target_agent, request.source_agent),
    ):
        if got != want:
            raise Malformed(f"the answer has {name} {got!a}, not {want!a}", step="answer", trace_id=request.trace_id)
    if header.status == "error":
        raise _agent_error(header)
    return Response(header, envelope.value(), envelope.payload)


def _agent_error(header: Header) -> AgentReachError:
    code, text = header.error.get("code"), header.error.get("text")
    details = {name: value for name, value in header.error.items() if name not in ("code", "text")}
    return AgentError(
        code if isinstance(code, str) and code else "agent_error",
        text if isinstance(text, str) else "",
        details=details,
        trace_id=header.trace_id,
    )


def read_candidates(payload: bytes) -> list[Candidate]:
    """A look-up's answer: {"candidates": [...], …}."""
    spans = _json.members(payload)
    if "candidates" not in spans:
        raise Malformed("the look-up's answer has no candidates", step="answer")
    return [_candidate(_json.members(span.raw)) for span in _json.elements(spans["candidates"].raw)]


def _candidate(members: dict[str, _json.Span]) -> Candidate:
    values = {name: span.value for name, span in members.items()}
    endpoint = values.get("endpoint")
    ticket = members["ticket"].raw if values.get("ticket") else b""
    agent = values.get("agent") or values.get("agent_id")
    if not isinstance(agent, str):
        raise Malformed("a candidate without agent", step="answer")
    return Candidate(
        agent=agent,
        public_key=key_from_base64(values.get("public_key")),
        score=float(values.get("score") or 0),
        endpoint=endpoint if isinstance(endpoint, dict) else {},
        ticket=ticket,
        details={name: value for name, value in values.items() if name != "ticket"},
    )


def error_outcome(agent: str, duration_ms: float, members: Any) -> Outcome:
    error = error_from_object(members if isinstance(members, dict) else {})
    return Outcome(agent, False, duration_ms, error=error)
