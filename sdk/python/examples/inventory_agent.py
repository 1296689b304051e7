"""An agent that answers stock.query, in one piece and in parts. Run a node first: agent-reach"""

from collections.abc import Iterator
from typing import Any

from agent_reach import AgentError, AgentReachAgent, current_request

STOCK = {"SKU-88213": 42, "SKU-10007": 0}
INPUT = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}

agent = AgentReachAgent(
    agent_id="inventory-query-agent",
    private_key_path="./keys/inventory_agent_ed25519.pem",
    capabilities=[
        {"name": "stock.query", "version": "1.0.0", "effect": "read", "input_schema": INPUT},
        {"name": "stock.list", "version": "1.0.0", "effect": "read"},
    ],
)


@agent.rpc_handler("stock.query")
def query(request: dict[str, Any]) -> dict[str, Any]:
    sku = request["sku"]
    if sku not in STOCK:
        raise AgentError("unknown_sku", f"{sku} is not in this warehouse")
    return {"sku": sku, "quantity": STOCK[sku]}


@agent.rpc_handler("stock.list")
def everything(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    asked = current_request()
    print("listing for", asked.header.source_agent if asked else "nobody")
    for sku, quantity in STOCK.items():
        yield {"sku": sku, "quantity": quantity}


agent.start()
