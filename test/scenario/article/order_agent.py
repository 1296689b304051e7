"""The order agent of the published article: it offers nothing and asks for stock.query, whoever serves it."""

from agent_reach import AgentReachAgent

client_agent = AgentReachAgent(
    agent_id="order-processing-agent",
    private_key_path="./keys/order_agent_ed25519.pem",
    capabilities=[],
)


def check_stock(sku: str):
    request = {
        "msg_type": "request",
        "source_agent": "order-processing-agent",
        "target_capability": "stock.query",
        "payload": {"sku": sku},
        "ttl_sec": 30,
    }
    response = client_agent.call(request)
    return response


if __name__ == "__main__":
    result = check_stock("SKU-88213")
    print("库存查询结果:", result)
