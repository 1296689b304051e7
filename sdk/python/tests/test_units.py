"""The parts that need no node: keys, JSON, addresses, memory of ids, logging, requests."""

from __future__ import annotations

import logging
import os
import pickle
import random
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import agent_reach
from agent_reach import AgentReachAgent, _json, frames, keys
from agent_reach._ask import make_ask
from agent_reach._author import encode_payload, error_object
from agent_reach._context import CURRENT, Request
from agent_reach._outbox import Outbox, Stream
from agent_reach.address import parse_address, parse_addresses
from agent_reach.envelope import check_header, check_id, check_window, decode_header, format_time, parse_time
from agent_reach.errors import CODES, AgentReachError, cut, error_from_object
from agent_reach.seal import MAX_LEAVES, Verifier, leaf_of, path_length, seal_from_bytes, seal_from_object, seal_leaves
from agent_reach.seen import Seen

# keys


def test_a_missing_key_is_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / "new" / "folder" / "agent.pem"
    key = keys.load_or_create(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and b"BEGIN PRIVATE KEY" in file.read_bytes()
    assert keys.load_or_create(file).public == key.public
    assert os.listdir(file.parent) == ["agent.pem"], "nothing is left aside"
    assert f"private key generated, file={file}" in caplog.messages


def test_one_of_many_makers_wins(tmp_path: Path) -> None:
    file = tmp_path / "agent.pem"
    barrier, found = threading.Barrier(8), []

    def make() -> None:
        barrier.wait()
        found.append(keys.load_or_create(file).public)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and os.listdir(tmp_path) == ["agent.pem"]


def test_with_a_passphrase(tmp_path: Path) -> None:
    pytest.importorskip("bcrypt")
    file = tmp_path / "agent.pem"
    key = keys.load_or_create(file, "correct horse")
    assert keys.load(file, "correct horse").public == key.public
    with pytest.raises(agent_reach.KeyFileError, match="wrong passphrase"):
        keys.load(file, "wrong")
    with pytest.raises(agent_reach.KeyFileError, match="private_key_passphrase"):
        keys.load(file)


def test_private_keys_do_not_print(tmp_path: Path) -> None:
    key = keys.generate()
    agent = AgentReachAgent("a", private_key_path=tmp_path / "a.pem")
    for text in (repr(key), str(key), f"{key}", repr(agent), repr(agent._settings), str(vars(agent))):
        assert "PRIVATE" not in text.upper() or "redacted" in text
    assert "redacted" in repr(key)
    with pytest.raises(TypeError):
        pickle.dumps(key)


def test_an_open_key_file_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "agent.pem"
    keys.load_or_create(file)
    file.chmod(0o644)
    keys.load(file)
    assert any("can be read by others" in message for message in caplog.messages)


# JSON


@pytest.mark.parametrize(
    "text", [b'{"a":1}', b' { "a" : [1 , 2] , "b" : null } ', '{"文":"件"}'.encode(), b"{}", b'{"a":{"a":1}}']
)
def test_spans_are_exact(text: bytes) -> None:
    for name, span in _json.members(text).items():
        assert span.raw in text and _json.loads(span.raw) == span.value == _json.loads(text)[name]


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"{}{}", b'{"a":1,"a":2}', b'{"a":1,}', b"{,}", b'{"a" 1}', b'{a:1}', b"[]", b"null", b"\xff", b"\xef\xbb\xbf{}",
     b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":"\\ud800"}', b'{"a":01}', b'{"a":"\t"}', b'{"a":[1 2]}'],
)  # fmt: skip
def test_what_is_not_strict_is_refused(text: bytes) -> None:
    with pytest.raises(agent_reach.Malformed):
        _json.members(text)


def test_depth_is_bounded() -> None:
    assert _json.loads(b"[" * 400 + b"]" * 400)
    text = b'"' + b"[" * 20_000 + b'"'
    assert _json.loads(text) == "[" * 20_000, "brackets in a text are no nesting"
    for deep in (b"[" * 501 + b"]" * 501, b"[" * 100_000, b'{"a":' * 100_000):
        with pytest.raises(agent_reach.Malformed):
            _json.loads(deep)


