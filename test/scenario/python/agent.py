"""An agent for the scenario tests: agent.py ID [--http PORT] [--limit N] [--shift SECONDS] NAME=BEHAVIOUR[:EFFECT] …

Behaviours:
  echo    answers with what it was asked
  empty   answers with nothing in the form that the payload's "form" names: object, null, string or bytes
  hold    prints "running MSG_ID RUNS", and answers {"runs": RUNS} when it reads "release" from standard input
  relay   calls the capability "to" with "payload" and gives its answer on; an error of it becomes its own
"""

import argparse
import sys
import threading
import time

options = argparse.ArgumentParser()
options.add_argument("id")
options.add_argument("offers", nargs="+")
options.add_argument("--http", type=int, default=0)
options.add_argument("--limit", type=int, default=10)
options.add_argument("--heartbeat", type=int, default=30)
options.add_argument("--shift", type=float, default=0.0)
given = options.parse_args()

if given.shift:
    right = time.time
    time.time = lambda: right() + given.shift  # this process's clock is wrong, from before the SDK is loaded

from agent_reach import AgentReachAgent, current_request  # noqa: E402

offers = dict(offer.split("=") for offer in given.offers)
endpoint = {"type": "http", "url": f"http://127.0.0.1:{given.http}/rpc"} if given.http else {"type": "link"}
agent = AgentReachAgent(
    agent_id=given.id,
    private_key_path=f"./{given.id}.pem",
    capabilities=[
        {"name": name, "version": "1.0.0", "effect": behaviour.partition(":")[2] or "unsafe"}
        for name, behaviour in offers.items()
    ],
    endpoint=endpoint,
    heartbeat_interval_sec=given.heartbeat,
    max_concurrent_requests=given.limit,
)
released = threading.Event()
lock = threading.Lock()
runs = 0


def echo(request):
    return request


def empty(request):
    return {"object": {}, "null": None, "string": "", "bytes": b""}[request["form"]]


def hold(request):
    global runs
    with lock:
        runs += 1
        mine = runs
    print(f"running {current_request().header.msg_id} {mine}", flush=True)
    released.wait()
    return {"runs": mine}


def relay(request):
    return agent.call(request["to"], request.get("payload", {}), ttl_sec=30)


BEHAVIOURS = {"echo": echo, "empty": empty, "hold": hold, "relay": relay}
for name, behaviour in offers.items():
    agent.rpc_handler(name)(BEHAVIOURS[behaviour.partition(":")[0]])
agent.start()
for line in sys.stdin:
    if line.strip() == "release":
        released.set()
