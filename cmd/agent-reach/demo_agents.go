package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// The demo's agents, as three teams would write them. Each runs in a process of its own: agent-reach demo-agent ROLE ID.

func newDemoAgentCommand() *cobra.Command {
	return &cobra.Command{
		Use: "demo-agent ROLE ID", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			offer, ok := demoRoles[args[0]]
			if !ok {
				return fmt.Errorf("no such role: %s", args[0])
			}
			agent, err := sdk.New(args[1])
			if err != nil {
				return err
			}
			offer(agent)
			return agent.Run(cmd.Context())
		},
	}
}

var demoRoles = map[string]func(*sdk.Agent){
	"inventory": offerStock,
	"order":     offerOrders,
	"legal":     offerReview,
}

type stockQuery struct {
	SKU string `json:"sku"`
}

type stock struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

func offerStock(a *sdk.Agent) {
	a.Handle(sdk.Capability{
		Name: "stock.query", Version: "1.0.0", Effect: envelope.Read,
		InputSchema: sdk.Schema(`{"type":"object","properties":{"sku":{"type":"string"}},"required":["sku"]}`),
	}, sdk.Func(func(_ context.Context, q stockQuery) (stock, error) { return stock{q.SKU, 42}, nil }))
}

type order struct {
	SKU    string `json:"sku"`
	Amount int    `json:"amount"`
}

type orderState struct {
	Accepted bool `json:"accepted"`
	InStock  int  `json:"in_stock"`
}

// offerOrders asks for stock.query, whoever serves it: the order team knows no address and no name of the inventory team.
func offerOrders(a *sdk.Agent) {
	a.Handle(sdk.Capability{
		Name: "order.place", Version: "1.0.0",
		InputSchema: sdk.Schema(`{"type":"object","properties":{"sku":{"type":"string"},"amount":{"type":"integer","minimum":1}},"required":["sku","amount"]}`),
	}, sdk.Func(func(ctx context.Context, o order) (orderState, error) {
		var s stock
		if err := a.Call(ctx, "stock.query", stockQuery{o.SKU}, &s); err != nil {
			return orderState{}, err
		}
		return orderState{s.Quantity >= o.Amount, s.Quantity}, nil
	}))
}

type contract struct {
	Text string `json:"contract_text"`
}

type review struct {
	Issues []string `json:"issues"`
	Risk   string   `json:"risk_level"`
}

func offerReview(a *sdk.Agent) {
	a.Handle(sdk.Capability{
		Name: "contract.clause_check", Version: "2.1.0", Effect: envelope.Read,
		InputSchema: sdk.Schema(`{"type":"object","properties":{"contract_text":{"type":"string"}},"required":["contract_text"]}`),
	}, sdk.Func(func(_ context.Context, c contract) (review, error) {
		if strings.Contains(c.Text, "unlimited liability") {
			return review{[]string{"unlimited liability"}, "high"}, nil
		}
		return review{[]string{}, "low"}, nil
	}))
}
