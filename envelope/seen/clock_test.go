package seen

import (
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestCheckClock(t *testing.T) {
	for _, c := range []struct {
		name string
		ttl  int
		age  time.Duration
		code envelope.Code // empty: admitted
	}{
		{"now", 60, 0, ""},
		{"sender 120 s ahead", 60, -120 * time.Second, ""},
		{"sender more ahead", 60, -120*time.Second - time.Nanosecond, envelope.ClockSkew},
		{"sender a day ahead", 60, -24 * time.Hour, envelope.ClockSkew},
		{"ttl over", 60, 61 * time.Second, ""},
		{"ttl and tolerance just not over", 60, 180 * time.Second, ""},
		{"ttl and tolerance over", 60, 180*time.Second + time.Nanosecond, envelope.Expired},
		{"short ttl", 1, 121 * time.Second, ""},
		{"short ttl over", 1, 122 * time.Second, envelope.Expired},
		{"long ttl", 300, 420 * time.Second, ""},
		{"longest ttl counts as 300", 86400, 420 * time.Second, ""},
		{"longest ttl over", 86400, 421 * time.Second, envelope.Expired},
		{"year 1", 60, time.Duration(1<<63 - 1), envelope.Expired},
	} {
		h := header("m", start)
		h.TTLSec = c.ttl
		err := CheckClock(h, start.Add(c.age))
		switch {
		case c.code == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.code != "":
			want(t, err, c.code)
		}
	}
}

// TestClockErrorsSaySo (case 36): the offset, the word clock and the word NTP stand in both.
func TestClockErrorsSaySo(t *testing.T) {
	for age, offset := range map[time.Duration]string{-200 * time.Second: "+200.0 s", 500 * time.Second: "-500.0 s", -24 * time.Hour: "+86400.0 s"} {
		text := CheckClock(header("m", start), start.Add(age)).Error()
		for _, word := range []string{"clock", "NTP", "measured offset " + offset} {
			if !strings.Contains(text, word) {
				t.Errorf("%q lacks %q", text, word)
			}
		}
	}
}
