// Package schema checks payloads against the JSON Schemas (2020-12) that agents declare for their capabilities.
package schema
