"""One HTTP exchange, blocking, bounded in time and size, without redirects, proxies or kept connections."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from . import _json
from .errors import AgentReachError, Malformed, Timeout, TooLarge, Unreachable, error_from_object

_CHUNK = 64 << 10


@dataclass(frozen=True)
class Reply:
    status: int
    type: str
    body: bytes


def exchange(method: str, url: str, body: bytes, headers: Mapping[str, str], *, deadline: float, limit: int) -> Reply:
    """Sends and reads whole. deadline is on time.monotonic's clock, limit in bytes of the answer.

    Raises Unreachable while the request was certainly not handed over, Timeout from then on, TooLarge.
    """
    connection = _connect(url, deadline)
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        _send(connection, method, target, body, headers, deadline)
        return _read(connection, url, deadline, limit)
    finally:
        connection.close()


def _connect(url: str, deadline: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    try:
        timeout = _left(deadline)
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout, context=context)
        elif parts.scheme == "http":
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
        else:
            raise OSError(f"scheme {parts.scheme!r}")
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    except (OSError, ValueError, http.client.HTTPException) as e:
        raise Unreachable(f"{url}: {e}", step="call") from None


def _send(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    body: bytes,
    headers: Mapping[str, str],
    deadline: float,
) -> None:
    """All but the body's last byte may fail as not handed over."""
    held_back = body[-1:]
    try:
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in {**headers, "Connection": "close", "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.sock.settimeout(_left(deadline))
        connection.endheaders(body[:-1] or None)
    except (OSError, ValueError, http.client.HTTPException) as e:
        raise Unreachable(f"{connection.host}: {e}, before the request was handed over", step="call") from None
    try:
        if held_back:
            connection.send(held_back)
    except OSError as e:
        raise Timeout(f"{connection.host}: {e}; unknown whether it ran", step="call") from None


def _read(connection: http.client.HTTPConnection, url: str, deadline: float, limit: int) -> Reply:
    sock = connection.sock
    try:
        sock.settimeout(_left(deadline))
        response = connection.getresponse()
        body = bytearray()
        while True:
            sock.settimeout(_left(deadline))
            chunk = response.read1(_CHUNK)
            if not chunk:
                break
            body += chunk
            if len(body) > limit:
                raise TooLarge(f"{url} answers with more than {limit} bytes", step="call")
        return Reply(response.status, response.getheader("Content-Type", "").split(";")[0].strip(), bytes(body))
    except (OSError, ValueError, http.client.HTTPException) as e:
        text = str(e) or type(e).__name__
        raise Timeout(
            f"{url}: {text}, after the request was handed over: unknown whether it ran", step="call"
        ) from None


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no time is left")
    return left


def problem_of(reply: Reply, url: str) -> AgentReachError:
    """The error that a reply other than 2xx stands for."""
    try:
        members = _json.loads(reply.body)
    except Malformed:
        members = None
    if isinstance(members, dict) and isinstance(members.get("code"), str):
        return error_from_object(members)
    return AgentReachError(f"{url} answered {reply.status}", step="call")
