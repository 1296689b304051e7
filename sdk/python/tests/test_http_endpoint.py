"""The HTTP endpoint: what it lets in, and what it answers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from fake_node import FakeNode

import agent_reach
from agent_reach import AgentReachAgent, _json, http_endpoint, keys
from agent_reach.envelope import Envelope, check_header, decode_document, format_time, new_id
from agent_reach.seal import Verifier, leaf_of, seal_leaves
from agent_reach.tickets import DOMAIN

CALLER = keys.generate()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Served:
    """An HTTP agent, and a caller with tickets of its node."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.port = free_port()
        self.agent = AgentReachAgent(
            "server", node=node.url, capability=[{"name": "echo", "version": "1.0.0"}], handle_signals=False,
            endpoint={"type": "http", "url": f"http://127.0.0.1:{self.port}/rpc"}, max_concurrent_requests=2, max_payload_bytes=100_000,
        )  # fmt: skip
        self.runs: list[Any] = []

        def handle(request: Any) -> Any:
            self.runs.append(request)
            return request

        self.agent.rpc_handler("echo")(handle)

    def ticket(self, key: keys.PrivateKey | None = None, **changed: Any) -> bytes:
        body = {
            "id": "t", "node": self.node.id, "caller": "caller", "caller_key": b64encode(CALLER.public).decode(), "capability": "echo",
            "agent": "server", "expires_utc": format_time(time.time() + 60), **changed,
        }  # fmt: skip
        raw = _json.dumps(body)
        sig = (key or self.node.author.key).sign(DOMAIN + raw)
        return b'{"body":' + raw + b',"sig":"' + b64encode(sig) + b'"}'

    def document(
        self, payload: bytes = b'{"a":1}', ticket: bytes | None = None, key: keys.PrivateKey = CALLER, **values: Any
    ) -> bytes:
        given = {"msg_id": new_id(), "msg_type": "request", "source_agent": "caller", "target_capability": "echo"}
        raw = check_header({**given, "timestamp_utc": format_time(), **values}).to_bytes()
        seal = seal_leaves(key, [leaf_of(raw, payload)])[0]
        return Envelope(
            check_header({**given, "timestamp_utc": format_time(), **values}), raw, payload, seal
        ).to_document(self.ticket() if ticket is None else ticket)

    def post(self, body: bytes, path: str = "/rpc", **headers: str) -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            return response.status, response.getheader("Content-Type", ""), response.read()
        finally:
            connection.close()

    def code(self, body: bytes, path: str = "/rpc", **headers: str) -> str:
        status, type, answer = self.post(body, path, **headers)
        problem = json.loads(answer)
        assert type == "application/problem+json" and problem["status"] == status
        assert problem["type"] == f"urn:agent-reach:error:{problem['code']}" and problem["detail"]
        return str(problem["code"])


@pytest.fixture
def served() -> Iterator[Served]:
    with FakeNode() as node:
        served = Served(node)
        served.agent.start()
        yield served
        served.agent.stop(1)


def proven(served: Served, document: bytes) -> Envelope:
    envelope, _ = decode_document(document)
    assert Verifier().check(served.agent.public_key, envelope.header_bytes, envelope.payload, envelope.seal)
    return envelope


def test_a_call_with_its_ticket(served: Served) -> None:
    status, type, answer = served.post(served.document(msg_id="m-1", trace_id="t-1", target_capability="echo@^1"))
    assert (status, type) == (200, "application/json")
    envelope = proven(served, answer)
    assert envelope.payload == b'{"a":1}' and envelope.header.in_reply_to == "m-1" and envelope.header.trace_id == "t-1"
    registered = json.loads(served.node.of("register")[0].envelope.payload)
    assert registered["endpoint"] == {"type": "http", "url": f"http://127.0.0.1:{served.port}/rpc"}


@pytest.mark.parametrize("payload", [b"", b"{}", b"null", b'""'])
def test_empty_answers(served: Served, payload: bytes) -> None:
    served.agent.rpc_handler("echo")(lambda request: payload)
    assert proven(served, served.post(served.document())[2]).payload == payload


def test_a_probe_is_answered(served: Served) -> None:
    node = served.node
    key = b64encode(node.author.key.public).decode()
    ticket = served.ticket(caller=node.id, caller_key=key, capability="")
    body = served.document(
        b"{}",
        ticket,
        node.author.key,
        msg_type="heartbeat",
        source_agent=node.id,
        target_capability="",
        target_agent="server",
        to_node=node.id,
    )
    assert proven(served, served.post(body)[2]).header.target_agent == node.id
    assert not served.runs


