"""Asks for stock: in one piece, many at once, in parts, directly. Run inventory_agent.py first."""

import asyncio
from typing import Any

from agent_reach import AgentError, AgentReachAgent

with AgentReachAgent("order-processing-agent", "./keys/order_agent_ed25519.pem", capabilities=[]) as client:
    print(client.call("stock.query", {"sku": "SKU-88213"}, ttl_sec=30))
    try:
        client.call("stock.query", {"sku": "SKU-0"})
    except AgentError as e:
        print(e.code, "-", e.text)

    async def many() -> list[Any]:
        return await asyncio.gather(*(client.call_async("stock.query", {"sku": "SKU-10007"}) for _ in range(10)))

    print(len(asyncio.run(many())), "answers at once")
    for line in client.stream("stock.list"):
        print("part", line)
    print(
        client.call("stock.query", {"sku": "SKU-88213"}, direct=True), "directly, or over the node where nobody listens"
    )
