package schema_test

import (
	"errors"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach/schema"
)

func TestStore(t *testing.T) {
	s := schema.NewStore()
	id, err := s.Add([]byte(`{"type":"object","properties":{"qty":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(id, []byte(`{"qty":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(id, []byte(`{"qty":"x"}`)); !errors.Is(err, envelope.SchemaError) {
		t.Fatal(err)
	}
	s.Drop(id)
	if err := s.Check(id, []byte(`{"qty":1}`)); !errors.Is(err, envelope.Internal) {
		t.Fatal(err)
	}
}
