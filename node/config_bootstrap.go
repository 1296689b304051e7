package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

const (
	defaultBootstrapFile = "bootstrap.json"
	maxMembers           = 1024
)

// Member is one of a cluster's first nodes. ID and PublicKey are empty for one that only gossip_peers names.
type Member struct {
	ID        string             `json:"id"`      // the fingerprint of PublicKey
	Address   string             `json:"address"` // host:port
	PublicKey envelope.PublicKey `json:"public_key"`
}

// readBootstrap reads the file of the cluster's first members; a file that is not there is a mistake only if it was named.
func readBootstrap(path string, named bool) ([]Member, []mistake) {
	text, err := readBounded(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return nil, nil
	case err != nil:
		return nil, []mistake{{text: fmt.Sprintf("node.bootstrap_file cannot be read: %v", err)}}
	}
	return parseBootstrap(path, text)
}

func parseBootstrap(file string, text []byte) ([]Member, []mistake) {
	var list struct {
		Members []Member `json:"members"`
	}
	if err := json.Unmarshal(text, &list, json.RejectUnknownMembers(true)); err != nil {
		line, reason := jsonMistake(text, err)
		return nil, []mistake{{file, line, reason +
			`; the form is {"members": [{"id": "…", "address": "192.168.1.10:7981", "public_key": "base64"}]}`}}
	}
	if len(list.Members) > maxMembers {
		return nil, []mistake{{file, 0, fmt.Sprintf("%d members; the limit is %d: a few are enough, gossip finds the rest", len(list.Members), maxMembers)}}
	}
	return list.Members, checkMembers(file, list.Members)
}

func checkMembers(file string, members []Member) (mistakes []mistake) {
	ids, addresses := make(map[string]int), make(map[string]int)
	for i, m := range members {
		refuse := func(format string, args ...any) {
			mistakes = append(mistakes, mistake{file, 0, fmt.Sprintf("members[%d]: ", i) + fmt.Sprintf(format, args...)})
		}
		if err := checkAddr(m.Address, false); err != nil {
			refuse(`address %v; write "host:port"`, err)
		}
		switch want := m.PublicKey.Fingerprint(); {
		case m.PublicKey.IsZero():
			refuse("has no public_key; agent-reach keys show prints it")
		case m.ID != want:
			refuse("id is %q, but this public_key belongs to node %s", m.ID, want)
		}
		if first, twice := ids[m.ID]; twice {
			refuse("id %q is that of members[%d] already", m.ID, first)
		}
		if first, twice := addresses[m.Address]; twice {
			refuse("address %q is that of members[%d] already", m.Address, first)
		}
		ids[m.ID], addresses[m.Address] = i, i
	}
	return mistakes
}

// jsonMistake finds the line of a decoding error, and its cause without the library's framing.
func jsonMistake(text []byte, err error) (line int, reason string) {
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	at := int64(0)
	reason = err.Error()
	switch {
	case errors.As(err, &syntax):
		at, reason = syntax.ByteOffset, fmt.Sprintf("not JSON: %v", syntax.Err)
	case errors.As(err, &semantic):
		at = semantic.ByteOffset
		if semantic.Err != nil {
			reason = fmt.Sprintf("%s: %v", semantic.JSONPointer, envelopeText(semantic.Err))
		}
	}
	at = min(max(at, 0), int64(len(text)))
	return 1 + bytes.Count(text[:at], []byte("\n")), reason
}

func envelopeText(err error) string {
	var e *envelope.Error
	if errors.As(err, &e) {
		return e.Text
	}
	return err.Error()
}
