"""What an agent is made of, checked where it is made: each error names the argument and what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .address import DEFAULT
from .envelope import check_capability
from .errors import Unsupported

_CAPABILITY = '{"name": "stock.query", "version": "1.0.0"}'


def kind_of(value: Any) -> str:
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeio" else f"a {name}"


def text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {kind_of(value)}, {value!r:.80}; right would be a str")
    return value


def whole(value: Any, what: str, low: int, high: int) -> int:
    right = f"right would be an integer from {low} to {high}"
    if type(value) is not int:
        raise TypeError(f"{what} is {kind_of(value)}, {value!r:.80}; {right}")
    if not low <= value <= high:
        raise ValueError(f"{what} is {value}; {right}")
    return value


def seconds(value: Any, what: str, high: float) -> float:
    right = f"right would be a number of seconds from 0 to {high:.0f}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is {kind_of(value)}, {value!r:.80}; {right}")
    if not 0 <= value <= high:
        raise ValueError(f"{what} is {value}; {right}")
    return float(value)


def node(value: Any) -> str | list[str] | None:
    if value is None or isinstance(value, str):
        return value
    listed = list(value) if isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)) else [value]
    for one in listed:
        if not isinstance(one, str):
            raise TypeError(f"node is {kind_of(one)}, {one!r:.80}; right would be an address like {DEFAULT!r}, or a list of them")
    return listed


def capabilities(capability: Any, capabilities: Any) -> list[dict[str, Any]]:
    """Of the two names of one argument the one that is given."""
    if capability is not None and capabilities is not None:
        raise ValueError("both capability and capabilities are given; they are two names of one argument: give one list")
    what, given = ("capability", capability) if capability is not None else ("capabilities", capabilities)
    if given is None:
        return []
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise TypeError(f"{what} is {kind_of(given)}; right would be a list: [{_CAPABILITY}]")
    return [_capability(one, f"{what}[{at}]") for at, one in enumerate(given)]


def _capability(given: Any, what: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is {kind_of(given)}, {given!r:.80}; right would be {_CAPABILITY}")
    for member in ("name", "version"):
        if not given.get(member) and not isinstance(given.get(member), (int, float)):
            raise ValueError(f"{what} has no {member}; right would be {_CAPABILITY}")
        text(given[member], f"{what}'s {member}")
    check_capability(given["name"], f"{what}: capability name")
    return dict(given)


def endpoint(given: Any) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        url = given if isinstance(given, str) and "://" in given else "http://127.0.0.1:9101/rpc"
        right = {"type": "http", "url": url}
        raise TypeError(f"endpoint is {kind_of(given)}, {given!r:.80}; right would be {right}, or nothing: no port is needed")
    found = dict(given or {})
    kind = found.setdefault("type", "link")
    if kind not in ("link", "http"):
        raise Unsupported(f"endpoint type {kind!a}", step="register", hint="this SDK serves link and http")
    if kind == "http" and not str(found.get("url", "")).startswith(("http://", "https://")):
        raise ValueError(f"endpoint url {found.get('url')!r}: it must be like http://127.0.0.1:9101/rpc")
    return found
