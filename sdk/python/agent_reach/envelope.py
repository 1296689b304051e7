"""The envelope: header, payload, seal, as a JSON document and as bytes on a link (envelope/DESIGN.md).

The bytes that were signed are the bytes that travel: an Envelope keeps header and payload as they stood.
"""

from __future__ import annotations

import re
import secrets
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import Any

from . import _json
from .errors import ClockSkew, Expired, Loop, Malformed, TooLarge, Unsupported
from .seal import Seal, seal_from_bytes, seal_from_object

VERSION = "3.0"
MAX_HEADER = 4096
MAX_CHAIN = 16
MAX_PAYLOAD = 4 << 20  # bytes, where nobody set another limit
SKEW = 120.0  # seconds that clocks may differ
MAX_WINDOW = 300  # seconds of ttl that count for admission
TYPES = ("request", "response", "heartbeat", "broadcast", "register", "unregister", "cancel")

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CAPABILITY = re.compile(r"[a-z0-9][a-z0-9._:-]{0,127}")
_TOKEN = re.compile(r"[!-~]{1,128}")
_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_RANGE = re.compile(rf"\*|(?:\^|~|>=)?{_NUMBER}(?:\.{_NUMBER}){{0,2}}|{_NUMBER}(?:\.{_NUMBER})?\.x")
_TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,9})?(?:Z|[+-]00:00)")
_LENGTHS = struct.Struct(">HH")


