package metrics

import "github.com/agent-reach/agent-reach/envelope"

// The closed lists that labels are taken from.
var (
	msgTypes = []envelope.MsgType{
		envelope.Request, envelope.Response, envelope.Heartbeat, envelope.Broadcast,
		envelope.Register, envelope.Unregister, envelope.Cancel,
	}
	states = []envelope.State{
		envelope.Pending, envelope.Available, envelope.Suspect, envelope.Draining, envelope.Unavailable,
	}
	steps = map[envelope.Step]bool{
		envelope.StepDecode: true, envelope.StepSize: true, envelope.StepClock: true, envelope.StepSeal: true,
		envelope.StepSeen: true, envelope.StepPermission: true, envelope.StepResolve: true, envelope.StepCheck: true,
		envelope.StepChoose: true, envelope.StepForward: true, envelope.StepQueue: true, envelope.StepDeliver: true,
		envelope.StepAnswer: true, envelope.StepRegister: true, envelope.StepLink: true, envelope.StepKey: true,
		envelope.StepTicket: true, envelope.StepConfig: true, envelope.StepCall: true,
	}
)
