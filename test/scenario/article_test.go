package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/agent-reach/agent-reach/sdk"
)

// articleAgent starts the article's inventory agent. Only its port, id and key file are set, as the article's own variables allow.
func articleAgent(t *testing.T, n *node, id string) *process {
	t.Helper()
	env := []string{"PORT=" + strconv.Itoa(freePort(t)), "AGENT_ID=" + id, "KEY=./keys/" + id + ".pem"}
	return runPython(t, n, env, "article/inventory_agent.py")
}

func TestArticleRunsUnchanged(t *testing.T) {
	n := startNode(t, nil)
	inventory := articleAgent(t, n, "inventory-query-agent")
	inventory.says(t, "agent registered, id=inventory-query-agent, capability_count=1")
	n.says(t, `"msg":"agent registered","id":"inventory-query-agent","capability_count":1`)
	n.awaitState(t, "inventory-query-agent", "available")
	if a := n.agents(t)["inventory-query-agent"]; a.Score != 10 {
		t.Errorf("a fresh agent on the same machine has score %v, not 10.0", a.Score)
	}

	order := runPython(t, n, nil, "article/order_agent.py")
	order.says(t, "库存查询结果: {'sku': 'SKU-88213', 'quantity': 42}")
	if code := order.exit(t); code != 0 {
		t.Errorf("order_agent.py exited with %d", code)
	}

	inventory.signal(t, syscall.SIGTERM)
	if code := inventory.exit(t); code != 0 {
		t.Errorf("inventory_agent.py exited with %d after SIGTERM", code)
	}
	n.awaitState(t, "inventory-query-agent", "")
}

func TestArticleSurvivesAKilledReplica(t *testing.T) {
	n := startNode(t, nil)
	var replicas []*process
	for i := range 2 {
		replicas = append(replicas, articleAgent(t, n, fmt.Sprintf("inventory-%d", i)))
	}
	for i := range replicas {
		n.awaitState(t, fmt.Sprintf("inventory-%d", i), "available")
	}
	caller := newAgent(t, n, "order-processing-agent")
	by := askStock(t, caller, 10)
	replicas[0].kill()
	after := askStock(t, caller, 20)
	if after["inventory-1"] != 20 {
		t.Errorf("20 calls after the kill were answered by %v (10 before it by %v)", after, by)
	}
}

// askStock calls stock.query n times, one after the other, and counts who answered.
func askStock(t *testing.T, caller *sdk.Agent, n int) map[string]int {
	t.Helper()
	ctx, by := short(t), make(map[string]int)
	for i := range n {
		r, err := caller.Do(ctx, sdk.Call{Capability: "stock.query", Input: map[string]string{"sku": "SKU-88213"}})
		if err != nil || !strings.Contains(string(r.Payload), "42") {
			t.Fatalf("call %d of %d: %+v, %v", i+1, n, r, err)
		}
		by[r.Agent]++
	}
	return by
}
