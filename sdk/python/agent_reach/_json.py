"""Strict JSON with exact byte spans.

What is signed is the bytes of a value as they stand in its document, so the outer object is taken apart
without decoding and re-encoding its values. Valid UTF-8 decodes and encodes to the same bytes, so spans of
the decoded text are spans of the bytes. Refused: duplicate names, NaN and Infinity, lone surrogates, invalid
UTF-8, anything after the value, nesting over MAX_DEPTH.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from .errors import Malformed

MAX_DEPTH = 500

_NESTING = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')
_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Span(NamedTuple):
    """One value: its bytes as they stand, and what they mean."""

    raw: bytes
    value: Any


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON. Raises TypeError or ValueError for what JSON cannot say."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def loads(data: bytes) -> Any:
    text = _decode(data)
    value, end = _value(text, _skip(text, 0))
    _finish(text, end)
    return value


def members(data: bytes) -> dict[str, Span]:
    """The members of the object that is the whole of data, in order."""
    text = _decode(data)
    found: dict[str, Span] = {}
    at = _expect(text, _skip(text, 0), "{")
    while text[at : at + 1] != "}":
        if found:
            at = _expect(text, at, ",")
        name, at = _name(text, at)
        if name in found:
            raise Malformed(f"duplicate name {name!r}", step="decode")
        start = _skip(text, _expect(text, at, ":"))
        value, end = _value(text, start)
        found[name] = Span(text[start:end].encode(), value)
        at = _skip(text, end)
    _finish(text, at + 1)
    return found


def elements(data: bytes) -> list[Span]:
    """The elements of the array that is the whole of data."""
    text = _decode(data)
    found: list[Span] = []
    at = _expect(text, _skip(text, 0), "[")
    while text[at : at + 1] != "]":
        if found:
            at = _expect(text, at, ",")
        value, end = _value(text, at)
        found.append(Span(text[at:end].encode(), value))
        at = _skip(text, end)
    _finish(text, at + 1)
    return found


def _decode(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as e:
        raise Malformed(f"not UTF-8 at byte {e.start}", step="decode") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(text)
    return text


def _check_depth(text: str) -> None:
    depth = 0
    for token in _NESTING.finditer(text):
        mark = token[0]
        depth += (mark in "[{") - (mark in "]}")
        if depth > MAX_DEPTH:
            raise Malformed(f"nested more than {MAX_DEPTH} deep", step="decode")


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise Malformed(f"expected {mark!r} at character {at}", step="decode")
    return _skip(text, at + 1)


def _name(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise Malformed(f"expected a name at character {at}", step="decode")
    name, end = _value(text, at)
    return name, _skip(text, end)


def _finish(text: str, at: int) -> None:
    if _skip(text, at) != len(text):
        raise Malformed(f"something follows the JSON value at character {at}", step="decode")


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        value, end = _DECODER.raw_decode(text, at)
        if _SURROGATE.search(text, at, end):
            dumps(value)
    except RecursionError:
        raise Malformed("nested too deeply for this moment's stack", step="decode") from None
    except ValueError as e:
        raise Malformed(f"not JSON: {e}", step="decode") from None
    return value, end


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Malformed(f"duplicate name {twice!r}", step="decode")
    return found


def _constant(name: str) -> Any:
    raise Malformed(f"{name} is not JSON", step="decode")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
