package vectors

import (
	"strings"

	"github.com/agent-reach/agent-reach/envelope"
)

func keys() []keyCase {
	var cases []keyCase
	for i, name := range []string{"sender", "stranger", "node"} {
		key := seedKey(byte(i + 1)).Public()
		seed := strings.Repeat(string(rune(i+1)), 32)
		cases = append(cases, keyCase{name, encode64([]byte(seed)), key.String(), key.Fingerprint()})
	}
	return cases
}

func publicKeys() []publicKeyCase {
	good := sender.Public().String()
	raw := func(b ...byte) string { return encode64(append(make([]byte, 0, 32), b...)) }
	point := func(first, middle, last byte) string {
		b := []byte{first}
		for len(b) < 31 {
			b = append(b, middle)
		}
		return raw(append(b, last)...)
	}
	return []publicKeyCase{
		{"good", good, ok},
		{"empty", "", "malformed"},
		{"without padding", good[:43], "malformed"},
		{"with a newline", good + "\n", "malformed"},
		{"with a newline inside", good[:20] + "\n" + good[20:], "malformed"},
		{"with a space", " " + good, "malformed"},
		{"unused bits set", good[:42] + nextLetter(good[42]) + "=", "malformed"},
		{"URL alphabet", strings.Repeat("-_", 21) + "A=", "malformed"},
		{"31 bytes", raw(make([]byte, 31)...), "malformed"},
		{"33 bytes", raw(make([]byte, 33)...), "malformed"},
		{"small order: y = 0", point(0, 0, 0), "malformed"},
		{"small order: y = 0, sign bit", point(0, 0, 0x80), "malformed"},
		{"small order: y = 1", point(1, 0, 0), "malformed"},
		{"small order: y = 1, sign bit", point(1, 0, 0x80), "malformed"},
		{"small order: y = -1", point(0xec, 0xff, 0x7f), "malformed"},
		{"small order: y = -1, sign bit", point(0xec, 0xff, 0xff), "malformed"},
		{"small order: y = p", point(0xed, 0xff, 0x7f), "malformed"},
		{"small order: y = p + 1", point(0xee, 0xff, 0xff), "malformed"},
		{"small order: 8", "JuiVj8KyJ7BFw/SJ8u+Y8NXfrAXTxjM5sTgCiG1T/AU=", "malformed"},
		{"small order: 8, sign bit", "JuiVj8KyJ7BFw/SJ8u+Y8NXfrAXTxjM5sTgCiG1T/IU=", "malformed"},
		{"small order: 8, the other", "xxdqcD1N2E+6PAt2DRBnDyogU/osOczGTsf9d5KsA3o=", "malformed"},
		{"small order: 8, the other, sign bit", "xxdqcD1N2E+6PAt2DRBnDyogU/osOczGTsf9d5KsA/o=", "malformed"},
	}
}

// keyFiles lists the files in keys/, which hold the sender's key unless they hold none. They were made once: OpenSSH files
// contain random salt.
func keyFiles() []keyFileCase {
	key := sender.Public().String()
	return []keyFileCase{
		{"pkcs8.pem", "", key, ok},
		{"pkcs8.pem", "not needed", key, ok},
		{"pkcs8-crlf.pem", "", key, ok},
		{"pkcs8-openssl.pem", "", key, ok},
		{"openssh", "", key, ok},
		{"openssh-passphrase", "correct horse", key, ok},
		{"openssh-passphrase", "", "", "malformed"},
		{"openssh-passphrase", "wrong horse", "", "malformed"},
		{"openssh-ecdsa", "", "", "malformed"},
		{"pkcs8-p256.pem", "", "", "malformed"},
		{"pkcs8-encrypted.pem", "correct horse", "", "malformed"},
		{"public.pem", "", "", "malformed"},
		{"cut.pem", "", "", "malformed"},
		{"empty.pem", "", "", "malformed"},
	}
}

func codes() []codeCase {
	var cases []codeCase
	for _, c := range []envelope.Code{
		envelope.Malformed, envelope.TooLarge, envelope.BadSeal, envelope.UnknownAgent, envelope.ClockSkew, envelope.Expired, envelope.Forbidden,
		envelope.SchemaError, envelope.NoRoute, envelope.Conflict, envelope.Duplicate, envelope.Overloaded, envelope.Unreachable, envelope.Timeout,
		envelope.AgentFailed, envelope.Loop, envelope.Unsupported, envelope.Internal,
	} {
		cases = append(cases, codeCase{c, c.HTTPStatus(), c.NotRun()})
	}
	return cases
}
