"""Every failure is an AgentReachError: a code of the protocol, the step, a text and a hint.

Catch the class (``except NoRoute``) or compare ``error.code``; never compare texts. What an agent
answered as an error of its own is an AgentError, with the agent's own code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


MAX_OBJECT = 32 << 10  # bytes of an error object; a frame's body is 64 KiB at most
MAX_TEXT = 1024  # bytes of a text or a hint that is sent
MAX_WORD = 128  # bytes of a code, a step, a trace_id
MAX_LINES = 20  # of a text that is shown
_MAX_PLACES = 16 << 10  # bytes; without them an object has at most 6 * (2 * MAX_TEXT + 3 * MAX_WORD) bytes and its names
_ESCAPED = 6  # bytes that a byte of a text takes in JSON at most


@dataclass(frozen=True)
class Place:
    """Where a payload does not fit its schema: a JSON Pointer and what is wrong there."""

    pointer: str
    text: str


class AgentReachError(Exception):
    """The base of all failures. ``retry_after`` is in seconds; None when nobody said."""

    default_code: ClassVar[str] = "internal"

    def __init__(
        self,
        text: str,
        *,
        code: str = "",
        step: str = "",
        hint: str = "",
        trace_id: str = "",
        places: Sequence[Place] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.code = code or self.default_code
        self.step = step
        self.hint = hint
        self.trace_id = trace_id
        self.places = tuple(places)
        self.retry_after = retry_after

    def __str__(self) -> str:
        """For people: cut, and safe to print whatever the other side said. The attributes have all of it."""
        where = f" at {self.step}" if self.step else ""
        places = "".join(f"; {p.pointer or '/'}: {p.text}" for p in self.places[:8])
        hint = f" ({self.hint})" if self.hint else ""
        return shown(f"{self.code}{where}: ", 200) + shown(self.text, 1000) + shown(places, 600) + shown(hint, 400)

    def to_object(self) -> dict[str, Any]:
        """The error object of the wire (end frames, problem documents): at most MAX_OBJECT bytes of JSON."""
        members: dict[str, Any] = {"code": cut(self.code, MAX_WORD), "step": cut(self.step, MAX_WORD)}
        members |= {"text": cut(self.text, MAX_TEXT), "hint": cut(self.hint, MAX_TEXT), "trace_id": cut(self.trace_id, MAX_WORD)}
        members["places"] = [{"pointer": cut(p.pointer, MAX_WORD), "text": cut(p.text, MAX_TEXT)} for p in self.places]
        if sum(_ESCAPED * (len(p["pointer"]) + len(p["text"]) + 8) for p in members["places"]) > _MAX_PLACES:
            members["places"] = []
        if self.retry_after is not None:
            members["retry_after_ms"] = round(self.retry_after * 1000)
        return {k: v for k, v in members.items() if v not in ("", [])}


class Malformed(AgentReachError):
    default_code = "malformed"


class TooLarge(AgentReachError):
    default_code = "too_large"


class BadSeal(AgentReachError):
    default_code = "bad_seal"


class UnknownAgent(AgentReachError):
    default_code = "unknown_agent"


class ClockSkew(AgentReachError):
    default_code = "clock_skew"


class Expired(AgentReachError):
    default_code = "expired"


class Forbidden(AgentReachError):
    default_code = "forbidden"


class SchemaInvalid(AgentReachError):
    default_code = "schema_invalid"


class NoRoute(AgentReachError):
    default_code = "no_route"


class Conflict(AgentReachError):
    default_code = "conflict"


class Duplicate(AgentReachError):
    default_code = "duplicate"


class Overloaded(AgentReachError):
    default_code = "overloaded"


class Unreachable(AgentReachError):
    """Nothing was handed over on any path: it certainly did not run."""

    default_code = "unreachable"


class Timeout(AgentReachError):
    """Handed over, no answer in time: nobody knows whether it ran."""

    default_code = "timeout"


class Loop(AgentReachError):
    default_code = "loop"


class Unsupported(AgentReachError):
    default_code = "unsupported"


class AgentError(AgentReachError):
    """An error of the agent's own. Raise it in a handler; catch it around a call.

    ``details`` are the further members of the error object; they travel in the header, so keep them short.
    """

    default_code = "agent_error"

    def __init__(self, code: str, text: str, *, details: Mapping[str, Any] | None = None, trace_id: str = "") -> None:
        super().__init__(text, code=code, step="agent", trace_id=trace_id)
        self.args = (code, text)
        self.details = dict(details or {})


CODES: Mapping[str, type[AgentReachError]] = {
    kind.default_code: kind
    for kind in (
        Malformed, TooLarge, BadSeal, UnknownAgent, ClockSkew, Expired, Forbidden, SchemaInvalid,
        NoRoute, Conflict, Duplicate, Overloaded, Unreachable, Timeout, Loop, Unsupported,
    )
}  # fmt: skip

HTTP_STATUS: Mapping[str, int] = {
    "malformed": 400, "too_large": 413, "bad_seal": 401, "unknown_agent": 401, "clock_skew": 400, "expired": 408,
    "forbidden": 403, "schema_invalid": 422, "no_route": 404, "conflict": 409, "duplicate": 409, "overloaded": 429,
    "unreachable": 502, "timeout": 504, "loop": 508, "unsupported": 501,
}  # fmt: skip


def error_from_object(members: Mapping[str, Any], *, trace_id: str = "") -> AgentReachError:
    """Reads an error object or a problem document; a code this SDK does not know stays an AgentReachError."""
    code = _text(members, "code") or "internal"
    text = _text(members, "text") or _text(members, "detail") or _text(members, "title") or code
    retry_ms = members.get("retry_after_ms")
    return CODES.get(code, AgentReachError)(
        text,
        code=code,
        step=_text(members, "step"),
        hint=_text(members, "hint"),
        trace_id=_text(members, "trace_id") or trace_id,
        places=_places(members.get("places")),
        retry_after=retry_ms / 1000 if isinstance(retry_ms, (int, float)) else None,
    )


def _text(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""


def _places(value: Any) -> list[Place]:
    if not isinstance(value, list):
        return []
    return [Place(_text(p, "pointer"), _text(p, "text")) for p in value if isinstance(p, dict)]


def cut(text: Any, limit: int) -> str:
    """A text as valid UTF-8 of at most limit bytes, whatever it quotes."""
    data = str(text)[: limit + 1].encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - len("…".encode())].decode("utf-8", "ignore") + "…"


def shown(text: Any, limit: int) -> str:
    """A text for a terminal or a log: at most limit characters of it on MAX_LINES lines, none of which acts or reorders.

    Characters that do, and those that are no text, become JSON's escapes. Line feed and tab stay.
    """
    whole = str(text)
    part = "\n".join(whole[:limit].split("\n", MAX_LINES)[:MAX_LINES])
    said = "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in part)
    if len(said) > limit:
        return said[: limit - 1] + "…"
    return said if len(part) == len(whole) else said + "…"


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def said_by(error: BaseException) -> str:
    """An error's own text, or its class's name where it has none or cannot say it."""
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__