def check_id(text: str, what: str) -> str:
    return _matches(_ID, text, what, "[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def check_capability(text: str, what: str = "capability") -> str:
    return _matches(_CAPABILITY, text, what, "[a-z0-9][a-z0-9._:-]{0,127}")


def check_token(text: str, what: str) -> str:
    return _matches(_TOKEN, text, what, "1 to 128 printable ASCII characters without space")


def _matches(rule: re.Pattern[str], text: str, what: str, right: str) -> str:
    if rule.fullmatch(text):
        return text
    alphabet = re.compile(r"[A-Za-z0-9._:-]" if rule is not _TOKEN else r"[!-~]")
    bad = next((c for c in text if not alphabet.match(c)), "")
    culprit = f": character {bad!a} is not allowed" if bad else ""
    raise Malformed(f"{what} {text[:140]!a}{culprit}", step="decode", hint=f"right would be {right}")


@dataclass(frozen=True)
class Header:
    """The fields of a header; absent ones have their defaults. ``error`` is the error object of a response."""

    msg_id: str
    msg_type: str
    source_agent: str
    timestamp_utc: str
    version: str = VERSION
    trace_id: str = ""
    traceparent: str = ""
    target_capability: str = ""
    target_agent: str = ""
    to_node: str = ""
    persistent: bool = False
    ttl_sec: int = 60
    priority: int = 5
    namespace: str = ""
    in_reply_to: str = ""
    conversation_id: str = ""
    idempotency_key: str = ""
    chain: tuple[str, ...] = ()
    status: str = ""
    error: Mapping[str, Any] = field(default_factory=dict)
    vouched_by: str = ""

    @property
    def capability(self) -> str:
        """The name in target_capability, without its version range."""
        return self.target_capability.partition("@")[0]

    @property
    def timestamp(self) -> float:
        """timestamp_utc in seconds since 1970."""
        return parse_time(self.timestamp_utc)

    def to_bytes(self) -> bytes:
        members = {f.name: getattr(self, f.name) for f in fields(self)}
        data = _json.dumps({k: v for k, v in members.items() if v or k in _ALWAYS})
        if len(data) > MAX_HEADER:
            raise TooLarge(f"the header has {len(data)} bytes, at most {MAX_HEADER} are allowed", step="encode")
        return data


_ALWAYS = ("version", "msg_id", "msg_type", "source_agent", "timestamp_utc")
_STRINGS = {f.name for f in fields(Header) if f.type == "str"}
_RULES = {
    "msg_id": check_token, "trace_id": check_token, "traceparent": check_token, "in_reply_to": check_token,
    "conversation_id": check_token, "idempotency_key": check_token, "source_agent": check_id, "target_agent": check_id,
    "to_node": check_id, "namespace": check_id, "vouched_by": check_id,
}  # fmt: skip


def decode_header(data: bytes) -> Header:
    """Reads and checks a header. Unknown fields are ignored (they stay in the bytes)."""
    if len(data) > MAX_HEADER:
        raise TooLarge(f"the header has {len(data)} bytes, at most {MAX_HEADER} are allowed", step="decode")
    members = _json.loads(data)
    if not isinstance(members, dict):
        raise Malformed("the header is not a JSON object", step="decode")
    if not (data.startswith(b"{") and data.endswith(b"}")):
        raise Malformed("white space around the header", step="decode")
    values = {f.name: members[f.name] for f in fields(Header) if members.get(f.name) is not None}
    for name in _ALWAYS:
        if name not in values:
            raise Malformed(f"the header has no {name}", step="decode")
    return check_header(values)


def check_header(values: Mapping[str, Any]) -> Header:
    """A Header of values that obey the rules; else Malformed (or Unsupported for another version)."""
    found = dict(values)
    for name in _STRINGS & found.keys():
        if not isinstance(found[name], str):
            raise Malformed(f"{name} is not a string", step="decode")
    if not found.get("version", VERSION):
        raise Malformed("version is empty", step="decode")
    if found.get("version", VERSION) != VERSION:
        raise Unsupported(f"version {found['version'][:20]!a}", step="decode", hint=f'this speaks "{VERSION}"')
    for name, rule in _RULES.items():
        if found.get(name):
            rule(found[name], name)
    for name in ("msg_id", "source_agent"):
        if not found.get(name):
            raise Malformed(f"{name} is empty", step="decode")
    _check_target(found.get("target_capability", ""))
    _check_numbers(found)
    _check_kinds(found)
    _check_type(found)
    found["chain"] = _chain(found.get("chain", ()))
    parse_time(found["timestamp_utc"])
    found["trace_id"] = found.get("trace_id") or found["msg_id"]
    return Header(**found)


def _check_target(target: str) -> None:
    name, at, wanted = target.partition("@")
    if target:
        check_capability(name, "target_capability")
    if at and not _RANGE.fullmatch(wanted):
        raise Malformed(
            f"target_capability: version range {wanted[:40]!a}",
            step="decode",
            hint="ranges: 1.2.3, ^1.2, ~1.2, >=1.2, 1.x, *",
        )


def _check_numbers(found: Mapping[str, Any]) -> None:
    for name, top in (("ttl_sec", 86400), ("priority", 9)):
        value = found.get(name, 1)
        if type(value) is not int or not 1 <= value <= top:
            raise Malformed(f"{name} is {str(value)[:40]!a}", step="decode", hint=f"right would be 1 to {top}")


def _check_kinds(found: Mapping[str, Any]) -> None:
    if found.get("msg_type") not in TYPES:
        raise Malformed(
            f"msg_type {str(found.get('msg_type'))[:40]!a}", step="decode", hint="one of " + ", ".join(TYPES)
        )
    if not isinstance(found.get("persistent", False), bool):
        raise Malformed("persistent is not a boolean", step="decode")
    if not isinstance(found.get("error", {}), Mapping):
        raise Malformed("error is not an object", step="decode")
    if found.get("status", "") not in ("", "ok", "error"):
        raise Malformed(f"status {found['status'][:40]!a}", step="decode", hint="ok or error")


def _check_type(found: Mapping[str, Any]) -> None:
    kind = found["msg_type"]
    missing = ""
    if kind == "request" and not (found.get("target_capability") or found.get("target_agent")):
        missing = "target_capability or target_agent"
    elif kind == "broadcast" and not found.get("target_capability"):
        missing = "target_capability"
    elif kind in ("response", "cancel") and not found.get("in_reply_to"):
        missing = "in_reply_to"
    elif kind == "response" and not found.get("status"):
        missing = "status (ok or error)"
    elif kind in ("register", "heartbeat", "unregister") and not found.get("to_node"):
        missing = "to_node, the id of the home node it is meant for"
    if missing:
        raise Malformed(f"a {kind} needs {missing}", step="decode")


def _chain(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise Malformed("chain is not an array of agent ids", step="decode")
    if len(value) > MAX_CHAIN:
        raise Loop(
            f"chain has {len(value)} agents, at most {MAX_CHAIN}",
            step="decode",
            hint="agents call each other in a circle?",
        )
    return tuple(check_id(one, "chain") for one in value)


@dataclass(frozen=True)
class Envelope:
    header: Header
    header_bytes: bytes
    payload: bytes
    seal: Seal | None = None

    def to_bytes(self) -> bytes:
        """The form of links: u16 header length, u16 seal length, header, seal, payload."""
        seal = self.seal.to_bytes() if self.seal else b""
        return b"".join((_LENGTHS.pack(len(self.header_bytes), len(seal)), self.header_bytes, seal, self.payload))

    def to_document(self, ticket: bytes = b"") -> bytes:
        """The JSON form; ticket is the raw object to add for a direct call."""
        parts = [b'{"envelope":', self.header_bytes]
        if self.payload:
            parts += [b',"payload":', self.payload]
        if self.seal:
            parts += [b',"seal":', _json.dumps(self.seal.to_object())]
        if ticket:
            parts += [b',"ticket":', ticket]
        return b"".join((*parts, b"}"))

    def value(self) -> Any:
        """The payload's value; None for a payload of zero bytes."""
        return _json.loads(self.payload) if self.payload else None


def decode_bytes(data: bytes, max_payload: int = MAX_PAYLOAD) -> Envelope:
    """Reads the form of links. The payload may be any bytes: nobody parses it to carry it."""
    if len(data) < _LENGTHS.size:
        raise Malformed(f"an envelope of {len(data)} bytes", step="decode")
    header_length, seal_length = _LENGTHS.unpack_from(data)
    seal_at = _LENGTHS.size + header_length
    payload_at = seal_at + seal_length
    if payload_at > len(data):
        raise Malformed("the envelope ends before its header and seal do", step="decode")
    header = bytes(data[_LENGTHS.size : seal_at])
    seal = seal_from_bytes(bytes(data[seal_at:payload_at]))
    payload = bytes(data[payload_at:])
    _check_payload(payload, max_payload)
    return Envelope(decode_header(header), header, payload, seal)


def decode_document(data: bytes, max_payload: int = MAX_PAYLOAD) -> tuple[Envelope, bytes]:
    """Reads the JSON form: the envelope and its raw ticket (zero bytes when there is none)."""
    members = _json.members(data)
    if strange := members.keys() - {"envelope", "payload", "seal", "ticket"}:
        raise Malformed(f"unknown member {min(strange)[:40]!a} beside the envelope", step="decode")
    members = {name: span for name, span in members.items() if span.value is not None or name == "payload"}
    if "envelope" not in members:
        raise Malformed('the document has no member "envelope"', step="decode")
    header = members["envelope"].raw
    payload = members["payload"].raw if "payload" in members else b""
    _check_payload(payload, max_payload)
    seal = seal_from_object(members["seal"].value) if "seal" in members else None
    raw_ticket = members["ticket"].raw if "ticket" in members else b""
    return Envelope(decode_header(header), header, payload, seal), raw_ticket


def _check_payload(payload: bytes, limit: int) -> None:
    if len(payload) > limit:
        raise TooLarge(f"the payload has {len(payload)} bytes, at most {limit} are allowed", step="decode")


def new_id() -> str:
    return secrets.token_hex(12)


def format_time(at: float | None = None) -> str:
    """RFC 3339 in UTC with milliseconds; at in seconds since 1970, None: now."""
    moment = datetime.fromtimestamp(time.time() if at is None else at, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def parse_time(text: Any) -> float:
    """RFC 3339 in UTC to seconds since 1970."""
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    try:
        if found is None:
            raise ValueError
        year, month, day, hour, minute, second = map(int, found.groups()[:6])
        whole = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:
        raise Malformed(
            f"timestamp {str(text)[:40]!a}", step="decode", hint="RFC 3339 in UTC, as 2025-06-05T06:12:33Z"
        ) from None
    return whole.timestamp() + float(found[7] or 0)


def check_window(header: Header, now: float) -> None:
    """Admits timestamp - 120 s <= now <= timestamp + min(ttl, 300) + 120 s."""
    offset = now - header.timestamp
    if offset < -SKEW:
        raise ClockSkew(
            f"the message's clock is {-offset:.0f} s ahead of this agent's",
            step="admit",
            hint="synchronise both with NTP",
        )
    if offset > min(header.ttl_sec, MAX_WINDOW) + SKEW:
        raise Expired(
            f"the message is {offset:.0f} s old, its ttl is {header.ttl_sec} s",
            step="admit",
            hint="send it anew; if it is new, a clock is off: synchronise with NTP",
        )
