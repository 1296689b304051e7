"""Everything through a real node, with agents in processes of their own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from real_node import Program, RealNode, build, free_port, wait_for

import agent_reach
from agent_reach import AgentReachAgent, current_request

pytestmark = pytest.mark.node

STOCK = {
    "name": "stock.query",
    "version": "1.0.0",
    "input_schema": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]},
    "output_schema": {"type": "object"},
}
ANY = {"name": "any.thing", "version": "1.2.0"}

INVENTORY = """
    import os, time
    from agent_reach import AgentReachAgent
    agent = AgentReachAgent(agent_id=os.environ.get("ID", "inventory-query-agent"),
        private_key_path="./keys/" + os.environ.get("ID", "inventory") + ".pem",
        capability=[{"name": "stock.query", "version": "1.0.0",
                     "input_schema": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]},
                     "output_schema": {"type": "object"}}],
        endpoint={"type": "http", "url": os.environ["URL"]} if "URL" in os.environ else None,
        heartbeat_interval_sec=30)
    @agent.rpc_handler("stock.query")
    def handle_stock_query(request: dict) -> dict:
        if request["sku"] == "slow":
            print("slow began", flush=True)
            time.sleep(1.5)
        return {"sku": request["sku"], "quantity": 42}
    agent.start()
    print("started", flush=True)
"""


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("bin"))


@pytest.fixture(scope="module")
def node(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    real = RealNode(binary, tmp_path_factory.mktemp("node")).start()
    yield real
    real.end()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Starts programs, and ends those that are left."""
    programs: list[Program] = []

    def start(code: str, node: RealNode | str, **environment: str) -> Program:
        address = node if isinstance(node, str) else node.url
        programs.append(Program(tmp_path, code, AGENT_REACH_NODE=address, **environment))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()


@pytest.fixture
def agents(node: RealNode) -> Iterator[Callable[..., AgentReachAgent]]:
    made: list[AgentReachAgent] = []

    def make(agent_id: str, capabilities: Any = (), **more: Any) -> AgentReachAgent:
        more.setdefault("node", node.url)
        made.append(AgentReachAgent(agent_id, capabilities=capabilities, handle_signals=False, **more))
        return made[-1]

    yield make
    for agent in made:
        agent.stop(1)


def test_the_articles_two_programs(node: RealNode, run: Callable[..., Program]) -> None:
    agent = run(INVENTORY, node, URL=f"http://127.0.0.1:{free_port()}/rpc")
    line = agent.wait_line("agent registered")
    assert line.endswith("agent registered, id=inventory-query-agent, capability_count=1")
    agent.wait_line("started")
    client = run(
        """
        from agent_reach import AgentReachAgent
        client_agent = AgentReachAgent(agent_id="order-processing-agent", private_key_path="./keys/order_agent_ed25519.pem",
                                       capabilities=[])
        def check_stock(sku: str):
            request = {"msg_type": "request", "source_agent": "order-processing-agent", "target_capability": "stock.query",
                       "payload": {"sku": sku}, "ttl_sec": 30}
            return client_agent.call(request)
        if __name__ == "__main__":
            result = check_stock("SKU-88213")
            print("库存查询结果:", result)
        """,
        node,
    )
    code, text = client.finish()
    assert code == 0 and "库存查询结果: {'sku': 'SKU-88213', 'quantity': 42}" in text
    assert "private key generated" in text and "PRIVATE KEY" not in text
    shown = json.loads(node.get("/v1/agents/inventory-query-agent")[1])
    assert shown["state"] == "available"
    agent.process.send_signal(signal.SIGTERM)
    code, text = agent.finish()
    assert code == 0 and "Traceback" not in text and "Exception" not in text


def test_link_agent_in_another_process(
    node: RealNode, run: Callable[..., Program], agents: Callable[..., AgentReachAgent]
) -> None:
    agent = run(INVENTORY, node, ID="linked-01")
    agent.wait_line("started")
    client = agents("order-a")
    assert client.call("stock.query", {"sku": "a"}, target_agent="linked-01") == {"sku": "a", "quantity": 42}
    response = client.call_full(target_capability="stock.query@^1", payload={"sku": "b"}, target_agent="linked-01")
    assert (
        response.agent == "linked-01" and response.payload["sku"] == "b" and response.header.target_agent == "order-a"
    )


