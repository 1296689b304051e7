package seen

import (
	"fmt"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// maxTTL is the most of a message's ttl that counts for how long it is admitted.
const maxTTL = 300 * time.Second

// longestWindow is how long after its timestamp a message can be admitted at most.
const longestWindow = maxTTL + envelope.ClockTolerance

// CheckClock admits a message while
//
//	timestamp - 120 s <= now <= timestamp + min(ttl, 300 s) + 120 s
//
// Errors: ClockSkew before, Expired after, with the measured offset.
func CheckClock(h *envelope.Header, now time.Time) error {
	age := now.Sub(h.Timestamp.Time)
	if age < -envelope.ClockTolerance {
		return envelope.Errorf(envelope.ClockSkew, envelope.StepClock,
			"the clock of %s is ahead of this node's: timestamp_utc is %v in the future; %v is tolerated",
			h.SourceAgent, -seconds(age), envelope.ClockTolerance).
			WithHint("set both clocks by NTP; measured offset %v", offset(age))
	}
	ttl := min(h.TTL(), maxTTL)
	if age > ttl+envelope.ClockTolerance {
		return envelope.Errorf(envelope.Expired, envelope.StepClock,
			"message is %v old; with its ttl_sec it was good for %v, and %v more for differing clocks", seconds(age), ttl, envelope.ClockTolerance).
			WithHint("send it again with a new timestamp_utc; if it was just made, a clock is off: set both by NTP; measured offset %v", offset(age))
	}
	return nil
}

// offset is how the sender's clock stands to this one's if the message took no time: positive is ahead.
func offset(age time.Duration) string { return fmt.Sprintf("%+.1f s", -age.Seconds()) }

func seconds(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
