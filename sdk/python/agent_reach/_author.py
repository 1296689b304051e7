"""Makes sealed envelopes in this agent's name."""

from __future__ import annotations

import logging
from typing import Any

from . import _json
from .envelope import Envelope, Header, check_header, format_time, new_id
from .errors import MAX_TEXT, MAX_WORD, AgentError, Malformed, cut
from .keys import PrivateKey
from .seal import Sealer

log = logging.getLogger("agent_reach")

MAX_ERROR = 2048  # bytes of a response's error object: with it a header stays under its limit


class Author:
    def __init__(self, id: str, key: PrivateKey) -> None:
        self.id = id
        self.key = key
        self._sealer = Sealer(key)

    async def write(self, payload: bytes, **values: Any) -> Envelope:
        """A sealed envelope; values are header fields, the rest is filled in."""
        own = {"msg_id": new_id(), "source_agent": self.id, "timestamp_utc": format_time()}
        header = check_header({**own, **values})
        raw = header.to_bytes()
        return Envelope(header, raw, payload, await self._sealer.seal(raw, payload))

    async def answer(self, request: Header, payload: bytes, error: AgentError | None = None) -> Envelope:
        """A response to request: in_reply_to, trace and target as the protocol wants them."""
        values: dict[str, Any] = {
            "msg_type": "response",
            "in_reply_to": request.msg_id,
            "trace_id": request.trace_id,
            "traceparent": request.traceparent,
            "target_agent": request.source_agent,
            "target_capability": request.target_capability,
            "priority": request.priority,
            "status": "error" if error else "ok",
        }
        if error:
            values["error"] = error_object(error)
        return await self.write(payload, **values)


def error_object(error: AgentError) -> dict[str, Any]:
    """What an agent's error says in a header, at most MAX_ERROR bytes: its details stay away where they do not fit."""
    said = {"code": cut(error.code or AgentError.default_code, MAX_WORD), "text": cut(error.text, MAX_TEXT)}
    if error.details:
        if _fits(whole := {**error.details, **said}):
            return whole
        log.warning("an error's details are not sent: they are no JSON, or too long, code=%s", said["code"])
    if _fits(said):
        return said
    return {"code": cut(said["code"], MAX_WORD // 4), "text": cut(said["text"], MAX_TEXT // 4)}  # escapes made it long


def _fits(members: dict[str, Any]) -> bool:
    try:
        data = _json.dumps(members)
        return len(data) <= MAX_ERROR and bool(_json.loads(data) == members)
    except (TypeError, ValueError, RecursionError, Malformed):
        return False


def encode_payload(value: Any) -> bytes:
    """A value as JSON; bytes are taken as JSON that is encoded already, or as no payload at all."""
    if isinstance(value, (bytes, bytearray)):
        data = bytes(value).strip(b" \t\r\n")  # white space around it would be lost in a document, and the seal with it
        if data:
            _json.loads(data)
        return data
    try:
        return _json.dumps(value)
    except (TypeError, ValueError, RecursionError) as e:
        raise Malformed(f"the payload cannot be written as JSON: {e}", step="encode") from None
