package ingress

import (
	_ "embed"
	"net/http"

	"github.com/agent-reach/agent-reach/envelope"
)

//go:embed openapi.yaml
var openAPI []byte

// operating is what /healthz and /readyz say.
type operating struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitzero"`
}

// health says that the process answers.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, &operating{OK: true})
}

// readiness says whether calls should be sent here.
func (s *Server) readiness(w http.ResponseWriter, _ *http.Request) error {
	if s.leaving.Load() {
		return writeJSON(w, http.StatusServiceUnavailable, &operating{Reason: errLeaving.Text})
	}
	if s.deps.Ready != nil {
		if err := s.deps.Ready(); err != nil {
			return writeJSON(w, http.StatusServiceUnavailable, &operating{Reason: err.Error()})
		}
	}
	return writeJSON(w, http.StatusOK, &operating{OK: true})
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	if s.deps.Metrics == nil {
		return envelope.Errorf(envelope.Unsupported, envelope.StepDecode, "this node keeps no metrics")
	}
	hurry(w, 1<<20)
	s.deps.Metrics.ServeHTTP(w, r)
	return nil
}

func (s *Server) showAPI(w http.ResponseWriter, _ *http.Request) error {
	writeBytes(w, http.StatusOK, "application/yaml", openAPI)
	return nil
}
