package schema

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// someNumber is a JSON number in one of its many spellings.
func someNumber(r *rand.Rand) string {
	s := []string{"", "-"}[r.IntN(2)] + fmt.Sprint(r.IntN(2000)/(1+r.IntN(300)))
	if r.IntN(2) == 0 {
		s += "." + strings.Repeat("0", r.IntN(3)) + fmt.Sprint(r.IntN(100))
	}
	if r.IntN(3) == 0 {
		s += []string{"e", "E", "e+", "e-"}[r.IntN(4)] + fmt.Sprint(r.IntN(25))
	}
	if i := strings.IndexAny(s, ".eE"); i >= 0 && r.IntN(10) == 0 {
		s = fmt.Sprint(r.Int64()) + s[i:]
	}
	return s
}

// TestDecimals compares with big.Rat.
func TestDecimals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	multiples := 0
	for range 50_000 {
		x, y := someNumber(r), someNumber(r)
		a, b := rat(t, x), rat(t, y)
		d, e := parseDecimal([]byte(x)), parseDecimal([]byte(y))
		if got, want := d.compare(e), a.Cmp(b); got != want || (d == e) != (want == 0) {
			t.Fatalf("%s and %s compare as %d, not %d; equal: %v", x, y, got, want, d == e)
		}
		if isInteger([]byte(x)) != a.IsInt() {
			t.Fatalf("%s is an integer: %v", x, !a.IsInt())
		}
		if n, ok := small([]byte(x)); ok && a.Cmp(new(big.Rat).SetInt64(n)) != 0 {
			t.Fatalf("%s is read as %d", x, n)
		}
		if rat(t, d.String()).Cmp(a) != 0 {
			t.Fatalf("%s is written %s", x, d)
		}
		if toDecimal(a) != d {
			t.Fatalf("%s becomes %v of the library's", x, toDecimal(a))
		}
		if b.Sign() == 0 {
			continue
		}
		want := new(big.Rat).Quo(a, b).IsInt()
		if d.multipleOf(e) != want {
			t.Fatalf("%s is a multiple of %s: %v", x, y, want)
		}
		if want {
			multiples++
		}
	}
	if multiples < 500 {
		t.Errorf("only %d multiples were tried", multiples)
	}
}

func rat(t *testing.T, s string) *big.Rat {
	t.Helper()
	x, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatal(s)
	}
	return x
}

// TestPatternSize: the bound holds of what is compiled, and repetitions do not get past it.
func TestPatternSize(t *testing.T) {
	for expr, least := range map[string]int{
		`^[a-z]+$`: 4, `abc`: 3, `(a|b){100}`: 200, `((a{10}){10}){10}`: 1000, `x{0,500}`: 500, `[\p{L}]{200}`: 200, `a{1000}b{1000}c{1000}`: 3000,
	} {
		size, _, err := patternSize(expr)
		if err != nil || size < least || size > 12*least {
			t.Errorf("%s has size %d, %v; want some %d", expr, size, err, least)
		}
	}
}

func TestTranslate(t *testing.T) {
	for from, want := range map[string]string{
		`[\u4e00-\u9fa5]`: `[\x{4e00}-\x{9fa5}]`, `\u{1F600}`: `\x{1F600}`, `\\u0041`: `\\u0041`, `\d\u0041`: `\d\x{0041}`, `\u00`: `\u00`,
		`\`: `\`, `ä\u0041ö`: `ä\x{0041}ö`, `\ä\u0041`: `\ä\x{0041}`,
	} {
		if got := translate(from); got != want {
			t.Errorf("%s becomes %s, want %s", from, got, want)
		}
	}
}