def test_async_and_streaming_handlers(agents: Callable[..., AgentReachAgent]) -> None:
    names = ["async.plain", "sync.stream", "async.stream", "empty.stream"]
    server = agents("server-async", [{"name": name, "version": "1.0.0"} for name in names])

    @server.rpc_handler("async.plain")
    async def plain(request: dict[str, Any]) -> Any:
        await asyncio.sleep(0.01)
        return {"doubled": 2 * request["n"]}

    @server.rpc_handler("sync.stream")
    def sync_stream(request: dict[str, Any]) -> Iterator[int]:
        yield from range(request["n"])

    @server.rpc_handler("async.stream")
    async def async_stream(request: dict[str, Any]) -> AsyncIterator[dict[str, int]]:
        for i in range(request["n"]):
            yield {"i": i}

    @server.rpc_handler("empty.stream")
    def empty(request: dict[str, Any]) -> Iterator[int]:
        yield from ()

    server.start()
    client = agents("client-async")
    assert client.call("async.plain", {"n": 4}) == {"doubled": 8}
    assert list(client.stream("sync.stream", {"n": 200})) == list(range(200))
    assert list(client.stream("empty.stream", {})) == []

    async def more() -> list[Any]:
        return [item async for item in client.stream_async("async.stream", {"n": 5})]

    assert asyncio.run(more()) == [{"i": i} for i in range(5)]


@pytest.mark.parametrize("payload", [b"", b"{}", b"null", b'""'])
@pytest.mark.parametrize("kind", ["link", "http"])
def test_empty_answers(agents: Callable[..., AgentReachAgent], payload: bytes, kind: str) -> None:
    endpoint = {"type": "http", "url": f"http://127.0.0.1:{free_port()}/"} if kind == "http" else None
    name = f"server-empty-{kind}-{payload.hex()}"
    server = agents(name, [ANY], endpoint=endpoint)
    server.rpc_handler("any.thing")(lambda request: payload)
    server.start()
    response = agents(f"client-{name}").call_full("any.thing", {}, target_agent=name)
    assert response.payload_bytes == payload and response.header.status == "ok"


def test_errors_are_typed(agents: Callable[..., AgentReachAgent]) -> None:
    server = agents("server-errors", [{**STOCK, "name": "errors.query"}, {"name": "errors.fail", "version": "1.0.0"}])
    server.rpc_handler("errors.query")(lambda request: request)

    @server.rpc_handler("errors.fail")
    def fail(request: dict[str, Any]) -> None:
        if request.get("own"):
            raise agent_reach.AgentError("out_of_stock", "none left", details={"sku": "x"})
        raise ValueError("no such thing")

    server.start()
    client = agents("client-errors")
    with pytest.raises(agent_reach.SchemaInvalid) as invalid:
        client.call("errors.query", {"sku": 7}, trace_id="trace-invalid")
    assert (
        invalid.value.places and invalid.value.places[0].pointer == "/sku" and invalid.value.trace_id == "trace-invalid"
    )
    with pytest.raises(agent_reach.SchemaInvalid):
        client.call("errors.query", {})
    with pytest.raises(agent_reach.NoRoute):
        client.call("nobody.does.this", {})
    with pytest.raises(agent_reach.Unsupported):
        client.call({"target_capability": "errors.query", "payload": {"sku": "a"}, "persistent": True})
    with pytest.raises(agent_reach.AgentError) as plain:
        client.call("errors.fail", {})
    assert (plain.value.code, plain.value.text) == ("agent_error", "no such thing")
    with pytest.raises(agent_reach.AgentError) as own:
        client.call("errors.fail", {"own": True})
    assert (own.value.code, own.value.text, own.value.details) == ("out_of_stock", "none left", {"sku": "x"})
    with pytest.raises(agent_reach.Malformed, match="no field 'ttl'"):
        client.call("errors.query", {}, ttl=3)
    client.call("errors.query", {"sku": "once"}, msg_id="the-same")
    with pytest.raises((agent_reach.Duplicate, agent_reach.Conflict)):
        client.call("errors.query", {"sku": "twice"}, msg_id="the-same")


