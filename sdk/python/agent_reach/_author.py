"""Makes sealed envelopes in this agent's name."""

from __future__ import annotations

from typing import Any

from . import _json
from .envelope import Envelope, Header, check_header, format_time, new_id
from .errors import AgentError, Malformed, TooLarge, printable
from .keys import PrivateKey
from .seal import Sealer

_SHORT = 400  # characters of an error text that fit any header


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
        if not error:
            return await self.write(payload, **values)
        try:
            return await self.write(payload, **values, error=_error_object(error))
        except (TooLarge, UnicodeEncodeError):
            short = {"code": printable(error.code, 64), "text": printable(error.text, _SHORT)}
            return await self.write(payload, **values, error=short)


def _error_object(error: AgentError) -> dict[str, Any]:
    return {**error.details, "code": error.code, "text": error.text}


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
