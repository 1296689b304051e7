"""The inventory agent of the published article: one capability, served over HTTP, attached to a node."""

import os

from agent_reach import AgentReachAgent

PORT = int(os.environ.get("PORT", "9101"))

agent = AgentReachAgent(
    agent_id=os.environ.get("AGENT_ID", "inventory-query-agent"),
    private_key_path=os.environ.get("KEY", "./keys/inventory_agent_ed25519.pem"),
    capability=[
        {
            "name": "stock.query",
            "version": "1.0.0",
            "input_schema": {
                "type": "object",
                "properties": {"sku": {"type": "string"}},
                "required": ["sku"],
            },
            "output_schema": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer"}},
            },
        }
    ],
    endpoint={"type": "http", "url": f"http://127.0.0.1:{PORT}/rpc"},
    heartbeat_interval_sec=30,
)


@agent.rpc_handler("stock.query")
def handle_stock_query(request: dict) -> dict:
    sku = request["sku"]
    return {"sku": sku, "quantity": 42}


agent.start()