def test_no_error_text_cuts_the_link(agents: Callable[..., AgentReachAgent]) -> None:
    server = agents("server-texts", [{"name": "texts.fail", "version": "1.0.0"}])

    @server.rpc_handler("texts.fail")
    def fail(request: dict[str, Any]) -> None:
        raise ValueError(request["n"] * "x" + "\ud800")

    server.start()
    client = agents("client-texts")
    for n in (0, 10, 5_000, 100_000):
        with pytest.raises(agent_reach.AgentError) as failed:
            client.call("texts.fail", {"n": n})
        assert failed.value.code == "agent_error" and failed.value.text.startswith("x" * min(n, 1_000)), n
        assert len(failed.value.text) <= 1024


def test_timeouts(agents: Callable[..., AgentReachAgent]) -> None:
    server = agents("server-slow", [{"name": "slow.thing", "version": "1.0.0"}])
    runs: list[int] = []

    @server.rpc_handler("slow.thing")
    async def slow(request: dict[str, Any]) -> None:
        runs.append(1)
        await asyncio.sleep(30)

    server.start()
    began = time.monotonic()
    with pytest.raises(agent_reach.Timeout):
        agents("client-slow").call("slow.thing", {}, ttl_sec=1)
    assert time.monotonic() - began < 3 and runs == [1], "a slow call runs once"


def test_calls_inside_a_handler_carry_on(agents: Callable[..., AgentReachAgent]) -> None:
    seen: list[Any] = []
    inner = agents("chain-inner", [{"name": "chain.inner", "version": "1.0.0"}])
    outer = agents("chain-outer", [{"name": "chain.outer", "version": "1.0.0"}])

    @inner.rpc_handler("chain.inner")
    def handle_inner(request: dict[str, Any]) -> str:
        seen.append(current_request())
        return "in"

    @outer.rpc_handler("chain.outer")
    def handle_outer(request: dict[str, Any]) -> str:
        return "out-" + str(outer.call("chain.inner", {}))

    inner.start()
    outer.start()
    assert agents("chain-client").call("chain.outer", {}, trace_id="trace-7", ttl_sec=5) == "out-in"
    header = seen[0].header
    assert header.chain == ("chain-client",) and header.source_agent == "chain-outer" and header.trace_id == "trace-7"
    assert header.ttl_sec <= 5 and seen[0].remaining_sec <= 5


def test_a_circle_ends_at_once(agents: Callable[..., AgentReachAgent]) -> None:
    agent = agents("circle", [{"name": "circle.turn", "version": "1.0.0"}], max_concurrent_requests=1)

    @agent.rpc_handler("circle.turn")
    def turn(request: dict[str, Any]) -> Any:
        return agent.call("circle.turn", {})

    agent.start()
    began = time.monotonic()
    with pytest.raises(agent_reach.AgentReachError) as caught:
        agents("circle-client").call("circle.turn", {}, ttl_sec=20)
    assert caught.value.code == "loop" and time.monotonic() - began < 5


def test_64_calls_at_once(agents: Callable[..., AgentReachAgent]) -> None:
    server = agents("server-many", [{"name": "many.echo", "version": "1.0.0"}], max_concurrent_requests=8)
    running, most, lock = [0], [0], threading.Lock()

    @server.rpc_handler("many.echo")
    def handle(request: dict[str, Any]) -> dict[str, Any]:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.01)
        with lock:
            running[0] -= 1
        return request

    server.start()
    client = agents("client-many")

    async def many() -> list[Any]:
        return await asyncio.gather(*(client.call_async("many.echo", {"i": i}) for i in range(64)))

    assert asyncio.run(many()) == [{"i": i} for i in range(64)]
    with ThreadPoolExecutor(64) as pool:
        found = list(pool.map(lambda i: client.call("many.echo", {"i": i}), range(64)))
    assert found == [{"i": i} for i in range(64)]
    assert most[0] <= 8