def test_any_bytes_decode_or_are_malformed() -> None:
    """What decodes gives members that stand in the text; nothing else is raised, whatever comes in."""
    rng = random.Random(7)
    seed = b'{"version":"3.0","msg_id":"m-1","chain":["a"],"x":[1,{"y":"\\u00e9"}],"n":null}'
    for _ in range(5000):
        data = bytearray(seed)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(b'{}[]",:\\u0a1\xff ')
        try:
            for span in _json.members(bytes(data)).values():
                assert span.raw in data
        except agent_reach.Malformed:
            pass
        try:
            decode_header(bytes(data))
        except AgentReachError as e:
            assert e.code in ("malformed", "unsupported", "loop")


# envelopes, seals


def test_any_seal_bytes_decode_to_themselves_or_are_malformed() -> None:
    rng = random.Random(8)
    for _ in range(2000):
        data = (
            rng.randbytes(64)
            + bytes([0, rng.randint(0, 3), 0, rng.randint(0, 4)])
            + rng.randbytes(32 * rng.randint(0, 3) + rng.randint(0, 1))
        )
        try:
            seal = seal_from_bytes(data)
        except agent_reach.Malformed:
            continue
        assert seal and seal.to_bytes() == data and seal_from_object(seal.to_object()) == seal


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 64, 100, 255, 256])
def test_batches_prove_each_message_alone(count: int) -> None:
    key = keys.generate()
    messages = [(b"{%d}" % i, b"p%d" % i) for i in range(count)]
    seals = seal_leaves(key, [leaf_of(*m) for m in messages])
    verifier = Verifier()
    for i, (message, seal) in enumerate(zip(messages, seals)):
        assert len(seal.path) == path_length(i, count)
        assert verifier.check(key.public, *message, seal)
        assert not verifier.check(key.public, message[0], b"other", seal)
        assert not verifier.check(keys.generate().public, *message, seal)
    with pytest.raises(ValueError):
        seal_leaves(key, [bytes(32)] * (MAX_LEAVES + 1))


def test_times() -> None:
    now = 1_780_000_000.123
    assert parse_time(format_time(now)) == pytest.approx(now, abs=0.001)


@pytest.mark.parametrize("id", ["", "a b", "аgent", "a\u202eb", "a/b", "-a", "a" * 129, "a\n"])
def test_bad_ids_name_the_character(id: str) -> None:
    with pytest.raises(agent_reach.Malformed) as caught:
        check_id(id, "agent_id")
    assert str(caught.value).isascii()


def header(**values: Any) -> agent_reach.Header:
    given = {
        "msg_id": "m",
        "msg_type": "request",
        "source_agent": "a",
        "target_agent": "b",
        "timestamp_utc": format_time(1e9),
    }
    return check_header({**given, **values})


def test_the_window_of_admission() -> None:
    for now, ttl in ((1e9 - 119, 60), (1e9 + 179, 60), (1e9 + 419, 86400)):
        check_window(header(ttl_sec=ttl), now)
    with pytest.raises(agent_reach.ClockSkew, match="180 s ahead.*NTP"):
        check_window(header(), 1e9 - 180)
    for now, ttl in ((1e9 + 181, 60), (1e9 + 421, 86400)):
        with pytest.raises(agent_reach.Expired):
            check_window(header(ttl_sec=ttl), now)


def test_seen_never_forgets_into_a_second_run() -> None:
    seen = Seen(limit=100)
    for i in range(1000):
        message = header(msg_id=f"m{i}", timestamp_utc=format_time(1e9 + i * 0.1))
        seen.check(message)
        seen.accept(message, 1e9)
    for i in range(1000):
        with pytest.raises((agent_reach.Duplicate, agent_reach.Expired)):
            seen.check(header(msg_id=f"m{i}", timestamp_utc=format_time(1e9 + i * 0.1)))
    seen.check(header(msg_id="m0", source_agent="another", timestamp_utc=format_time(1e9 + 100)))
    assert len(seen._known) <= 100


# errors


