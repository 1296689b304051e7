"""The small HTTP server of an agent with endpoint type http (envelope/DESIGN.md, Delivery to an HTTP agent).

One thread for each connection, at most MAX_CONNECTIONS; a request must arrive within READ seconds; the body is bounded.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import io
import logging
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import urlsplit

from . import _json
from .envelope import Envelope, decode_document
from .errors import HTTP_STATUS, AgentReachError, Malformed, TooLarge, Unreachable

log = logging.getLogger("agent_reach")

IDLE = 120.0  # seconds that a kept connection may be quiet; longer than clients keep theirs
READ = 15.0  # seconds for a whole request to arrive
WRITE = 30.0  # seconds for one answer to be taken
LINGER = 2.0  # seconds, and
DISCARD = 32 << 20  # bytes that are read of a refused request
MAX_CONNECTIONS = 256
_OVERHEAD = 8 << 10  # bytes of header, seal and ticket beside a payload

Answers = Callable[[Envelope, bytes, "float | None"], AsyncGenerator["tuple[bytes, bool]", None]]


class Endpoint:
    """Serves ``url``; ``bind`` (host:port) when the address to listen on is another than the published one."""

    def __init__(
        self, url: str, bind: str, answers: Answers, loop: asyncio.AbstractEventLoop, max_payload: int
    ) -> None:
        published = urlsplit(url)
        if published.scheme == "https" and not bind:
            raise ValueError(f"endpoint {url}: no TLS is served here; give the plain listener in front of it as bind")
        listen = urlsplit("//" + bind) if bind else published
        self._server = _Server(
            (listen.hostname or "", listen.port or 80), published.path or "/", answers, loop, max_payload
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="agent-reach-http", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Takes no new connections, breaks those that are left, ends all threads (bounded)."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(2.0)
        self._server.break_off(2.0)


class _Server(HTTPServer):
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], path: str, answers: Answers, loop: asyncio.AbstractEventLoop, max_payload: int
    ) -> None:
        self.path = path
        self.answers = answers
        self.loop = loop
        self.max_payload = max_payload
        self.max_body = max_payload + _OVERHEAD
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Exchange)

    def server_bind(self) -> None:
        """As the base class, without its reverse look-up of our own name, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            full = len(self._open) >= MAX_CONNECTIONS
            if not full:
                thread = threading.Thread(
                    target=self._serve, args=(request, client_address), name="agent-reach-http-exchange", daemon=True
                )
                self._open[request] = thread
        if full:
            log.warning("connection refused: %d are open", MAX_CONNECTIONS)
            self.shutdown_request(request)
        else:
            thread.start()

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except (OSError, ValueError) as e:
            log.debug("connection broke off, addr=%s err=%s", client_address, e)
        except Exception:
            log.exception("exchange failed, addr=%s", client_address)
        finally:
            self.shutdown_request(request)
            with self._lock:
                self._open.pop(request, None)

    def break_off(self, timeout: float) -> None:
        with self._lock:
            left = dict(self._open)
        for sock in left:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        until = time.monotonic() + timeout
        for thread in left.values():
            thread.join(max(0.0, until - time.monotonic()))


