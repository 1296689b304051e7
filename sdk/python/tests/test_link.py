"""The link's frames, faults included that no real node produces."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fake_node import Asked, FakeNode

import agent_reach
from agent_reach import AgentReachAgent, current_request, frames, keys
from agent_reach import link as link_module
from agent_reach._author import Author

ECHO = {"name": "echo", "version": "1.0.0"}


@pytest.fixture
def node() -> Iterator[FakeNode]:
    with FakeNode() as fake:
        yield fake


def make(node: FakeNode, **more: Any) -> AgentReachAgent:
    more.setdefault("agent_id", "tester")
    return AgentReachAgent(node=node.url, handle_signals=False, **more)


@pytest.fixture
def client(node: FakeNode) -> Iterator[AgentReachAgent]:
    agent = make(node)
    yield agent
    agent.stop(0)


async def echo(asked: Asked) -> None:
    await asked.answer(asked.envelope.payload)


def test_registers_and_leaves(node: FakeNode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    agent = make(node, capability=[ECHO], display_name="合同审查助手", max_concurrent_requests=3)
    agent.rpc_handler("echo")(lambda request: request)
    agent.start()
    assert "agent registered, id=tester, capability_count=1" in caplog.messages
    said = json.loads(node.of("register")[0].envelope.payload)
    assert said["capabilities"] == [ECHO] and said["display_name"] == "合同审查助手"
    assert said["max_concurrent_requests"] == 3 and said["endpoint"] == {"type": "link"}
    assert said["public_key"] == b64encode(agent.public_key).decode()
    assert node.of("register")[0].envelope.header.to_node == "fake-node"
    agent.stop()
    agent.stop()
    assert len(node.of("unregister")) == 1


def test_start_waits_until_the_node_has_seen_an_answer(node: FakeNode) -> None:
    node.state = "pending"

    async def on_heartbeat(asked: Asked) -> None:
        node.state = "available" if len(node.of("heartbeat")) >= 3 else "pending"
        await asked.answer(json.dumps({"state": node.state}).encode())

    node.on_heartbeat = on_heartbeat
    with make(node) as agent:
        agent.start()
        assert len(node.of("heartbeat")) == 3


def test_a_node_without_its_key_is_not_believed(node: FakeNode) -> None:
    node.wrong_proof = True
    agent = make(node)
    with pytest.raises(agent_reach.BadSeal):
        agent.start()


def test_a_refusal_is_raised_at_once(node: FakeNode) -> None:
    node.refuse = agent_reach.Conflict("another key holds this id", step="register")
    with pytest.raises(agent_reach.Conflict, match="another key"):
        make(node).start()


def test_no_node_at_all() -> None:
    began = time.monotonic()
    with AgentReachAgent("tester", node="http://127.0.0.1:1", handle_signals=False) as agent:
        with pytest.raises(agent_reach.Unreachable, match="is a node running there"):
            agent.call("echo", {})
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("payload", [b"", b"{}", b"null", b'""'])
def test_empty_answers_are_answers(node: FakeNode, client: AgentReachAgent, payload: bytes) -> None:
    async def on_request(asked: Asked) -> None:
        await asked.answer(payload)

    node.on_request = on_request
    response = client.call_full("echo", {})
    assert response.payload_bytes == payload
    assert response.payload == (json.loads(payload) if payload else None)


def test_no_payload_and_null_differ(node: FakeNode, client: AgentReachAgent) -> None:
    node.on_request = echo
    client.call("echo")
    client.call("echo", None)
    assert [a.envelope.payload for a in node.of("request")] == [b"", b"null"]


def test_errors_of_the_node_are_typed(node: FakeNode, client: AgentReachAgent) -> None:
    async def on_request(asked: Asked) -> None:
        place = agent_reach.Place("/sku", "missing")
        await asked.end(
            agent_reach.SchemaInvalid("does not fit", step="check", places=[place], hint="add it", retry_after=1.5)
        )

    node.on_request = on_request
    with pytest.raises(agent_reach.SchemaInvalid) as caught:
        client.call("echo", {}, trace_id="t-1")
    e = caught.value
    assert (e.code, e.step, e.text, e.hint, e.retry_after) == ("schema_invalid", "check", "does not fit", "add it", 1.5)
    assert e.places == (agent_reach.Place("/sku", "missing"),) and e.trace_id == "t-1"
    assert "/sku: missing" in str(e)


def test_a_code_of_tomorrow_is_still_an_error(node: FakeNode, client: AgentReachAgent) -> None:
    async def on_request(asked: Asked) -> None:
        await asked.end(agent_reach.AgentReachError("?", code="of_tomorrow"))

    node.on_request = on_request
    with pytest.raises(agent_reach.AgentReachError) as caught:
        client.call("echo", {})
    assert caught.value.code == "of_tomorrow"


def test_answers_are_checked_against_the_agents_key(node: FakeNode, client: AgentReachAgent) -> None:
    agent, thief = Author("other", keys.generate()), Author("other", keys.generate())
    authors = [agent, thief]

    async def on_request(asked: Asked) -> None:
        await asked.answer(b"1", authors.pop(0))

    node.on_request = on_request
    node.published["other"] = b64encode(agent.key.public).decode()
    assert client.call("echo", {}) == 1
    with pytest.raises(agent_reach.BadSeal):
        client.call("echo", {})
    assert node.lookups == ["other", "other"], "learned once, and once more when the seal did not fit"
    authors.append(thief)
    node.published["other"] = b64encode(thief.key.public).decode()
    assert client.call("echo", {}) == 1, "a replaced key is learned"


def test_an_answer_for_somebody_else_is_refused(node: FakeNode, client: AgentReachAgent) -> None:
    async def on_request(asked: Asked) -> None:
        envelope = await node.author.write(
            b"1", msg_type="response", status="ok", in_reply_to="another", target_agent="tester"
        )
        await asked.part(envelope.to_bytes())

    node.on_request = on_request
    with pytest.raises(agent_reach.Malformed, match="in_reply_to"):
        client.call("echo", {})


def test_lost_after_hand_over_is_never_repeated(node: FakeNode, client: AgentReachAgent) -> None:
    async def on_request(asked: Asked) -> None:
        asked.link.ws.transport.abort()

    node.on_request = on_request
    with pytest.raises(agent_reach.Timeout, match="unknown whether it ran"):
        client.call("echo", {})
    assert len(node.of("request")) == 1


def test_lost_before_hand_over_is_repeated() -> None:
    with FakeNode(window=2000) as node:
        node.on_request = echo
        client = make(node)
        assert client.call("echo", 1) == 1
        first = node.links[0]
        first.give_credit = False
        result: list[Any] = []
        caller = threading.Thread(target=lambda: result.append(client.call("echo", "x" * 10_000)))
        caller.start()
        node.wait(lambda: [f for f in first.frames if f.type == frames.MESSAGE and f.call > 3], "the first frame")
        node.loop.loop.call_soon_threadsafe(first.ws.transport.abort)
        caller.join(10)
        assert result == ["x" * 10_000] and len(node.links) == 2
        client.stop(0)


def test_unreachable_is_repeated_twice_at_most(node: FakeNode, client: AgentReachAgent) -> None:
    async def on_request(asked: Asked) -> None:
        await asked.end(agent_reach.Unreachable("nobody there"))

    node.on_request = on_request
    with pytest.raises(agent_reach.Unreachable):
        client.call("echo", {})
    asked = node.of("request")
    assert [a.hop.attempts for a in asked] == [0, 1, 2]
    assert len({a.envelope.header.msg_id for a in asked}) == 3
    assert len({a.envelope.header.trace_id for a in asked}) == 1
    with pytest.raises(agent_reach.Unreachable):
        client.call("echo", {}, msg_id="mine")
    assert len([a for a in node.of("request") if a.envelope.header.msg_id == "mine"]) == 1


def test_large_messages_go_in_pieces_within_credit() -> None:
    with FakeNode(window=5000) as node:
        node.on_request = echo
        client = make(node)
        payload = "y" * 300_000
        assert client.call("echo", payload) == payload
        sizes = [len(f.body) for f in node.links[0].frames if f.type == frames.MESSAGE]
        assert max(sizes) <= 16 << 10 and len(sizes) > 50
        client.stop(0)


def test_a_large_message_does_not_hold_up_an_urgent_one(node: FakeNode) -> None:
    node.on_request = echo
    client = make(node)
    client.call("echo", 1)

    async def both() -> list[Any]:
        large = asyncio.ensure_future(client.call_async("echo", "z" * 3_000_000, priority=9))
        await asyncio.sleep(0)
        small = [asyncio.ensure_future(client.call_async("echo", i, priority=1)) for i in range(5)]
        return await asyncio.gather(large, *small)

    answers = asyncio.run(both())
    assert answers[1:] == list(range(5)) and len(answers[0]) == 3_000_000
    order = [a.envelope.header.priority for a in node.of("request")][1:]
    assert order.index(9) > 0, "an urgent one overtook the large one"
    firsts = [f.call for f in node.links[0].frames if f.type == frames.MESSAGE and f.flags & frames.FIRST]
    assert firsts == sorted(firsts) and all(call % 2 for call in firsts), "numbers grow on the wire"
    client.stop(0)


def test_messages_of_one_moment_share_a_seal(node: FakeNode, client: AgentReachAgent) -> None:
    node.on_request = echo

    async def many() -> list[Any]:
        return await asyncio.gather(*(client.call_async("echo", i) for i in range(40)))

    assert asyncio.run(many()) == list(range(40))
    leaves = {a.envelope.seal.leaves for a in node.of("request") if a.envelope.seal}
    assert max(leaves) > 1


def test_too_large_an_answer_is_cancelled(node: FakeNode) -> None:
    async def on_request(asked: Asked) -> None:
        await asked.part(b"x" * 100_000)

    node.on_request = on_request
    client = make(node, max_payload_bytes=50_000)
    with pytest.raises(agent_reach.TooLarge):
        client.call("echo", {})
    node.wait(lambda: [f for f in node.links[0].frames if f.type == frames.CANCEL], "cancel")
    client.stop(0)


def test_too_large_a_request_is_not_sent() -> None:
    with FakeNode(max_message=10_000) as node, make(node) as client:
        with pytest.raises(agent_reach.TooLarge):
            client.call("echo", "x" * 20_000)
        assert not node.of("request")


@pytest.mark.parametrize(
    "data",
    [
        frames.encode(frames.PART, 3, b"\x00\x00\x00\x04abcdefgh", frames.FIRST | frames.LAST),
        frames.encode(frames.PART, 3, b"\x00", frames.FIRST),
        frames.encode(frames.PART, 3, b"loose bytes"),
        frames.encode(frames.MESSAGE, 7, frames.message_prefix(frames.Hop(1000, 1, 5, 0), 64), frames.FIRST),
        frames.encode(frames.HELLO, 0, b"{}"),
        frames.encode(frames.END, 3, b"{broken"),
        b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00",
        b"\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00",
    ],
)
def test_a_node_that_breaks_the_protocol_is_told_and_left(node: FakeNode, client: AgentReachAgent, data: bytes) -> None:
    async def on_request(asked: Asked) -> None:
        if len(node.links) == 1:
            await asked.link.send(data)
        else:
            await echo(asked)

    node.on_request = on_request
    with pytest.raises(agent_reach.Timeout):
        client.call("echo", {})
    node.wait(lambda: [f for f in node.links[0].frames if f.type == frames.GOAWAY], "goaway")
    assert client.call("echo", 2) == 2, "and another link is made"


def test_more_than_the_credit_breaks_the_protocol(node: FakeNode, client: AgentReachAgent) -> None:
    async def on_request(asked: Asked) -> None:
        chunk = b"x" * 60_000
        await asked.link.send(
            frames.encode(frames.PART, asked.call, frames.part_prefix(4_000_000) + chunk, frames.FIRST)
        )
        for _ in range(40):  # more than a window in one write: no credit can have come in between
            await asked.link.send(b"".join(frames.encode(frames.PART, asked.call, chunk) for _ in range(20)))

    node.on_request = on_request
    with pytest.raises(agent_reach.Timeout, match="link"):
        client.call("echo", {})


def test_unknown_frames_are_skipped_and_pings_answered(node: FakeNode, client: AgentReachAgent) -> None:
    node.on_request = echo
    client.call("echo", 1)
    first = node.links[0]
    node.loop.call(first.send(frames.encode(77, 9, b"of tomorrow") + frames.encode(frames.PING, 0, b"12345678")))
    node.wait(
        lambda: [f for f in first.frames if f.type == frames.PING and f.flags & frames.ACK and f.body == b"12345678"]
    )
    assert client.call("echo", 2) == 2 and len(node.links) == 1


def test_goaway_moves_to_another_link(node: FakeNode, client: AgentReachAgent) -> None:
    hold = asyncio.Event()

    async def on_request(asked: Asked) -> None:
        if asked.envelope.payload == b'"slow"':
            await hold.wait()
        await echo(asked)

    node.on_request = on_request
    slow: list[Any] = []
    caller = threading.Thread(target=lambda: slow.append(client.call("echo", "slow")))
    caller.start()
    node.wait(lambda: node.of("request"))
    node.loop.call(node.links[0].send(frames.encode_error(frames.GOAWAY, 0, agent_reach.Unreachable("leaving"))))
    assert client.call("echo", 1) == 1
    node.wait(lambda: len(node.links) == 2)
    assert [a.link for a in node.of("request")][1] is node.links[1]
    node.loop.loop.call_soon_threadsafe(hold.set)
    caller.join(10)
    assert slow == ["slow"], "what runs on the old link may finish"


def test_a_heartbeat_that_is_not_known_registers_again(node: FakeNode) -> None:
    async def on_heartbeat(asked: Asked) -> None:
        await asked.end(agent_reach.UnknownAgent("who?"))

    node.on_heartbeat = on_heartbeat
    with make(node, heartbeat_interval_sec=1) as agent:
        agent.start()
        node.wait(lambda: len(node.of("register")) >= 2, "second registration")
    assert json.loads(node.of("heartbeat")[0].envelope.payload) == {"current_load": 0}


def test_a_changed_node_key_is_said_loudly(
    node: FakeNode, client: AgentReachAgent, caplog: pytest.LogCaptureFixture
) -> None:
    node.on_request = echo
    client.call("echo", 1)
    node.author = Author(node.id, keys.generate())
    node.loop.loop.call_soon_threadsafe(node.links[0].ws.transport.abort)
    node.wait(lambda: len(node.links) == 2)
    assert client.call("echo", 2) == 2
    assert any("NODE KEY CHANGED" in message for message in caplog.messages)


def test_the_deadline_holds_without_the_node(node: FakeNode, client: AgentReachAgent) -> None:
    async def on_request(asked: Asked) -> None:
        await asyncio.sleep(30)

    node.on_request = on_request
    began = time.monotonic()
    with pytest.raises(agent_reach.Timeout):
        client.call("echo", {}, ttl_sec=1)
    assert 0.9 < time.monotonic() - began < 3
    node.wait(lambda: [f for f in node.links[0].frames if f.type == frames.CANCEL], "cancel")
    assert node.of("request")[0].hop.remaining_ms <= 1000


def test_leaving_a_stream_cancels_it(node: FakeNode, client: AgentReachAgent) -> None:
    async def on_request(asked: Asked) -> None:
        for i in range(3):
            await asked.answer(str(i).encode(), final=False)

    node.on_request = on_request
    stream = client.stream("echo", {})
    assert [next(stream), next(stream)] == [0, 1]
    stream.close()  # type: ignore[attr-defined]
    node.wait(lambda: [f for f in node.links[0].frames if f.type == frames.CANCEL], "cancel")


def test_streams_of_parts(node: FakeNode, client: AgentReachAgent) -> None:
    async def on_request(asked: Asked) -> None:
        for i in range(100):
            await asked.answer(str(i).encode(), final=False)
        await asked.end()

    node.on_request = on_request
    assert list(client.stream("echo", {})) == list(range(100))
    assert client.call("echo", {}) == list(range(100))

    async def collect() -> list[Any]:
        return [item async for item in client.stream_async("echo", {})]

    assert asyncio.run(collect()) == list(range(100))


@pytest.mark.parametrize("mute", [False, True])
def test_stop_never_hangs_on_a_silent_peer(mute: bool) -> None:
    with FakeNode(mute=mute) as node:
        agent = make(node)
        caller = threading.Thread(
            target=lambda: pytest.raises(agent_reach.AgentReachError, agent.call, "echo", {}, ttl_sec=5)
        )
        caller.start()
        if not mute:
            node.wait(lambda: node.of("request"))
        for link in node.links:
            node.loop.loop.call_soon_threadsafe(link.ws.transport.pause_reading)
        began = time.monotonic()
        agent.stop(0)
        assert time.monotonic() - began < 8
        caller.join(6)
        assert not caller.is_alive()


def test_a_silent_link_is_given_up(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "PING", 0.1)
    monkeypatch.setattr(link_module, "STALL", 0.5)
    node.on_request = echo
    with make(node) as client:
        assert client.call("echo", 1) == 1
        node.wait(lambda: len(node.links) >= 2, "the fake answers no ping, so another link is made")


def test_a_call_that_is_not_taken_is_given_up_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "PING", 0.1)
    monkeypatch.setattr(link_module, "STALL", 0.5)
    with FakeNode(window=2000, answer_pings=True) as node:
        node.on_request = echo
        with make(node, capabilities=[ECHO]) as agent:
            agent.rpc_handler("echo")(lambda request: "x" * 10_000)
            agent.start()
            node.links[0].give_credit = False
            with pytest.raises(agent_reach.Unreachable, match="certainly did not run"):
                agent.call("echo", "x" * 10_000, msg_id="mine")
            _, error = node.ended(node.ask("echo", {}))
            assert isinstance(error, agent_reach.Timeout) and "took no byte" in error.text
            assert agent.call("echo", 1) == 1 and len(node.links) == 1, "the link lives on"


# answering


@pytest.fixture
def agent(node: FakeNode) -> Iterator[AgentReachAgent]:
    agent = make(node, capabilities=[ECHO, {"name": "other", "version": "1.0.0"}], max_concurrent_requests=2)
    agent.rpc_handler("echo")(lambda request: request)
    agent.rpc_handler("other")(lambda request: request)
    yield agent
    agent.stop(0)


def test_answers_belong_to_the_request(node: FakeNode, agent: AgentReachAgent) -> None:
    agent.start()
    (answer,), error = node.ended(node.ask("echo@^1", {"a": 1}, msg_id="m-1", trace_id="t-1", traceparent="00-a-b-01"))
    assert error is None and json.loads(answer.payload) == {"a": 1}
    header = answer.header
    assert (header.in_reply_to, header.trace_id, header.traceparent) == ("m-1", "t-1", "00-a-b-01")
    assert (header.source_agent, header.target_agent, header.target_capability) == ("tester", "some-caller", "echo@^1")
    assert header.status == "ok" and header.msg_id != "m-1"


def test_a_probe_is_answered(node: FakeNode, agent: AgentReachAgent) -> None:
    agent.start()
    (answer,), error = node.ended(node.ask("", b"", msg_type="heartbeat", source="fake-node", to_node="fake-node"))
    assert error is None and answer.header.target_agent == "fake-node"


def test_handlers_of_all_kinds(node: FakeNode, agent: AgentReachAgent) -> None:
    def sync_stream(request: dict[str, Any]) -> Iterator[int]:
        yield from range(request["n"])

    async def plain(request: dict[str, Any]) -> Any:
        await asyncio.sleep(0.01)
        return request["n"]

    async def stream(request: dict[str, Any]) -> AsyncIterator[int]:
        for i in range(request["n"]):
            yield i

    agent.start()
    for handler, want in ((sync_stream, [0, 1, 2]), (plain, [3]), (stream, [0, 1, 2])):
        agent.rpc_handler("echo")(handler)
        parts, error = node.ended(node.ask("echo", {"n": 3}))
        assert error is None and [json.loads(p.payload) for p in parts] == want
    for handler in (sync_stream, stream):
        agent.rpc_handler("echo")(handler)
        parts, error = node.ended(node.ask("echo", {"n": 0}))
        assert error is None and [p.payload for p in parts] == [b""], "even an empty answer is an answer"


def test_failures_become_answers(node: FakeNode, agent: AgentReachAgent, caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: dict[str, Any]) -> None:
        raise {
            "plain": ValueError("no such sku"),
            "own": agent_reach.AgentError("out_of_stock", "none left", details={"sku": 7}),
        }[request["how"]]

    def midway(request: dict[str, Any]) -> Iterator[int]:
        yield 1
        raise ValueError("half way")

    agent.start()
    agent.rpc_handler("echo")(fail)
    (answer,), error = node.ended(node.ask("echo", {"how": "plain"}))
    assert error is None and answer.header.status == "error"
    assert answer.header.error == {"code": "agent_error", "text": "no such sku"}
    assert any(record.exc_info for record in caplog.records), "the traceback is logged"
    (answer,), _ = node.ended(node.ask("echo", {"how": "own"}))
    assert answer.header.error == {"code": "out_of_stock", "text": "none left", "sku": 7}
    agent.rpc_handler("echo")(midway)
    parts, _ = node.ended(node.ask("echo", {}))
    assert [p.header.status for p in parts] == ["ok", "error"]
    agent.rpc_handler("echo")(lambda request: {"not": object()})
    (answer,), _ = node.ended(node.ask("echo", {}))
    assert answer.header.status == "error" and "cannot be written as JSON" in answer.header.error["text"]

    def long_text(request: dict[str, Any]) -> None:
        raise ValueError("ß" * 10_000)

    agent.rpc_handler("echo")(long_text)
    (answer,), _ = node.ended(node.ask("echo", {}))
    assert answer.header.error["code"] == "agent_error" and answer.header.error["text"].startswith("ßßß")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x" * 100_000 + "\ud800"), Unspeakable(), agent_reach.AgentError("c", "t", details={"a": object()}),
        agent_reach.AgentError("c" * 9999, "\x01" * 9999, details={"a": "\ud800"}), agent_reach.TooLarge("\ud800" * 99_999),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_every_failure_becomes_an_answer(node: FakeNode, agent: AgentReachAgent, error: Exception, kind: str) -> None:
    def fail(request: dict[str, Any]) -> None:
        raise error

    async def fail_async(request: dict[str, Any]) -> None:
        raise error

    agent.rpc_handler("echo")(fail if kind == "sync" else fail_async)
    agent.start()
    (answer,), ended = node.ended(node.ask("echo", {}))
    assert ended is None and answer.header.status == "error" and answer.header.error["text"]
    assert len(json.dumps(answer.header.error, ensure_ascii=False).encode()) < 2100
    agent.rpc_handler("echo")(lambda request: 1)
    assert node.ended(node.ask("echo", {}))[1] is None, "the link lives on"


@pytest.mark.parametrize("kind", ["whole", "parts"])
def test_an_answer_that_is_too_large_says_that_it_ran(kind: str) -> None:
    def parts(request: Any) -> Iterator[Any]:
        yield 1
        yield "x" * 200_000

    with FakeNode(max_message=100_000) as node, make(node, capabilities=[ECHO]) as agent:
        agent.rpc_handler("echo")(parts if kind == "parts" else lambda request: "x" * 200_000)
        agent.start()
        _, error = node.ended(node.ask("echo", {}, trace_id="t-1"))
        assert isinstance(error, agent_reach.TooLarge) and error.step == "agent" and error.trace_id == "t-1"
        assert "the handler ran, but its answer of 200" in error.text and "takes 100000" in error.text and "parts" in error.hint


def test_a_fault_of_the_sdk_is_cut(node: FakeNode, agent: AgentReachAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(*_: Any) -> None:
        raise RuntimeError("x" * 100_000 + "\ud800")

    agent.start()
    assert agent._core
    monkeypatch.setattr(agent._core.dispatcher, "begin", begin)
    _, error = node.ended(node.ask("echo", {}))
    assert error and "a fault in the agent's SDK: RuntimeError('xxx" in error.text and len(error.text) < 1100


def test_more_than_the_limit_is_overloaded(node: FakeNode, agent: AgentReachAgent) -> None:
    release = threading.Event()
    agent.rpc_handler("echo")(lambda request: release.wait(10))
    agent.start()
    running = [node.ask("echo", {}) for _ in range(2)]
    _, error = node.ended(node.ask("echo", {}))
    assert isinstance(error, agent_reach.Overloaded) and error.retry_after == 1.0
    release.set()
    for call in running:
        parts, error = node.ended(call)
        assert error is None and [p.payload for p in parts] == [b"true"]


def test_cancel_reaches_the_handler(node: FakeNode, agent: AgentReachAgent) -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def slow(request: dict[str, Any]) -> None:
        try:
            started.set()
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    agent.rpc_handler("echo")(slow)
    agent.start()
    call = node.ask("echo", {})
    assert started.wait(5)
    node.loop.call(node.links[0].send(frames.encode(frames.CANCEL, call)))
    parts, error = node.ended(call)
    assert (parts, error) == ([], None)
    assert cancelled.wait(5)


def test_deadlines_end_calls(node: FakeNode, agent: AgentReachAgent) -> None:
    async def slow(request: dict[str, Any]) -> None:
        await asyncio.sleep(30)

    agent.rpc_handler("echo")(slow)
    agent.start()
    began = time.monotonic()
    _, error = node.ended(node.ask("echo", {}, remaining_ms=300))
    assert isinstance(error, agent_reach.Timeout) and time.monotonic() - began < 2


def test_unknown_targets_do_not_run(node: FakeNode, agent: AgentReachAgent) -> None:
    agent.start()
    for values in ({"target": "nothing.known"}, {"target": "echo", "target_agent": "somebody-else"}):
        _, error = node.ended(node.ask(payload={}, **values))  # type: ignore[arg-type]
        assert isinstance(error, agent_reach.NoRoute)


def test_a_stalled_reader_costs_bounded_memory(node: FakeNode, agent: AgentReachAgent) -> None:
    made: list[int] = []

    def endless(request: dict[str, Any]) -> Iterator[str]:
        while True:
            made.append(1)
            yield "x" * 10_000

    agent.rpc_handler("echo")(endless)
    agent.start()
    link = node.links[0]
    link.give_credit = False
    call = node.ask("echo", {}, remaining_ms=1500)
    _, error = node.ended(call)
    assert isinstance(error, agent_reach.Timeout)
    assert len(made) * 10_000 < 2 * node.window, "it stopped when the window was full"
    (answer,), _ = node.ended(node.ask("other", 5))
    assert answer.payload == b"5", "others go on meanwhile"


def test_calls_inside_a_handler_carry_on(node: FakeNode, agent: AgentReachAgent) -> None:
    node.on_request = echo

    def outer(request: dict[str, Any]) -> Any:
        current = current_request()
        assert current and current.header.trace_id == "t-7" and 0 < current.remaining_sec <= 5
        return agent.call("inner", {"n": 1}, ttl_sec=300)

    async def outer_async(request: dict[str, Any]) -> Any:
        return await agent.call_async("inner", {"n": 1}, ttl_sec=300)

    agent.start()
    for handler in (outer, outer_async):
        agent.rpc_handler("echo")(handler)
        (answer,), error = node.ended(
            node.ask("echo", {}, chain=["first"], trace_id="t-7", traceparent="00-x-y-01", remaining_ms=5000)
        )
        assert error is None and json.loads(answer.payload) == {"n": 1}
        asked = node.of("request")[-1]
        header = asked.envelope.header
        assert (
            header.chain == ("first", "some-caller") and header.trace_id == "t-7" and header.traceparent == "00-x-y-01"
        )
        assert header.ttl_sec <= 5 and asked.hop.remaining_ms <= 5000
    assert current_request() is None


def test_a_circle_ends(node: FakeNode, agent: AgentReachAgent) -> None:
    agent.rpc_handler("echo")(lambda request: agent.call("echo", {}))
    agent.start()
    (answer,), _ = node.ended(node.ask("echo", {}, chain=[f"a{i}" for i in range(16)]))
    assert answer.header.error["code"] == "loop"


def test_blocking_calls_in_async_handlers_are_named(node: FakeNode, agent: AgentReachAgent) -> None:
    async def wrong(request: dict[str, Any]) -> Any:
        return agent.call("inner", {})

    agent.rpc_handler("echo")(wrong)
    agent.start()
    (answer,), _ = node.ended(node.ask("echo", {}))
    assert "_async" in answer.header.error["text"]


def test_stop_inside_a_handler(node: FakeNode, agent: AgentReachAgent) -> None:
    def leave(request: dict[str, Any]) -> str:
        agent.stop()
        return "bye"

    agent.rpc_handler("echo")(leave)
    agent.start()
    (answer,), error = node.ended(node.ask("echo", {}))
    assert error is None and answer.payload == b'"bye"', "what runs is finished"
    node.wait(lambda: node.of("unregister"))
    agent.stop()


def test_drain_finishes_what_runs(node: FakeNode, agent: AgentReachAgent) -> None:
    started, release = threading.Event(), threading.Event()

    def slow(request: dict[str, Any]) -> str:
        started.set()
        release.wait(10)
        return "done"

    agent.rpc_handler("echo")(slow)
    agent.start()
    call = node.ask("echo", {})
    assert started.wait(5)
    stopping = threading.Thread(target=agent.stop)
    stopping.start()
    node.wait(lambda: node.of("unregister"))
    deadline = time.monotonic() + 5
    while True:  # what comes in after unregister was answered certainly does not run
        _, error = node.ended(node.ask("other", {}))
        if isinstance(error, agent_reach.Unreachable):
            break
        assert time.monotonic() < deadline
    release.set()
    (answer,), error = node.ended(call)
    assert error is None and answer.payload == b'"done"'
    stopping.join(5)
    assert not stopping.is_alive()


def test_declared_without_handler_is_refused(node: FakeNode) -> None:
    agent = make(node, capabilities=[ECHO])
    with pytest.raises(ValueError, match="no rpc_handler for echo"):
        agent.start()
    with pytest.raises(ValueError, match="not among the declared"):
        agent.rpc_handler("ecco")
    agent.rpc_handler("*")(lambda request: "any")
    agent.start()
    (answer,), _ = node.ended(node.ask("echo", {}))
    assert answer.payload == b'"any"'
    agent.stop()


def test_available_capabilities_are_told(node: FakeNode, agent: AgentReachAgent) -> None:
    agent.start()
    agent.set_available(["other"])
    node.wait(lambda: node.of("heartbeat"))
    assert json.loads(node.of("heartbeat")[0].envelope.payload)["capabilities"] == ["other"]