def test_large_payloads(agents: Callable[..., AgentReachAgent]) -> None:
    for kind in ("link", "http"):
        endpoint = {"type": "http", "url": f"http://127.0.0.1:{free_port()}/"} if kind == "http" else None
        server = agents(f"server-large-{kind}", [{"name": f"large.{kind}", "version": "1.0.0"}], endpoint=endpoint)
        server.rpc_handler(f"large.{kind}")(lambda request: request)
        server.start()
        payload = {"text": "文" * 1_000_000}
        client = agents(f"client-large-{kind}")
        assert client.call(f"large.{kind}", payload) == payload
        server.rpc_handler(f"large.{kind}")(lambda request: "x" * (9 << 20))
        with pytest.raises(agent_reach.TooLarge, match="the (handler|agent) ran"):
            client.call(f"large.{kind}", {})
    with pytest.raises(agent_reach.TooLarge):
        agents("client-too-large").call("large.link", {"text": "x" * (5 << 20)})


def test_broadcast(agents: Callable[..., AgentReachAgent]) -> None:
    for name in ("one", "two", "bad"):
        server = agents(f"cast-{name}", [{"name": "cast.all", "version": "1.0.0"}])

        def handle(request: dict[str, Any], name: str = name) -> str:
            if name == "bad":
                raise ValueError("not today")
            return name

        server.rpc_handler("cast.all")(handle)
        server.start()
    client = agents("cast-client")
    for outcomes in (
        client.broadcast("cast.all", {}),
        client.call({"msg_type": "broadcast", "target_capability": "cast.all", "payload": {}}),
    ):
        found = {o.agent: (o.ok, o.payload) for o in outcomes}
        assert found == {"cast-one": (True, "one"), "cast-two": (True, "two"), "cast-bad": (False, None)}
        bad = next(o for o in outcomes if o.agent == "cast-bad")
        assert isinstance(bad.error, agent_reach.AgentError) and bad.error.text == "not today"


def test_direct_calls(node: RealNode, run: Callable[..., Program], agents: Callable[..., AgentReachAgent]) -> None:
    agent = run(INVENTORY, node, ID="direct-01", URL=f"http://127.0.0.1:{free_port()}/rpc")
    agent.wait_line("started")
    client = agents("direct-client")
    candidates = client.lookup("stock.query", target_agent="direct-01")
    assert [c.agent for c in candidates] == ["direct-01"] and candidates[0].direct and candidates[0].score > 0
    before = node.log().count('"caller":"direct-client"')
    for _ in range(3):
        assert client.call("stock.query", {"sku": "d"}, direct=True, target_agent="direct-01") == {
            "sku": "d",
            "quantity": 42,
        }
    assert node.log().count('"caller":"direct-client"') == before, "the node saw none of these calls"
    client.stop()
    assert "not counted" not in node.log(), "the outcomes were told with tickets that the node takes"
    with pytest.raises(agent_reach.SchemaInvalid):
        agents("direct-client-2").call("stock.query", {"sku": 1}, direct=True, target_agent="direct-01")


def test_direct_falls_back_to_the_node(
    node: RealNode, run: Callable[..., Program], agents: Callable[..., AgentReachAgent]
) -> None:
    linked = run(INVENTORY.replace("stock.query", "fallback.query"), node, ID="fallback-linked")
    listening = run(
        INVENTORY.replace("stock.query", "fallback.query"),
        node,
        ID="fallback-http",
        URL=f"http://127.0.0.1:{free_port()}/rpc",
    )
    linked.wait_line("started")
    listening.wait_line("started")
    client = agents("fallback-client")
    assert client.call("fallback.query", {"sku": "1"}, direct=True)["quantity"] == 42
    listening.kill()
    for i in range(5):
        assert client.call("fallback.query", {"sku": str(i)}, direct=True)["quantity"] == 42