class _Timed(io.RawIOBase):
    """Reads a socket until a moment, not until each byte's time-out: a slow sender cannot drag it out."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.deadline = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not arrive in time")
        self._sock.settimeout(left)
        return self._sock.recv_into(buffer)


class _Gone(ConnectionError):
    """The other side closed the connection while it was being answered."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "agent-reach"
    sys_version = ""
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._timed = _Timed(self.connection)
        self._buffered = io.BufferedReader(self._timed)
        self.rfile = self._buffered

    def handle_one_request(self) -> None:
        self._timed.deadline = time.monotonic() + IDLE
        try:
            if not self._buffered.peek(1):
                self.close_connection = True
                return
        except OSError:
            self.close_connection = True
            return
        self._timed.deadline = time.monotonic() + READ
        super().handle_one_request()

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("http: " + format, *args)

    def do_POST(self) -> None:
        try:
            envelope, ticket = decode_document(self._document(), self.server.max_payload)
        except AgentReachError as e:
            self.close_connection = True
            self._problem(e)
            self._discard()
            return
        answers = self.server.answers(envelope, ticket, self._timeout())
        try:
            self._answer(answers)
        except AgentReachError as e:
            self._problem(e)
        except _Gone:
            self.close_connection = True
        finally:
            asyncio.run_coroutine_threadsafe(answers.aclose(), self.server.loop)

    def _document(self) -> bytes:
        if self.path.partition("?")[0] != self.server.path:
            raise AgentReachError(f"nothing is served at {self.path[:100]!a}", code="no_route", step="agent")
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not (length.isascii() and length.isdigit()):
            raise Malformed("a delivery needs Content-Length, and no Transfer-Encoding", step="decode")
        if int(length) > self.server.max_body:
            raise TooLarge(f"a body of {length} bytes, at most {self.server.max_body}", step="decode")
        body = self.rfile.read(int(length))
        if len(body) != int(length):
            raise Malformed("the body is shorter than its Content-Length", step="decode")
        return body

    def _discard(self) -> None:
        """Reads on for a moment: closing on unread bytes would take the answer away from who is still sending."""
        self.connection.shutdown(socket.SHUT_WR)
        self._timed.deadline = time.monotonic() + LINGER
        left = DISCARD
        while left > 0 and (chunk := self.rfile.read1(65536)):
            left -= len(chunk)

    def _timeout(self) -> float | None:
        text = self.headers.get("Agent-Reach-Timeout-Ms", "")
        return int(text) / 1000 if text.isascii() and text.isdigit() and len(text) < 10 else None

    def _answer(self, answers: AsyncGenerator[tuple[bytes, bool], None]) -> None:
        """One document, or a line for each part as it comes."""
        document, last = self._on_loop(anext(answers))
        if last:
            self._send(200, "application/json", document)
            return
        self._begin_lines()
        try:
            while True:
                self._chunk(document + b"\n")
                if last:
                    break
                document, last = self._on_loop(anext(answers))
        except StopAsyncIteration:
            pass
        except AgentReachError as e:
            # Too late for a problem document: the answer breaks off, which its reader cannot mistake for an end.
            log.warning("streamed answer broken off, err=%s", e)
            self.close_connection = True
            return
        self._write(b"0\r\n\r\n")

    def _on_loop(self, work: Any) -> Any:
        """Runs work on the agent's loop, until the other side hangs up."""
        future = asyncio.run_coroutine_threadsafe(_wrap(work), self.server.loop)
        while not concurrent.futures.wait([future], 0.5).done:
            if self._hung_up():
                future.cancel()
                raise _Gone
        if future.cancelled():
            raise Unreachable("the agent is leaving", step="agent")
        return future.result()

    def _hung_up(self) -> bool:
        try:
            self.connection.settimeout(0)
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _problem(self, error: AgentReachError) -> None:
        status = HTTP_STATUS.get(error.code, 500)
        members = error.to_object()
        members |= {"type": f"urn:agent-reach:error:{error.code}", "title": error.code.replace("_", " ")}
        members |= {"status": status, "detail": members.pop("text", "")}
        self._send(status, "application/problem+json", _json.dumps(members))

    def _send(self, status: int, type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", type)
        self.send_header("Content-Length", str(len(body)))
        self._headers_and(body)

    def _begin_lines(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self._headers_and(b"")

    def _headers_and(self, body: bytes) -> None:
        if self.close_connection:
            self.send_header("Connection", "close")
        buffered = b"".join(self._headers_buffer) + b"\r\n"  # one write for both
        self._headers_buffer: list[bytes] = []
        self._write(buffered + body)

    def _chunk(self, data: bytes) -> None:
        self._write(b"%x\r\n" % len(data) + data + b"\r\n")

    def _write(self, data: bytes) -> None:
        self.connection.settimeout(WRITE)
        try:
            self.connection.sendall(data)
        except OSError:
            raise _Gone from None


async def _wrap(work: Any) -> Any:
    return await work
