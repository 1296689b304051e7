package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// row is one figure, beside its peer if it has one. Holds is nil where there is no aim.
type row struct {
	Name      string  `json:"name"`
	Value     float64 `json:"value"`
	Unit      string  `json:"unit"`
	Peer      string  `json:"peer"`
	PeerValue float64 `json:"peer_value"`
	Ratio     float64 `json:"ratio"`
	Spread    string  `json:"spread,omitempty"` // least and greatest ratio of the rounds
	Aim       string  `json:"aim"`
	Holds     *bool   `json:"holds"`
}

func holds(ok bool) *bool { return &ok }

func print(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "name\tvalue\tunit\tbeside\tits value\tratio\tspread\taim\tholds")
	for _, r := range rows {
		verdict := "-"
		if r.Holds != nil {
			verdict = map[bool]string{true: "yes", false: "NO"}[*r.Holds]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, strings.Replace(number(r.Value), "-", "0", 1), r.Unit, r.Peer, number(r.PeerValue), number(r.Ratio), r.Spread, r.Aim, verdict)
	}
	t.Flush()
}

func number(x float64) string {
	switch {
	case x == 0:
		return "-"
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

func write(path string, rows []row) error {
	b, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// compared is the row of two series measured in alternating rounds: medians, the median of the rounds' ratios, and their spread.
func compared(name, unit, peer string, ours, theirs []float64) row {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / theirs[i]
	}
	return row{
		Name: name, Unit: unit, Peer: peer, Value: median(ours), PeerValue: median(theirs), Ratio: median(ratios),
		Spread: fmt.Sprintf("%.2f…%.2f", slices.Min(ratios), slices.Max(ratios)),
	}
}

func median(x []float64) float64 { return quantile(x, 0.5) }

func quantile(x []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}