def test_errors_travel_whole() -> None:
    error = agent_reach.Overloaded(
        "full", step="queue", hint="later", trace_id="t", retry_after=1.5, places=[agent_reach.Place("/a", "b")]
    )
    again = error_from_object(error.to_object())
    assert type(again) is agent_reach.Overloaded and vars(again) == vars(error)
    assert pickle.loads(pickle.dumps(error)).retry_after == 1.5
    own = agent_reach.AgentError("mine", "text", details={"a": 1})
    assert vars(pickle.loads(pickle.dumps(own))) == vars(own)
    problem = {
        "type": "urn:agent-reach:error:no_route",
        "title": "no agent",
        "status": 404,
        "detail": "nobody",
        "code": "no_route",
    }
    assert error_from_object(problem).text == "nobody" and isinstance(error_from_object(problem), agent_reach.NoRoute)
    assert len(CODES) == 16


def test_what_an_error_says_does_not_act_on_a_terminal() -> None:
    text = "\x1b]0;owned\x07\x1b[2J\r\x00\x7f\x9b\u202eé 文\t1\n2\ud800😀"
    for error in (agent_reach.AgentError("c\x1b", text), agent_reach.Malformed(text, hint=text, places=[agent_reach.Place(text, text)])):
        assert error.text == text, "whole for programs"
        said = str(error)
        assert all(c.isprintable() or c in "\n\t" for c in said)
        assert r"\u001b]0;owned\u0007\u001b[2J\u000d\u0000\u007f\u009b\u202eé 文" in said and "\t1\n2\\ud800😀" in said
    for long in ("x" * 1_000_000, "\n" * 10_000, "\x1b" * 10_000, "a\n" * 10_000):
        error = agent_reach.AgentError("c" * 1_000, long)
        said = str(error)
        assert error.text == long and len(said) < 1_500 and said.count("\n") < 30 and said.endswith("…")
    assert str(agent_reach.AgentError("out_of_stock", "none\nleft")) == "out_of_stock at agent: none\nleft"


@pytest.mark.parametrize("text", ["x", "x" * 100_000 + "\ud800", "\ud800" * 5000, "\x01" * 100_000, "文" * 50_000, ""])
def test_whatever_an_error_says_fits_a_frame(text: str) -> None:
    places = [agent_reach.Place(text, text)] * 40
    error = agent_reach.Malformed(text, step=text, hint=text, trace_id=text, code=text, places=places, retry_after=1.5)
    for frame in frames.Decoder().feed(frames.encode_error(frames.END, 2, error)):
        assert len(frame.body) <= 16 << 10
        again = frames.decode_error(frame.body)
        assert again and again.retry_after == 1.5 and (text != "x" or again.places == error.places)


@pytest.mark.parametrize("code", ["c", "\x01" * 1000, "\ud800", 404, None])
@pytest.mark.parametrize("text", ["x", "x" * 100_000 + "\ud800", "\x01" * 100_000, "文" * 5000, None, 5])
@pytest.mark.parametrize("details", [{}, {"a": "\ud800"}, {"a": object()}, {"a": float("nan")}, {"a": "x" * 2000}, {1: 1, "1": 2}])
def test_whatever_an_agent_says_fits_a_header(code: Any, text: Any, details: Any) -> None:
    members = error_object(agent_reach.AgentError(code, text, details=details))
    assert len(_json.dumps(members)) <= 2048 and _json.loads(_json.dumps(members)) == members
    assert isinstance(members["code"], str) and members["code"] and isinstance(members["text"], str)
    if isinstance(text, str):
        assert members["text"][:200] == text[:200]


def test_cut() -> None:
    assert cut("文文文", 9) == "文文文" and cut("文文文文", 9) == "文文…" and cut("a\ud800", 99) == "a\\ud800"
    assert cut("x" * 100, 10) == "x" * 7 + "…"


# frames


def test_no_frame_over_the_limit_is_made() -> None:
    assert frames.encode(frames.PART, 1, bytes(frames.MAX_BODY))
    with pytest.raises(agent_reach.TooLarge, match="65543, at most 65542"):
        frames.encode(frames.PART, 1, bytes(frames.MAX_BODY + 1))


def test_frames_in_any_pieces() -> None:
    rng = random.Random(9)
    sent = [
        frames.Frame(
            rng.randint(1, 12), rng.randint(0, 15), rng.randint(0, 2**32 - 1), rng.randbytes(rng.randint(0, 3000))
        )
        for _ in range(50)
    ]
    data = b"".join(frames.encode(f.type, f.call, f.body, f.flags) for f in sent)
    decoder, found, at = frames.Decoder(), [], 0
    while at < len(data):
        step = rng.randint(1, 700)
        found += list(decoder.feed(data[at : at + step]))
        at += step
    assert found == sent


