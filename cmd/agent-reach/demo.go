package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

func newDemoCommand() *cobra.Command {
	var python, article string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show three teams' agents finding and calling each other; one is killed and no caller notices",
		Long: `Starts a node, two inventory agents, an order agent and a contract-review agent as processes of their own on this machine's
loopback, lets them call each other, kills one with kill -9 in the middle, and tells what happened. Nothing is left running and no
file is left behind. The last line is "demo: ok".`,
		Example: "  agent-reach demo\n  agent-reach demo --python .venv/bin/python --article test/scenario/article",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Minute)
			defer cancel()
			return runDemo(ctx, cmd.OutOrStdout(), python, article)
		},
	}
	cmd.Flags().StringVar(&python, "python", "", "a Python with the SDK installed: also runs the published article's agents")
	cmd.Flags().StringVar(&article, "article", "", "the folder of the article's agents")
	cmd.MarkFlagsRequiredTogether("python", "article")
	return cmd
}

// story is a demo under way.
type story struct {
	*stage
	out     io.Writer
	began   time.Time
	article string
	caller  *sdk.Agent
	replica *actor // the inventory agent that will die
}

func runDemo(ctx context.Context, out io.Writer, python, article string) error {
	stage, err := newStage(python)
	if err != nil {
		return err
	}
	defer stage.close()
	s := &story{stage: stage, out: out, began: time.Now(), article: article}
	chapters := []func(context.Context) error{s.startNode, s.attachTeams, s.callByCapability, s.callByID, s.refusals, s.killOne}
	if python != "" {
		chapters = append(chapters, s.runArticle)
	}
	for _, chapter := range chapters {
		if err := chapter(ctx); err != nil {
			return fmt.Errorf("demo failed: %w", err)
		}
	}
	stage.close()
	s.tell("all processes have ended")
	fmt.Fprintln(out, "demo: ok")
	return nil
}

