package ingress

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/agent-reach/agent-reach/envelope"
)

// answer writes the parts of an answer: one as a JSON document, several as lines.
//
//	            part              part
//	empty ───────────────▶ held ────────▶ lines      held: the first part waits for a second one, or the end
//	  └── part, and the caller asked for lines ──▶ lines
type answer struct {
	server *Server
	w      http.ResponseWriter
	rc     *http.ResponseController
	asked  bool    // the caller asked for lines
	lines  bool    // they have begun
	held   bool    // buffer holds the first part
	buffer *[]byte // of the server's pool
}

// keptBuffer is the largest buffer that goes back to the pool, in bytes.
const keptBuffer = 256 << 10

func (s *Server) newAnswer(w http.ResponseWriter, r *http.Request) *answer {
	return &answer{
		server: s, w: w, rc: http.NewResponseController(w), asked: wantsLines(r),
		buffer: s.buffers.Get().(*[]byte),
	}
}

// release gives the buffer back; the answer must not be used any more.
func (a *answer) release() {
	if cap(*a.buffer) <= keptBuffer {
		a.server.buffers.Put(a.buffer)
	}
	a.buffer = nil
}

// part takes the next part. Its error means that the caller is gone, or that the part cannot be written as JSON.
func (a *answer) part(e *envelope.Envelope) error {
	if a.held {
		if err := a.flushHeld(); err != nil {
			return err
		}
	}
	doc, err := e.AppendDocument((*a.buffer)[:0], nil)
	if err != nil {
		return notJSON(e, err)
	}
	*a.buffer = doc
	if a.lines || a.asked {
		return a.line()
	}
	a.held = true
	return nil
}

// notJSON: on a link the part would be fine, so it is HTTP's trouble, told as the answer's.
func notJSON(e *envelope.Envelope, err error) error {
	out := *envelope.AsError(err)
	out.Step = envelope.StepAnswer
	return out.WithHint("%s ran and answered; call it over a link to get an answer of any bytes", e.Header.SourceAgent)
}

func (a *answer) flushHeld() error {
	a.held = false
	return a.line()
}

// line writes what is in the buffer as one line and sends it at once.
func (a *answer) line() error {
	*a.buffer = append(*a.buffer, '\n')
	if !a.lines {
		a.lines = true
		a.w.Header().Set("Content-Type", linesType)
		a.w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	hurry(a.w, len(*a.buffer))
	if _, err := a.w.Write(*a.buffer); err != nil {
		return a.gone(err)
	}
	if err := a.rc.Flush(); err != nil {
		return a.gone(err)
	}
	return nil
}

func (a *answer) gone(err error) error {
	return envelope.Errorf(envelope.Timeout, envelope.StepAnswer, "the caller stopped reading its answer: %v", err)
}

// end finishes the answer; err is how the call ended. It returns the error that is still to be told.
func (a *answer) end(err error) error {
	if err != nil && a.held { // a part came before: it is not lost
		if a.flushHeld() != nil {
			return nil
		}
	}
	switch {
	case err != nil && a.lines:
		a.lastWords(envelope.AsError(err))
	case err != nil:
		return err
	case a.held:
		writeBytes(a.w, http.StatusOK, jsonType, *a.buffer)
	case !a.lines:
		return envelope.Errorf(envelope.Internal, envelope.StepAnswer, "the call ended without an answer")
	}
	return nil
}

// lastWords is the line of an answer that failed after it began.
func (a *answer) lastWords(e *envelope.Error) {
	b := append((*a.buffer)[:0], `{"error":`...)
	b = append(b, envelope.MarshalError(e.WithTrace(a.w.Header().Get(traceHeader)))...)
	*a.buffer = append(b, '}')
	_ = a.line() // the caller is gone: nobody to tell
}

// wantsLines reports whether the caller accepts application/x-ndjson with a weight above 0.
func wantsLines(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(accept, ",") {
			kind, params, err := mime.ParseMediaType(one)
			if err != nil || kind != linesType {
				continue
			}
			q, err := strconv.ParseFloat(params["q"], 64)
			return err != nil || q > 0
		}
	}
	return false
}
