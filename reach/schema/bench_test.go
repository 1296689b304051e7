package schema_test

import (
	"testing"

	"github.com/agent-reach/agent-reach/reach/schema"
)

const orderSchema = `{"type":"object","properties":{
	"order_id":{"type":"string","pattern":"^[A-Z]{2}-[0-9]+$"},
	"qty":{"type":"integer","minimum":1,"maximum":1000},
	"currency":{"enum":["EUR","USD","CHF"]},
	"placed":{"type":"string","format":"date-time"},
	"lines":{"type":"array","maxItems":50,"items":{"type":"object","properties":{"sku":{"type":"string"},"price":{"type":"number","minimum":0}},"required":["sku"]}}},
	"required":["order_id","qty","currency"],"additionalProperties":false}`

const orderPayload = `{"order_id":"EU-20261130","qty":12,"currency":"EUR","placed":"2026-11-30T12:00:00Z","lines":[{"sku":"A-1001 left-hand thread","price":12.50},{"sku":"A-1002 right-hand thread","price":7.25},{"sku":"B-2200 washer, galvanised, box of 100","price":3}]}`

// BenchmarkCheck checks a payload of 248 bytes against a schema of 5 properties.
func BenchmarkCheck(b *testing.B) {
	s, err := schema.Compile([]byte(orderSchema))
	if err != nil {
		b.Fatal(err)
	}
	payload := []byte(orderPayload)
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if err := s.Check(payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schema.Compile([]byte(orderSchema)); err != nil {
			b.Fatal(err)
		}
	}
}
