// Package schema checks payloads against the JSON Schemas that agents declare for their capabilities: 2020-12, and older
// drafts where $schema says so. It is the only user of github.com/santhosh-tekuri/jsonschema.
//
//	schema ──survey──▶ bearable ──library──▶ resolved, valid ──builder──▶ rules ──weigh──▶ Schema
//	        size, depth,         $ref, $id, anchors,           a graph             in place: no cycle,
//	        numbers              metaschema                                        no bomb
//
//	payload ──decode──▶ tree ──checker──▶ nil, or the places that do not fit
//	         JSON, no name twice   steps counted
//
// A Store shares one compiled Schema among all who declare the same bytes.
//
// # Strangers write both
//
// Schemas and payloads come from other people's agents. Nothing is ever fetched for a $ref, from anywhere; what it names
// must be in the schema, or be a metaschema of json-schema.org, which the library carries. Formats are asserted (see
// format.go; an unknown one accepts everything), content keywords are not. Patterns are RE2.
//
// The library compiles but does not evaluate, because its evaluator has no budget: it takes no step limit, keeps an error for
// every wrong item until the end (200 MB for 1 MB of payload), sums lists of lists so that unequal ones collide
// (uniqueItems then takes quadratic time) and expands exponents. The checker here gives the same verdicts, and bounds:
//
//   - in place, on one value, a schema may apply maxExpansion subschemas, counted along its references, or it is not
//     registered;
//   - from level to level work cannot multiply, since the outcome of every shared rule at every value is remembered: it is
//     at most the rules times the values, whatever refers to what;
//   - numbers are compared as written, and never expanded;
//   - every check has maxSteps, about a second, whatever was overlooked. A payload that needs more gets TooLarge.
//
// # Errors
//
// Compile: Malformed and TooLarge at step register. Check: SchemaError at step check with at most 32 places and how many
// more, which quote the schema and the payload's names, never its strings; TooLarge. A Store also returns Internal for an id
// that it does not hold.
package schema