// tell prints one line with the time since the start.
func (s *story) tell(format string, args ...any) {
	fmt.Fprintf(s.out, "%6.2fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func (s *story) startNode(ctx context.Context) error {
	node, err := s.start("node", s.self, []string{"--role", "router_and_registry", "--config", "config.yaml"})
	if err != nil {
		return err
	}
	if err := node.says(ctx, "gossip sync complete"); err != nil {
		return err
	}
	s.tell("a node is up at %s", s.node)
	return s.ready(ctx)
}

func (s *story) attachTeams(ctx context.Context) error {
	for _, a := range [][2]string{
		{"inventory", "inventory-agent-1"}, {"inventory", "inventory-agent-2"}, {"order", "order-agent"}, {"legal", "legal-review-agent-01"},
	} {
		actor, err := s.start(a[1], s.self, []string{"demo-agent", a[0], a[1]})
		if err != nil {
			return err
		}
		if err := actor.says(ctx, "agent registered"); err != nil {
			return err
		}
		if a[1] == "inventory-agent-1" {
			s.replica = actor
		}
		s.tell("%s attached (pid %d)", a[1], actor.cmd.Process.Pid)
	}
	var err error
	s.caller, err = sdk.New("demo-caller", sdk.WithNode(s.node), sdk.WithLogger(slog.New(slog.DiscardHandler)))
	return err
}

// callByCapability goes through two agents: the second asks for a capability itself.
func (s *story) callByCapability(ctx context.Context) error {
	buyer, err := sdk.New("demo-buyer", sdk.WithNode(s.node), sdk.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer buyer.Close()
	var got orderState
	began := time.Now()
	if err := buyer.Call(ctx, "order.place", order{"SKU-88213", 3}, &got); err != nil {
		return err
	}
	if !got.Accepted || got.InStock != 42 {
		return fmt.Errorf("order.place answered %+v", got)
	}
	s.tell("order.place, by capability: accepted; the order agent asked stock.query itself, %d in stock  (%s)", got.InStock, ms(began))
	return nil
}

func (s *story) callByID(ctx context.Context) error {
	var got review
	began := time.Now()
	err := s.caller.Call(ctx, "contract.clause_check", contract{"… with unlimited liability …"}, &got, sdk.ToAgent("legal-review-agent-01"))
	if err != nil {
		return err
	}
	if got.Risk != "high" {
		return fmt.Errorf("contract.clause_check answered %+v", got)
	}
	s.tell("contract.clause_check, by id: risk %s  (%s)", got.Risk, ms(began))
	return nil
}

func (s *story) refusals(ctx context.Context) error {
	for _, r := range []struct {
		what string
		code envelope.Code
		call func() error
	}{
		{"a payload without sku", envelope.SchemaError, func() error {
			return s.caller.Call(ctx, "stock.query", map[string]int{"amount": 1}, nil)
		}},
		{"a caller that may not", envelope.Forbidden, func() error {
			return s.caller.Call(ctx, "order.place", order{"SKU-1", 1}, nil)
		}},
		{"a replayed message", envelope.Duplicate, func() error {
			id := fmt.Sprintf("replay-%d", time.Now().UnixNano())
			if err := s.caller.Call(ctx, "stock.query", stockQuery{"SKU-1"}, nil, sdk.MsgID(id)); err != nil {
				return err
			}
			return s.caller.Call(ctx, "stock.query", stockQuery{"SKU-1"}, nil, sdk.MsgID(id))
		}},
	} {
		err := r.call()
		if !errors.Is(err, r.code) {
			return fmt.Errorf("%s: got %v, want %s", r.what, err, r.code)
		}
		s.tell("%s is refused: %s", r.what, firstSentence(err))
	}
	return nil
}

// killOne calls twenty times and kills one of the two replicas in the middle.
func (s *story) killOne(ctx context.Context) error {
	const calls, killAt = 20, 7
	answers := map[string]int{}
	var slowest time.Duration
	for i := range calls {
		if i == killAt {
			s.tell("kill -9 inventory-agent-1 (pid %d), after %d of %d calls", s.replica.cmd.Process.Pid, i, calls)
			go s.replica.kill()
		}
		began := time.Now()
		r, err := s.caller.Do(ctx, sdk.Call{Capability: "stock.query", Input: stockQuery{"SKU-88213"}})
		if err != nil {
			return fmt.Errorf("call %d of %d: %w", i+1, calls, err)
		}
		answers[r.Agent]++
		slowest = max(slowest, time.Since(began))
	}
	<-s.replica.ended
	s.tell("%d calls, %d answers: inventory-agent-1 %d, inventory-agent-2 %d; the slowest took %.1f ms",
		calls, answers["inventory-agent-1"]+answers["inventory-agent-2"], answers["inventory-agent-1"], answers["inventory-agent-2"], float64(slowest.Microseconds())/1000)
	s.caller.Close()
	return nil
}

// runArticle runs the published article's own Python code: one agent served over HTTP, one caller.
func (s *story) runArticle(ctx context.Context) error {
	article, err := filepath.Abs(s.article)
	if err != nil {
		return err
	}
	inventory, err := s.start("inventory_agent.py", s.python, []string{filepath.Join(article, "inventory_agent.py")})
	if err != nil {
		return err
	}
	if err := inventory.says(ctx, "agent registered"); err != nil {
		return err
	}
	s.tell("the article's inventory_agent.py attached, served over HTTP (pid %d)", inventory.cmd.Process.Pid)
	caller, err := s.start("order_agent.py", s.python, []string{filepath.Join(article, "order_agent.py")})
	if err != nil {
		return err
	}
	if err := caller.says(ctx, "42"); err != nil {
		return err
	}
	s.tell("the article's order_agent.py printed: %s", caller.lastLine())
	return nil
}

func (a *actor) lastLine() string {
	<-a.ended
	if len(a.tail) == 0 {
		return ""
	}
	return a.tail[len(a.tail)-1]
}

func ms(since time.Time) string {
	return fmt.Sprintf("%.1f ms", float64(time.Since(since).Microseconds())/1000)
}

func firstSentence(err error) string {
	text, _, _ := strings.Cut(err.Error(), " (")
	return text
}
