package httpagent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
)

const (
	maxProblem    = 64 << 10 // bytes of a problem document
	maxQuoted     = 200      // bytes of a foreign text in a message
	maxSaid       = 1000     // bytes of each text of a problem document
	maxPlaces     = 32
	maxRetryAfter = time.Hour
)

// problem is the agent's problem document as an error.
func (a *Agent) problem(ctx context.Context, resp *http.Response) error {
	b, err := a.body(ctx, resp, maxProblem)
	if err != nil {
		return err
	}
	var p struct {
		Code       envelope.Code    `json:"code"`
		Detail     string           `json:"detail"`
		Hint       string           `json:"hint"`
		RetryAfter int64            `json:"retry_after_ms"`
		Places     []envelope.Place `json:"places"`
	}
	if err := json.Unmarshal(b, &p); err != nil || p.Code.Title() == "" {
		return envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "%s answered HTTP %d with a problem document that cannot be read: %q",
			a.cfg.Agent, resp.StatusCode, clip(string(b), maxQuoted))
	}
	e := envelope.Errorf(p.Code, envelope.StepAnswer, "%s: %s", a.cfg.Agent, clip(p.Detail, maxSaid))
	if p.Code.NotRun() || p.Code == envelope.Duplicate || p.Code == envelope.Conflict {
		e.Step = envelope.StepDeliver
	}
	e.Hint = clip(p.Hint, maxSaid)
	for _, place := range p.Places[:min(len(p.Places), maxPlaces)] {
		e.Places = append(e.Places, envelope.Place{Pointer: clip(place.Pointer, maxSaid), Text: clip(place.Text, maxSaid)})
	}
	e.RetryAfter = bounded(time.Duration(min(p.RetryAfter, maxRetryAfter.Milliseconds())) * time.Millisecond)
	if after, ok := retryAfter(resp, time.Now()); ok && e.RetryAfter == 0 {
		e.RetryAfter = after
	}
	return e
}

// busy is Overloaded if resp says that the request was not taken and when to come again, else nil.
func (a *Agent) busy(resp *http.Response) error {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return nil
	}
	after, ok := retryAfter(resp, time.Now())
	if !ok {
		return nil
	}
	return envelope.Errorf(envelope.Overloaded, envelope.StepDeliver, "%s does not take the request now: %s", a.cfg.Agent, a.described(resp)).WithRetryAfter(after)
}

// retryAfter reads Retry-After: seconds or a date.
func retryAfter(resp *http.Response, now time.Time) (time.Duration, bool) {
	s := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return bounded(time.Duration(n) * time.Second), true
	}
	if at, err := http.ParseTime(s); err == nil {
		return bounded(at.Sub(now)), true
	}
	return 0, false
}

func bounded(d time.Duration) time.Duration { return min(max(d, 0), maxRetryAfter) }

// described says what the agent answered: "HTTP 503 from http://…: first words of the body".
func (a *Agent) described(resp *http.Response) string {
	s := fmt.Sprintf("HTTP %d from %s", resp.StatusCode, a.place)
	if location := resp.Header.Get("Location"); location != "" && resp.StatusCode/100 == 3 {
		return s + fmt.Sprintf(": it redirects to %s, and redirects are not followed; set the url to where the agent is", clip(location, maxQuoted))
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxQuoted))
	if text := clip(string(b), maxQuoted); text != "" {
		s += ": " + text
	}
	return s
}

// clip is the first n bytes of a foreign text, safe to print on one line: UTF-8, and nothing that acts on a terminal.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s[:min(n, len(s))], "\ufffd")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s))
}
