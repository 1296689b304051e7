package main

import (
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
)

// messageFlags are the parts of a message that a user can set, beside target and payload.
type messageFlags struct {
	caller       callerFlags
	agent        string
	priority     int
	trace        string
	conversation string
}

const payloadHelp = `The payload is JSON: as an argument, - for standard input, @FILE for a file; without one, no payload is sent.`

func (f *messageFlags) add(cmd *cobra.Command, toAgent bool) {
	f.caller.add(cmd)
	if toAgent {
		cmd.Flags().StringVar(&f.agent, "agent", "", "ask only the agent with this id; the capability may then be left out")
	}
	cmd.Flags().IntVar(&f.priority, "priority", envelope.DefaultPriority, "1 (most urgent) to 9")
	cmd.Flags().StringVar(&f.trace, "trace-id", "", "trace_id, to be found in the logs (default the msg_id)")
	cmd.Flags().StringVar(&f.conversation, "conversation", "", "conversation_id: with select_mode hash, the same one finds the same agent")
}

// message makes the sealed message that the arguments ask for.
func (p *program) message(c *client, kind envelope.MsgType, f *messageFlags, args []string) (*envelope.Envelope, error) {
	target, text, err := f.split(args)
	if err != nil {
		return nil, err
	}
	payload, err := p.payload(text)
	if err != nil {
		return nil, err
	}
	return c.sealed(envelope.Header{
		MsgType: kind, TargetCapability: target, TargetAgent: f.agent, TraceID: f.trace, Priority: f.priority, ConversationID: f.conversation,
	}, payload)
}

// split tells the capability from the payload. With --agent a single argument is the payload if it looks like one.
func (f *messageFlags) split(args []string) (capability, payload string, err error) {
	if len(args) > 0 && !(f.agent != "" && len(args) == 1 && isPayload(args[0])) {
		capability, args = args[0], args[1:]
	}
	if capability == "" && f.agent == "" {
		return "", "", local("no capability and no agent to ask").WithHint("agent-reach capabilities lists what there is")
	}
	if len(args) > 0 {
		payload = args[0]
	}
	return capability, payload, nil
}

func isPayload(arg string) bool {
	return arg == "-" || strings.HasPrefix(arg, "@") || jsontext.Value(arg).IsValid()
}

// payload reads the JSON that an argument stands for.
func (p *program) payload(arg string) ([]byte, error) {
	text, from := []byte(arg), "the argument"
	var err error
	switch {
	case arg == "":
		return nil, nil
	case arg == "-":
		from = "standard input"
		text, err = io.ReadAll(io.LimitReader(p.in, maxAnswer))
	case arg[0] == '@':
		from = arg[1:]
		text, err = os.ReadFile(from)
	}
	if err != nil {
		return nil, local("payload: %v", err)
	}
	v := jsontext.Value(strings.TrimSpace(string(text)))
	if !v.IsValid() {
		return nil, local("the payload in %s is not JSON", from).WithHint(`quote it for the shell: '{"sku": "SKU-88213"}'`)
	}
	return v, nil
}
