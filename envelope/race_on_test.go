//go:build race

package envelope_test

// race: bcrypt, which passphrases go through, and a few hundred thousand hashes take minutes under the race detector.
const race = true
