package schema

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// decimal is a JSON number, exactly: ±0.digits × 10^exp. digits neither begins nor ends with a zero; it is empty for zero,
// whose other fields are zero too. Equal numbers are equal decimals. Nothing here ever expands an exponent.
type decimal struct {
	negative bool
	digits   string
	exp      int
}

// refuseNumber says why a number is not accepted, "" if it is.
func refuseNumber(raw []byte) string {
	if len(raw) > maxNumber {
		return fmt.Sprintf("a number of %d characters; the limit is %d", len(raw), maxNumber)
	}
	i := bytes.IndexAny(raw, "eE")
	if i < 0 {
		return ""
	}
	exp, err := strconv.Atoi(string(raw[i+1:]))
	if err != nil || exp > maxExponent || exp < -maxExponent {
		return fmt.Sprintf("number %s has an exponent beyond ±%d", cut(string(raw), 32), maxExponent)
	}
	return ""
}

// parseDecimal reads a JSON number that refuseNumber has let pass.
func parseDecimal(raw []byte) decimal {
	s := string(raw)
	s, negative := strings.CutPrefix(s, "-")
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa = s[:i]
		exponent, _ = strconv.Atoi(s[i+1:])
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	significant := strings.TrimLeft(digits, "0")
	exp := exponent + len(whole) - (len(digits) - len(significant))
	significant = strings.TrimRight(significant, "0")
	if significant == "" {
		return decimal{}
	}
	return decimal{negative, significant, exp}
}

// String writes the number plainly if that is short.
func (d decimal) String() string {
	sign := ""
	if d.negative {
		sign = "-"
	}
	n := len(d.digits)
	switch {
	case n == 0:
		return "0"
	case n <= d.exp && d.exp <= 21:
		return sign + d.digits + strings.Repeat("0", d.exp-n)
	case 0 < d.exp && d.exp < n && n <= 32:
		return sign + d.digits[:d.exp] + "." + d.digits[d.exp:]
	case -6 < d.exp && d.exp <= 0 && n <= 32:
		return sign + "0." + strings.Repeat("0", -d.exp) + d.digits
	}
	return fmt.Sprintf("%s0.%se%d", sign, cut(d.digits, 32), d.exp)
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

func (d decimal) compare(e decimal) int {
	if c := cmp.Compare(d.sign(), e.sign()); c != 0 {
		return c
	}
	c := cmp.Compare(d.exp, e.exp)
	if c == 0 {
		c = strings.Compare(d.digits, e.digits)
	}
	if d.negative {
		return -c
	}
	return c
}

func (d decimal) integer() bool { return len(d.digits) <= d.exp || d.digits == "" }

// isInteger reports whether a JSON number has no fraction: 3, 3.0 and 30e-1 have none.
func isInteger(raw []byte) bool {
	return !bytes.ContainsAny(raw, ".eE") || parseDecimal(raw).integer()
}

// multipleOf reports whether d is a whole multiple of m, which is not zero.
//
// With d = D × 10^x and m = M × 10^y in whole numbers: for x ≥ y, M must divide D × 10^(x-y). For x < y it never does, for
// the quotient's D would end in a zero.
func (d decimal) multipleOf(m decimal) bool {
	if d.digits == "" {
		return true
	}
	shift := (d.exp - len(d.digits)) - (m.exp - len(m.digits))
	if shift < 0 {
		return false
	}
	if len(d.digits) <= 19 && len(m.digits) <= 19 {
		a, _ := strconv.ParseUint(d.digits, 10, 64)
		b, _ := strconv.ParseUint(m.digits, 10, 64)
		return mulMod(a%b, powMod(10, shift, b), b) == 0
	}
	a, _ := new(big.Int).SetString(d.digits, 10)
	b, _ := new(big.Int).SetString(m.digits, 10)
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(shift)), b)
	return a.Mul(a, power).Mod(a, b).Sign() == 0
}

// mulMod is a × b mod m, for a and b below m.
func mulMod(a, b, m uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return bits.Rem64(hi, lo, m)
}

// powMod is base^exp mod m.
func powMod(base uint64, exp int, m uint64) uint64 {
	result := 1 % m
	base %= m
	for ; exp > 0; exp >>= 1 {
		if exp&1 == 1 {
			result = mulMod(result, base, m)
		}
		base = mulMod(base, base, m)
	}
	return result
}

// small reads a whole number of at most 18 digits, written plainly.
func small(raw []byte) (n int64, ok bool) {
	digits, negative := bytes.CutPrefix(raw, []byte{'-'})
	if len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// appendKey appends bytes that are equal for equal numbers only.
func (d decimal) appendKey(dst []byte) []byte {
	if d.negative {
		dst = append(dst, '-')
	}
	dst = append(dst, d.digits...)
	dst = append(dst, 'e')
	return strconv.AppendInt(dst, int64(d.exp), 10)
}