def test_sigterm_finishes_what_runs(
    node: RealNode, run: Callable[..., Program], agents: Callable[..., AgentReachAgent]
) -> None:
    for number, mode in ((signal.SIGTERM, {}), (signal.SIGINT, {"URL": f"http://127.0.0.1:{free_port()}/rpc"})):
        program = run(INVENTORY.replace("stock.query", f"drain.query{number:d}"), node, ID=f"drain-{number:d}", **mode)
        program.wait_line("started")
        client = agents(f"drain-client-{number:d}")
        client.call(f"drain.query{number:d}", {"sku": "first"})
        answers: list[Any] = []
        caller = threading.Thread(target=lambda: answers.append(client.call(f"drain.query{number:d}", {"sku": "slow"})))
        caller.start()
        program.wait_line("slow began")
        program.process.send_signal(number)
        program.wait_line("leaving")
        caller.join(20)
        assert answers == [{"sku": "slow", "quantity": 42}]
        code, text = program.finish()
        assert code == 0 and "Traceback" not in text and "Exception" not in text
        with pytest.raises(agent_reach.NoRoute):
            client.call(f"drain.query{number:d}", {"sku": "a"})


def test_sigterm_while_the_program_does_something_else(node: RealNode, run: Callable[..., Program]) -> None:
    program = run(INVENTORY + "    while True: time.sleep(60)\n", node, ID="busy-main")
    program.wait_line("started")
    program.process.send_signal(signal.SIGTERM)
    code, text = program.finish()
    assert code == 0 and "Traceback" not in text


def test_a_second_sigterm_ends_at_once(
    node: RealNode, run: Callable[..., Program], agents: Callable[..., AgentReachAgent]
) -> None:
    program = run(
        INVENTORY.replace("time.sleep(1.5)", "time.sleep(30)").replace("stock.query", "second.query"), node, ID="second"
    )
    program.wait_line("started")
    client = agents("second-client")
    caller = threading.Thread(
        target=lambda: pytest.raises(agent_reach.AgentReachError, client.call, "second.query", {"sku": "slow"})
    )
    caller.start()
    program.wait_line("slow began")
    program.process.send_signal(signal.SIGTERM)
    program.wait_line("leaving")
    began = time.monotonic()
    program.process.send_signal(signal.SIGTERM)
    code, _ = program.finish()
    assert code == 128 + signal.SIGTERM and time.monotonic() - began < 5
    caller.join(20)


def test_agent_killed_others_answer(
    node: RealNode, run: Callable[..., Program], agents: Callable[..., AgentReachAgent]
) -> None:
    code = INVENTORY.replace("stock.query", "twins.query")
    twins = [run(code, node, ID="twin-1"), run(code, node, ID="twin-2", URL=f"http://127.0.0.1:{free_port()}/rpc")]
    for twin in twins:
        twin.wait_line("started")
    client = agents("twins-client")
    answers = 0
    for i in range(20):
        if i == 5:
            twins[1].kill()
        answers += client.call("twins.query", {"sku": str(i)})["quantity"] == 42
    assert answers == 20


def test_node_restarts(binary: Path, tmp_path: Path, run: Callable[..., Program]) -> None:
    node = RealNode(binary, tmp_path / "restarted").start()
    try:
        program = run(INVENTORY, node)
        program.wait_line("started")
        with AgentReachAgent("restart-client", node=node.url, handle_signals=False) as client:
            assert client.call("stock.query", {"sku": "1"})["quantity"] == 42
            node.end(signal.SIGKILL)
            with pytest.raises(agent_reach.Unreachable):
                client.call("stock.query", {"sku": "2"}, ttl_sec=5)
            node.start()
            program.wait_line("agent registered")

            def answered() -> bool:
                try:
                    return bool(client.call("stock.query", {"sku": "3"})["quantity"] == 42)
                except (agent_reach.NoRoute, agent_reach.Unreachable):
                    return False

            wait_for(answered, "calls succeed again")
    finally:
        node.end()


def test_several_nodes(binary: Path, tmp_path: Path) -> None:
    first, second = RealNode(binary, tmp_path / "first").start(), RealNode(binary, tmp_path / "second").start()
    try:
        with AgentReachAgent(
            "wanderer", capabilities=[ANY], node=[first.url, second.url], heartbeat_interval_sec=1, handle_signals=False
        ) as agent:
            agent.rpc_handler("any.thing")(lambda request: "here")
            agent.start()
            assert first.get("/v1/agents/wanderer")[0] == 200
            first.end(signal.SIGKILL)
            wait_for(lambda: b'"available"' in second.get("/v1/agents/wanderer")[1], "attached to the second node")
            with AgentReachAgent("asker", node=f"{first.url}, {second.url}", handle_signals=False) as client:
                assert client.call("any.thing", {}) == "here"
    finally:
        first.end()
        second.end()


