package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// program is what all subcommands share.
type program struct {
	in   io.Reader
	out  io.Writer
	err  io.Writer
	json bool // --json
}

// run carries out one command line and returns the exit code. The first SIGINT or SIGTERM ends its context.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // so that a second one ends the program at once
	p := &program{in: in, out: out, err: errs}
	root := p.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	p.json = p.json || slices.Contains(args, "--json") // it may stand behind a flag that could not be read
	return p.report(err)
}

func (p *program) root() *cobra.Command {
	root := p.runCommand()
	root.SuggestionsMinimumDistance = 2
	root.PersistentFlags().BoolVar(&p.json, "json", false, "print JSON, one value on each line, and errors as {\"error\": {…}}")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = onlyCommands
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return local("%v", err).WithHint("%s --help", cmd.CommandPath())
	})
	root.AddGroup(
		&cobra.Group{ID: "talk", Title: "Ask agents:"},
		&cobra.Group{ID: "look", Title: "See who is there:"},
		&cobra.Group{ID: "keep", Title: "Keep a node:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("talk", p.callCommand(), p.broadcastCommand(), p.lookupCommand(), p.explainCommand())
	add("look", p.agentsCommand(), p.capabilitiesCommand(), newDemoCommand())
	add("keep", p.attachCommand(), p.keysCommand(), p.configCommand(), p.versionCommand())
	root.AddCommand(newDemoAgentCommand())
	return root
}

// onlyCommands is for a command that is followed by another one, or by nothing.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	e := local("%s: no such command: %.60q", cmd.CommandPath(), args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return e.WithHint("did you mean %s?", strings.Join(near, " or "))
	}
	return e.WithHint("%s --help lists them", cmd.CommandPath())
}

// arguments checks the number of arguments, and says what they are where it is wrong.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		return local("%s takes %s, not %d", cmd.CommandPath(), counted(least, most), len(args)).
			WithHint("%s; quote JSON as one argument: '{\"sku\": \"A\"}'", strings.TrimSpace(cmd.UseLine()))
	}
}

func counted(least, most int) string {
	if least == most {
		return plural(least, "argument", "arguments")
	}
	return fmt.Sprintf("%d to %d arguments", least, most)
}