def test_what_is_refused(served: Served) -> None:
    stranger = keys.generate()
    now = time.time()
    refusals = {
        "no ticket": (served.document(ticket=b""), "forbidden"),
        "signed by a stranger": (served.document(ticket=served.ticket(stranger)), "bad_seal"),
        "of another node": (served.document(ticket=served.ticket(node="other-node")), "bad_seal"),
        "for another caller": (served.document(ticket=served.ticket(caller="other")), "forbidden"),
        "for another agent": (served.document(ticket=served.ticket(agent="other")), "forbidden"),
        "for another capability": (served.document(ticket=served.ticket(capability="other")), "forbidden"),
        "expired": (served.document(ticket=served.ticket(expires_utc=format_time(now - 130))), "expired"),
        "too long": (served.document(ticket=served.ticket(expires_utc=format_time(now + 600))), "clock_skew"),
        "sealed by another key": (served.document(key=stranger), "bad_seal"),
        "unsealed": (_without_seal(served.document()), "bad_seal"),
        "changed on the way": (served.document().replace(b'{"a":1}', b'{"a":2}'), "bad_seal"),
        "from the future": (served.document(timestamp_utc=format_time(now + 200)), "clock_skew"),
        "old": (served.document(timestamp_utc=format_time(now - 300)), "expired"),
        "not JSON": (b"{", "malformed"),
        "duplicate name": (served.document(payload=b'{"a":1,"a":2}'), "malformed"),
        "unknown member": (served.document()[:-1] + b',"x":1}', "malformed"),
    }
    found = {name: served.code(body) for name, (body, _) in refusals.items()}
    assert found == {name: code for name, (_, code) in refusals.items()}
    assert not served.runs, "nothing ran"
    assert served.code(served.document(), path="/other") == "no_route"


def _without_seal(document: bytes) -> bytes:
    members = _json.members(document)
    return b"{" + b",".join(b'"%s":%s' % (n.encode(), m.raw) for n, m in members.items() if n != "seal") + b"}"


def test_the_same_message_runs_once(served: Served) -> None:
    body = served.document(msg_id="once")
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(served.post(body)[0])) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [200, 409, 409, 409, 409] and len(served.runs) == 1
    assert served.code(body) == "duplicate"


def test_an_honest_retry_after_overloaded_is_no_duplicate(served: Served) -> None:
    release, started = threading.Event(), threading.Barrier(3)

    def slow(request: Any) -> str:
        started.wait(5)
        release.wait(5)
        return "slow"

    served.agent.rpc_handler("echo")(slow)
    threads = [threading.Thread(target=lambda: served.post(served.document())) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait(5)
    body = served.document()
    assert served.code(body) == "overloaded"
    release.set()
    for thread in threads:
        thread.join()
    served.agent.rpc_handler("echo")(lambda request: "ran")
    assert proven(served, served.post(body)[2]).payload == b'"ran"'


def test_size_and_form_of_requests(served: Served) -> None:
    assert served.code(served.document(payload=b'"' + b"x" * 100_000 + b'"')) == "too_large"
    assert served.code(b"x" * 200_000) == "too_large"
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.request(
        "POST", "/rpc", iter([served.document()]), encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
    )
    assert json.loads(connection.getresponse().read())["code"] == "malformed"
    connection.close()


def test_a_slow_sender_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "READ", 0.5)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", served.port)) as slow:
        slow.settimeout(5)
        slow.sendall(b"POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        try:
            for _ in range(100):
                slow.sendall(b"x")
                slow.settimeout(0.1)
                try:
                    if not slow.recv(1):
                        break
                except TimeoutError:
                    pass
        except OSError:
            pass
    assert time.monotonic() - began < 3


def test_connections_are_kept(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    for _ in range(3):
        connection.request("POST", "/rpc", served.document(), {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200 and response.read()
    assert connection.sock is not None, "the server did not close it"
    connection.close()


def test_streams_come_as_lines(served: Served) -> None:
    gate = threading.Event()

    def stream(request: Any) -> Iterator[int]:
        yield 1
        assert gate.wait(5)
        yield 2

    served.agent.rpc_handler("echo")(stream)
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.request("POST", "/rpc", served.document())
    response = connection.getresponse()
    assert response.getheader("Content-Type") == "application/x-ndjson"
    assert proven(served, response.readline()).payload == b"1", "the first comes before the second is made"
    gate.set()
    assert proven(served, response.readline()).payload == b"2"
    assert response.read() == b""
    connection.close()


def test_the_deadline_of_the_node_holds(served: Served) -> None:
    async def slow(request: Any) -> None:
        import asyncio

        await asyncio.sleep(20)

    served.agent.rpc_handler("echo")(slow)
    began = time.monotonic()
    assert served.code(served.document(), **{"Agent-Reach-Timeout-Ms": "300"}) == "timeout"
    assert time.monotonic() - began < 3


def test_a_caller_that_hangs_up_cancels(served: Served) -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def slow(request: Any) -> None:
        import asyncio

        started.set()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    served.agent.rpc_handler("echo")(slow)
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.request("POST", "/rpc", served.document())
    assert started.wait(5)
    connection.close()
    assert cancelled.wait(5)


def test_failures_are_sealed_answers(served: Served) -> None:
    def fail(request: Any) -> None:
        raise agent_reach.AgentError("out_of_stock", "none left")

    served.agent.rpc_handler("echo")(fail)
    status, _, answer = served.post(served.document())
    envelope = proven(served, answer)
    assert status == 200 and envelope.header.error == {"code": "out_of_stock", "text": "none left"}


def test_a_port_in_use_is_said(served: Served) -> None:
    agent = AgentReachAgent(
        "second",
        node=served.node.url,
        handle_signals=False,
        endpoint={"type": "http", "url": f"http://127.0.0.1:{served.port}/"},
    )
    with pytest.raises(OSError, match="in use"):
        agent.start()