def test_hops() -> None:
    hop = frames.Hop(1234, 4, 5, 1)
    assert frames.split_message(frames.message_prefix(hop, 99) + b"rest") == (hop, 99, b"rest")
    longer = bytes((9,)) + b"\x00\x00\x04\xd2\x04\x05\x01??" + b"\x00\x00\x00\x63rest"
    assert frames.split_message(longer) == (hop, 99, b"rest"), "a longer hop is cut"
    with pytest.raises(agent_reach.Malformed):
        frames.split_message(bytes((6,)) + bytes(20))


def test_priorities_and_turns() -> None:
    import asyncio

    async def order() -> list[int]:
        outbox = Outbox(lambda: None)
        for call, priority, size in ((1, 5, 40_000), (3, 5, 40_000), (5, 1, 20_000)):
            outbox.add(Stream(call, frames.MESSAGE, priority, 1 << 20), bytes(size), b"")
        outbox.control(frames.encode(frames.PING, 0, bytes(8)))
        taken = bytearray()
        while batch := outbox.take():
            taken += batch
        return [frame.call for frame in frames.Decoder().feed(bytes(taken))]

    assert asyncio.run(order()) == [0, 5, 5, 1, 3, 1, 3, 1, 3]


# what a caller asks


def test_forms_of_a_request() -> None:
    wanted = {"target_capability": "stock.query", "msg_type": "request"}
    for ask in (
        make_ask(
            "me",
            {"target_capability": "stock.query", "payload": {"sku": 1}, "ttl_sec": 30, "source_agent": "me"},
            agent_reach.NO_PAYLOAD,
            {},
        ),
        make_ask("me", "stock.query", {"sku": 1}, {"ttl_sec": 30}),
        make_ask("me", None, {"sku": 1}, {"target_capability": "stock.query", "ttl_sec": 30, "priority": None}),
    ):
        assert ask.payload == b'{"sku":1}' and 29 < ask.remaining <= 30
        assert {k: v for k, v in ask.values.items() if k != "source_agent"} == wanted
    for bad in ({"ttl_sec": 0}, {"ttl_sec": "5"}, {"timeout": 3}, {"source_agent": "you"}):
        with pytest.raises(agent_reach.Malformed):
            make_ask("me", "stock.query", {}, bad)


def test_nothing_is_asked_when_no_time_is_left() -> None:
    token = CURRENT.set(Request(header(), b"", 0.0, "me"))
    try:
        with pytest.raises(agent_reach.Expired):
            make_ask("me", "stock.query", {}, {})
    finally:
        CURRENT.reset(token)


def test_payloads() -> None:
    assert encode_payload({"文": 1}) == '{"文":1}'.encode()
    assert encode_payload(b' {"a": 1}\n') == b'{"a": 1}', "white space around it would be lost, and the seal with it"
    assert encode_payload(b"") == b"" and encode_payload(None) == b"null"
    for bad in (object(), float("nan"), b"{", "\ud800", {1, 2}):
        with pytest.raises(agent_reach.Malformed):
            encode_payload(bad)


# addresses


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(parse_address("127.0.0.1:7981")) == "http://127.0.0.1:7981"
    assert parse_address("https://node.example").link_url == "wss://node.example:443/v1/link"
    assert parse_address("http://[::1]:7981/").link_url == "ws://[::1]:7981/v1/link"
    assert [str(a) for a in parse_addresses("a:1, http://b:2,,a:1")] == ["http://a:1", "http://b:2"]
    monkeypatch.delenv("AGENT_REACH_NODE", raising=False)
    assert [str(a) for a in parse_addresses(None)] == ["http://127.0.0.1:7981"]
    monkeypatch.setenv("AGENT_REACH_NODE", "x:1,y:2")
    assert len(parse_addresses(None)) == 2
    for bad in ("ftp://a:1", "http://", "a:99999", "http://a:1/path"):
        with pytest.raises(ValueError):
            parse_address(bad)


# logging


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=30)


