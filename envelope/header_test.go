package envelope_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// decodeHeader decodes a request whose members are replaced by the given text.
func decodeHeader(members string) (envelope.Header, error) {
	e, _, err := envelope.Decode([]byte(`{"envelope":{`+members+`}}`), 0)
	if err != nil {
		return envelope.Header{}, err
	}
	return e.Header, nil
}

const plain = `"version":"3.0","msg_id":"m-1","msg_type":"request","source_agent":"a","target_agent":"b","timestamp_utc":"2025-06-05T06:12:33Z"`

// TestErrorsOfHeader: test/vectors says what is refused; here is what is said about it.
func TestErrorsOfHeader(t *testing.T) {
	replace := func(old, now string) string {
		if !strings.Contains(plain, old) {
			t.Fatal(old)
		}
		return strings.Replace(plain, old, now, 1)
	}
	for members, words := range map[string][]string{
		"":                      {"malformed", "version is missing", `"3.0"`},
		replace(`"3.0"`, `"4"`): {"unsupported", `version is "4"`, `this node speaks "3.0"`},
		replace(`"3.0"`, `3`):   {"malformed", `"/version": a number where a string is wanted`},
		replace(`"m-1"`, `""`):  {"malformed", "msg_id is empty", "1 to 128"},
		replace(`"m-1"`, `"`+strings.Repeat("x", 129)+`"`):                          {"malformed", "msg_id is 129 bytes long; the limit is 128"},
		replace(`"m-1"`, `"m 1"`):                                                   {"malformed", "msg_id has the character ' ' (U+0020) at byte 1", "printable ASCII"},
		replace(`"request"`, `"Request"`):                                           {"malformed", `msg_type is "Request"`, "heartbeat"},
		replace(`"request"`, `"\u0433equest"`):                                      {"malformed", `"\u0433equest"`},
		replace(`"request"`, `"broadcast"`):                                         {"malformed", "a broadcast needs target_capability"},
		replace(`"request"`, `"register"`):                                          {"malformed", "a register needs to_node"},
		replace(`"request"`, `"cancel"`):                                            {"malformed", "a cancel needs in_reply_to"},
		replace(`"target_agent":"b",`, ``):                                          {"malformed", "a request needs target_capability or target_agent"},
		replace(`2025-06-05T06:12:33Z`, `yesterday`):                                {"malformed", "/timestamp_utc", `"yesterday" is no RFC 3339 time such as`},
		replace(`33Z`, `33+08:00`):                                                  {"malformed", "/timestamp_utc", "not in UTC", "with Z"},
		replace(`,"timestamp_utc":"2025-06-05T06:12:33Z"`, ``):                      {"malformed", "timestamp_utc is missing", "for example"},
		plain + `,"ttl_sec":0`:                                                      {"malformed", "ttl_sec is 0; it must be 1 to 86400"},
		plain + `,"ttl_sec":1.5`:                                                    {"malformed", `"/ttl_sec": the number "1.5" where an integer is wanted`},
		plain + `,"ttl_sec":"60"`:                                                   {"malformed", `"/ttl_sec": a string where an integer is wanted`},
		plain + `,"priority":10`:                                                    {"malformed", "priority is 10; it must be 1 (most urgent) to 9"},
		plain + `,"persistent":1`:                                                   {"malformed", `"/persistent": a number where true or false is wanted`},
		plain + `,"chain":{}`:                                                       {"malformed", `"/chain": an object where an array is wanted`},
		plain + `,"chain":["a","b c"]`:                                              {"malformed", "chain[1] has the character ' '"},
		plain + `,"msg_id":"m-2"`:                                                   {"malformed", "duplicate", `"msg_id"`},
		plain + `,"target_capability":"a@>1"`:                                       {"malformed", `version range ">1" of a`, "@^1.2"},
		plain + `,"target_capability":"A"`:                                          {"malformed", "target_capability has the character 'A' (U+0041) at byte 0", "small letters"},
		plain + `,"x":"` + strings.Repeat("x", 4096):                                {"malformed"},
		replace(`"request"`, `"response"`):                                          {"malformed", "a response needs in_reply_to"},
		replace(`"request"`, `"response"`) + `,"in_reply_to":"m-0","status":"good"`: {"malformed", `status is "good"; it must be ok or error`},
	} {
		_, err := decodeHeader(members)
		want(t, err, envelope.Code(words[0]), words[1:]...)
	}
	chain := `,"chain":["` + strings.Repeat(`a","`, 16) + `a"]`
	_, err := decodeHeader(plain + chain + `,"trace_id":"t-9"`)
	want(t, err, envelope.Loop, "chain has 17 agents; the limit is 16", "circle", "t-9")
	_, err = decodeHeader(plain + `,"x":"` + strings.Repeat("x", 4096) + `"`)
	want(t, err, envelope.TooLarge, "header is", "the limit is 4096", "payload")
}

// TestForeignTextInErrorsIsShort: an error is no way to make a node write megabytes.
func TestForeignTextInErrorsIsShort(t *testing.T) {
	long := strings.Repeat("\u0436", 1900)
	for _, member := range []string{"msg_type", "version", "status", "timestamp_utc", "target_capability", "source_agent", "ttl_sec", "\u0436" + long[:800]} {
		_, err := decodeHeader(fmt.Sprintf(`"version":"3.0","msg_id":"m","msg_type":"response","in_reply_to":"m","source_agent":"a",`+
			`"timestamp_utc":"2025-06-05T06:12:33Z","%s":"%s"`, member, long))
		if err == nil || len(err.Error()) > 1500 {
			t.Errorf("%.20s: %.200v", member, err)
		}
	}
}

func TestTimestamps(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2025-06-05T06:12:33Z":           at.Time,
		"2025-06-05T06:12:33+00:00":      at.Time,
		"2025-06-05T06:12:33.000000001Z": at.Add(1),
		"2024-02-29T00:00:00.5Z":         time.Date(2024, 2, 29, 0, 0, 0, 5e8, time.UTC),
	} {
		h, err := decodeHeader(strings.Replace(plain, "2025-06-05T06:12:33Z", text, 1))
		ok(t, err)
		if !h.Timestamp.Equal(want) || h.Timestamp.Location() != time.UTC {
			t.Errorf("%s is read as %v", text, h.Timestamp)
		}
	}
}
