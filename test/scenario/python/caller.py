"""A caller for the scenario tests: caller.py ID [--key FILE] [--shift SECONDS].

Each line of standard input is {"number": N, "request": {fields of a call}}; each call runs in a thread of its own, and how it went is
printed as one line.
"""

import argparse
import json
import sys
import threading
import time

options = argparse.ArgumentParser()
options.add_argument("id")
options.add_argument("--key", default="./caller.pem")
options.add_argument("--shift", type=float, default=0.0)
given = options.parse_args()

if given.shift:
    right = time.time
    time.time = lambda: right() + given.shift  # this process's clock is wrong, from before the SDK is loaded

from agent_reach import AgentReachAgent, AgentReachError  # noqa: E402

agent = AgentReachAgent(given.id, given.key, capabilities=[])
printing = threading.Lock()


def call(number, request):
    direct = request.pop("direct", False)
    result = {"number": number, "ok": False}
    try:
        if request.get("msg_type") == "broadcast":
            result["agents"] = [outcome.agent for outcome in agent.broadcast(request) if outcome.ok]
        else:
            response = agent.call_full(request, direct=direct)
            result["agent"] = response.header.source_agent
            if response.payload_bytes:
                result["payload"] = json.loads(response.payload_bytes)
        result["ok"] = True
    except AgentReachError as e:
        result |= {"code": e.code, "text": e.text, "hint": e.hint}
    with printing:
        print(json.dumps(result), flush=True)


for line in sys.stdin:
    one = json.loads(line)
    threading.Thread(target=call, args=(one["number"], one["request"]), daemon=True).start()
agent.stop(0)