def test_one_id_two_keys(agents: Callable[..., AgentReachAgent]) -> None:
    first = agents("taken", [ANY])
    first.rpc_handler("any.thing")(lambda request: 1)
    first.start()
    second = agents("taken", [ANY])
    second.rpc_handler("any.thing")(lambda request: 2)
    with pytest.raises(agent_reach.Conflict):
        second.start()


def test_a_bad_capability_is_named(agents: Callable[..., AgentReachAgent]) -> None:
    agent = agents("bad-schema", [{"name": "bad.schema", "version": "1.0.0", "input_schema": {"type": "no-such-type"}}])
    agent.rpc_handler("*")(lambda request: None)
    with pytest.raises(agent_reach.AgentReachError) as caught:
        agent.start()
    assert "bad.schema" in str(caught.value)


def test_all_tools_register_as_capabilities(node: RealNode, agents: Callable[..., AgentReachAgent]) -> None:
    file = Path(__file__).parents[4] / "shared" / "data" / "tools-github.json"
    if not file.exists():
        pytest.skip("no tool definitions here")
    tools = json.loads(file.read_text())
    capabilities = [{**tool, "version": "1.0.0"} for tool in tools]
    agent = agents("github", capabilities)

    @agent.rpc_handler("*")
    def handle(request: dict[str, Any]) -> Any:
        current = current_request()
        return current.header.capability if current else None

    agent.start()
    names = {c["name"] for c in capabilities}
    shown = json.loads(node.get("/v1/agents/github")[1])
    assert {c["name"] for c in shown["capabilities"]} == names


def test_an_agent_without_sdk_is_vouched_for(
    node: RealNode, run: Callable[..., Program], agents: Callable[..., AgentReachAgent], tmp_path: Path
) -> None:
    port = free_port()
    server = run(
        f"""
        import json
        from http.server import BaseHTTPRequestHandler, HTTPServer
        class Weather(BaseHTTPRequestHandler):
            def do_GET(self):
                self.do_POST()
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{{}}")
                body = json.dumps({{"city": request.get("city"), "sky": "clear"}}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
        server = HTTPServer(("127.0.0.1", {port}), Weather)
        print("listening", flush=True)
        server.serve_forever()
        """,
        node,
    )
    server.wait_line("listening")
    described = {"agent_id": "weather-01", "capabilities": [{"name": "weather.now", "version": "1.0.0"}]}
    file = tmp_path / "weather.json"
    file.write_text(json.dumps({**described, "endpoint": {"type": "http", "url": f"http://127.0.0.1:{port}/"}}))
    command = [str(node.binary), "attach", str(file), "--node", node.url, "--config", "config.yaml"]
    done = subprocess.run(command, cwd=node.folder, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stdout + done.stderr
    client = agents("weather-client")
    wait_for(lambda: b'"available"' in node.get("/v1/agents/weather-01")[1], "weather-01 available")
    response = client.call_full("weather.now", {"city": "Bern"})
    assert response.payload == {"city": "Bern", "sky": "clear"} and response.header.vouched_by


def test_the_examples(binary: Path, tmp_path: Path, run: Callable[..., Program]) -> None:
    node = RealNode(binary, tmp_path / "examples").start()
    try:
        check_examples(node, run)
    finally:
        node.end()


def check_examples(node: RealNode, run: Callable[..., Program]) -> None:
    folder = Path(__file__).parents[1] / "examples"
    inventory = run((folder / "inventory_agent.py").read_text(), node)
    inventory.wait_line("agent registered")
    code, text = run((folder / "order_agent.py").read_text(), node).finish()
    assert code == 0, text
    assert (
        "unknown_sku - SKU-0 is not in this warehouse" in text
        and "10 answers at once" in text
        and text.count("part {") == 2
    )