def test_a_plain_script_sees_the_log_on_stderr(tmp_path: Path) -> None:
    make = "from agent_reach import AgentReachAgent\nAgentReachAgent('a', 'keys/a.pem')\n"
    assert run(make, tmp_path).stderr.count("private key generated") == 1
    configured = "import logging\nlogging.basicConfig(level=logging.WARNING)\n" + make.replace("a.pem", "b.pem")
    assert "private key" not in run(configured, tmp_path).stderr
    later = (
        make.replace("a.pem", "c.pem")
        + "import logging\nlogging.basicConfig(level=logging.INFO)\nAgentReachAgent('a', 'keys/d.pem')\n"
    )
    assert run(later, tmp_path).stderr.count("private key generated") == 2, "once each, never doubled"


def test_bad_endpoints_are_named() -> None:
    with pytest.raises(agent_reach.Unsupported, match="grpc"):
        AgentReachAgent("a", endpoint={"type": "grpc"})
    with pytest.raises(ValueError, match="must be like"):
        AgentReachAgent("a", endpoint={"type": "http"})
    with pytest.raises(agent_reach.Malformed, match="capability name"):
        AgentReachAgent("a", capabilities=[{"name": "Bad Name", "version": "1.0.0"}])


GOOD = {"name": "stock.query", "version": "1.0.0"}


@pytest.mark.parametrize(
    ("kind", "given", "named"),
    [
        (TypeError, {"capability": GOOD}, r"capability is a dict.*\[\{"),
        (TypeError, {"capabilities": "stock.query"}, r"capabilities is a str.*\[\{"),
        (TypeError, {"capability": ["stock.query"]}, r"capability\[0\] is a str"),
        (TypeError, {"capability": 5}, "capability is an int"),
        (ValueError, {"capability": [GOOD, {"version": "1.0.0"}]}, r"capability\[1\] has no name"),
        (ValueError, {"capabilities": [{"name": "stock.query"}]}, r"capabilities\[0\] has no version.*1\.0\.0"),
        (TypeError, {"capability": [{"name": "stock.query", "version": 1.0}]}, r"capability\[0\]'s version is a float"),
        (TypeError, {"capability": [{"name": 5, "version": "1.0.0"}]}, r"capability\[0\]'s name is an int"),
        (ValueError, {"capability": [GOOD], "capabilities": [GOOD]}, "both capability and capabilities"),
        (TypeError, {"heartbeat_interval_sec": "30"}, "heartbeat_interval_sec is a str, '30'.*1 to 86400"),
        (TypeError, {"heartbeat_interval_sec": True}, "heartbeat_interval_sec"),
        (ValueError, {"heartbeat_interval_sec": 0}, "heartbeat_interval_sec is 0.*1 to 86400"),
        (ValueError, {"max_concurrent_requests": 0}, "max_concurrent_requests is 0"),
        (TypeError, {"max_payload_bytes": 1e6}, "max_payload_bytes is a float"),
        (TypeError, {"drain_timeout_sec": "5"}, "drain_timeout_sec is a str"),
        (ValueError, {"drain_timeout_sec": float("nan")}, "drain_timeout_sec is nan"),
        (TypeError, {"display_name": 5}, "display_name is an int"),
        (TypeError, {"endpoint": "http://x"}, r"endpoint is a str.*\{'type': 'http', 'url': 'http://x'\}"),
        (TypeError, {"endpoint": 5}, r"endpoint is an int.*\{'type': 'http'"),
        (TypeError, {"agent_id": 5}, "agent_id is an int"),
        (TypeError, {"node": 7981}, "node is an int.*http://127.0.0.1:7981"),
        (TypeError, {"node": [7981]}, "node is an int.*http://127.0.0.1:7981"),
    ],
)  # fmt: skip
def test_what_an_agent_is_made_of_is_checked(kind: type[Exception], given: dict[str, Any], named: str, tmp_path: Path) -> None:
    file = tmp_path / "a.pem"
    with pytest.raises(kind, match=named):
        AgentReachAgent(**{"agent_id": "a", "private_key_path": file, **given})
    assert not file.exists(), "nothing is made for an agent that is not"


def test_what_is_no_request_is_named() -> None:
    agent = AgentReachAgent("a", handle_signals=False)
    for bad in (5, ["stock.query"], b"stock.query"):
        with pytest.raises(TypeError, match=r"a request is an? (int|list|bytes).*call\("):
            agent.call(bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a capability's name is an int"):
        agent.rpc_handler(5)  # type: ignore[arg-type]
