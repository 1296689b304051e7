"""What a caller asks: a request of a dict or of keywords, checked, with what the running handler's request hands on."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._author import encode_payload
from ._check import kind_of
from ._context import current_request
from .envelope import MAX_CHAIN
from .errors import Expired, Loop, Malformed

FIELDS = {
    "version", "msg_id", "trace_id", "traceparent", "msg_type", "source_agent", "target_capability", "target_agent",
    "persistent", "ttl_sec", "priority", "timestamp_utc", "namespace", "conversation_id", "idempotency_key", "chain",
}  # fmt: skip
DEFAULT_TTL = 60


class _NoPayload:
    def __repr__(self) -> str:
        return "NO_PAYLOAD"


NO_PAYLOAD: Any = _NoPayload()  # a payload of zero bytes, which is not null


@dataclass
class Ask:
    """A request before it is sealed. ``deadline`` is on time.monotonic's clock."""

    payload: bytes
    deadline: float
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def remaining(self) -> float:
        return self.deadline - time.monotonic()

    def header_values(self) -> dict[str, Any]:
        """Header fields for one attempt: the ttl is what is left, in whole seconds, at least one."""
        return {**self.values, "ttl_sec": min(86400, max(1, math.ceil(self.remaining)))}


def make_ask(agent_id: str, request: Mapping[str, Any] | str | None, payload: Any, given: Mapping[str, Any]) -> Ask:
    """request: a dict as the article has it, or the capability's name, or None with everything in keywords."""
    values: dict[str, Any] = {}
    if isinstance(request, str):
        values["target_capability"] = request
    elif isinstance(request, Mapping):
        values.update(request)
    elif request is not None:
        right = 'call("stock.query", {"sku": "a"}), or one dict with all of it'
        raise TypeError(f"a request is {kind_of(request)}, {request!r:.80}; right would be {right}")
    values.update({name: value for name, value in given.items() if value is not None})
    carried = values.pop("payload", NO_PAYLOAD)
    body = carried if payload is NO_PAYLOAD else payload
    if strange := values.keys() - FIELDS:
        name = min(map(str, strange))
        raise Malformed(f"a request has no field {name!a}", step="call", hint="business data goes into the payload")
    if values.get("source_agent") not in (None, "", agent_id):
        raise Malformed(f"source_agent is {values['source_agent']!a}, this agent is {agent_id}", step="call")
    values = {name: value for name, value in values.items() if value not in (None, "")}
    values.setdefault("msg_type", "request")
    ttl = values.pop("ttl_sec", DEFAULT_TTL)
    if type(ttl) is not int or not 1 <= ttl <= 86400:
        raise Malformed(f"ttl_sec is {ttl!r}", step="call", hint="right would be an integer from 1 to 86400")
    ask = Ask(b"" if body is NO_PAYLOAD else encode_payload(body), time.monotonic() + ttl, values)
    _inherit(ask, agent_id)
    return ask


def _inherit(ask: Ask, agent_id: str) -> None:
    """Inside a handler: the chain grows, trace and deadline go on."""
    request = current_request()
    if request is None:
        return
    header = request.header
    chain = [*header.chain, header.source_agent]
    if request.agent_id != agent_id:
        chain.append(request.agent_id)
    if len(chain) > MAX_CHAIN:
        raise Loop(
            f"asked on behalf of {len(chain)} agents, at most {MAX_CHAIN}",
            step="call",
            trace_id=header.trace_id,
            hint="agents are calling each other in a circle, or too deep",
        )
    ask.values["chain"] = chain
    ask.values.setdefault("trace_id", header.trace_id)
    if header.traceparent:
        ask.values.setdefault("traceparent", header.traceparent)
    ask.deadline = min(ask.deadline, request.deadline)
    if ask.remaining <= 0:
        raise Expired("no time is left of the request that is being answered", step="call", trace_id=header.trace_id)
