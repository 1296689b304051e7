"""Where nodes listen: http(s)://host:port, as given, or from AGENT_REACH_NODE."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

DEFAULT = "http://127.0.0.1:7981"


@dataclass(frozen=True)
class Address:
    secure: bool
    host: str
    port: int

    def __str__(self) -> str:
        return f"http{'s' if self.secure else ''}://{self.authority}"

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def link_url(self) -> str:
        return f"ws{'s' if self.secure else ''}://{self.authority}/v1/link"


def parse_address(text: str) -> Address:
    """http://host:port, https://…, ws(s)://…, or host:port."""
    given = text.strip()
    parts = urlsplit(given if "://" in given else "http://" + given)
    secure = parts.scheme in ("https", "wss")
    try:
        port = parts.port or (443 if secure else 80)
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname or not port or parts.path.strip("/"):
        raise ValueError(f"node address {text!r}: it must be like {DEFAULT}")
    return Address(secure, parts.hostname, port)


def parse_addresses(node: str | Iterable[str] | None) -> list[Address]:
    """One address, several with commas between, or a list; None: AGENT_REACH_NODE, else the default."""
    given = node or os.environ.get("AGENT_REACH_NODE") or DEFAULT
    texts = given.split(",") if isinstance(given, str) else list(given)
    return list(dict.fromkeys(parse_address(text) for text in texts if text.strip()))
