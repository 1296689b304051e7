package ingress

import (
	"net/http"
	"slices"

	"github.com/Masterminds/semver/v3"

	"github.com/agent-reach/agent-reach/envelope"
)

// offered is one capability, over all agents that declare it.
type offered struct {
	Name        string   `json:"name"`
	Versions    []string `json:"versions"` // the highest first
	Agents      int      `json:"agents"`
	Available   int      `json:"available"`            // agents that would get a call now
	Description string   `json:"description,omitzero"` // of the highest version
	Tags        []string `json:"tags,omitempty"`       // likewise
}

// capabilityList is one page.
type capabilityList struct {
	Capabilities []offered `json:"capabilities"`
	Next         string    `json:"next,omitzero"` // ?after= of the next page; absent on the last
}

// listCapabilities is GET /v1/capabilities?limit=&after=.
func (s *Server) listCapabilities(w http.ResponseWriter, r *http.Request) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	out := capabilityList{Capabilities: []offered{}}
	for name, candidates := range s.deps.Directory.Capabilities {
		if name <= page.after {
			continue
		}
		if len(out.Capabilities) == page.limit {
			out.Next = out.Capabilities[page.limit-1].Name
			break
		}
		out.Capabilities = append(out.Capabilities, summary(name, candidates))
	}
	return writeJSON(w, http.StatusOK, &out)
}

func summary(name string, candidates []envelope.Candidate) offered {
	o := offered{Name: name, Agents: len(candidates), Versions: []string{}}
	versions := make(map[string]*envelope.Offer)
	for _, c := range candidates {
		if c.State == envelope.Available && !c.Offer.Off {
			o.Available++
		}
		versions[c.Offer.Version] = c.Offer
	}
	var sorted []*semver.Version
	for _, offer := range versions {
		sorted = append(sorted, offer.Semver)
	}
	slices.SortFunc(sorted, func(a, b *semver.Version) int { return b.Compare(a) })
	for _, v := range sorted {
		o.Versions = append(o.Versions, v.Original())
	}
	if len(sorted) > 0 {
		highest := versions[sorted[0].Original()]
		o.Description, o.Tags = highest.Description, highest.Tags
	}
	return o
}

// nodeView is what this node says of itself.
type nodeView struct {
	NodeID    string             `json:"node_id"`
	PublicKey envelope.PublicKey `json:"public_key"`
	Role      string             `json:"role"`
	Version   string             `json:"version"`   // the program's
	Protocol  string             `json:"protocol"`  // the envelope's version
	Addresses []string           `json:"addresses"` // host:port
}

// nodeList is the nodes that this node can speak for: itself.
type nodeList struct {
	Nodes []nodeView `json:"nodes"`
}

// listNodes is GET /v1/nodes.
func (s *Server) listNodes(w http.ResponseWriter, _ *http.Request) error {
	self := nodeView{
		NodeID: s.cfg.NodeID, PublicKey: s.cfg.Key.Public(), Role: s.cfg.Role, Version: s.cfg.Version,
		Protocol: envelope.Version, Addresses: s.cfg.Addresses,
	}
	if at := s.address.Load(); len(self.Addresses) == 0 && at != nil {
		self.Addresses = []string{*at}
	}
	return writeJSON(w, http.StatusOK, &nodeList{[]nodeView{self}})
}
