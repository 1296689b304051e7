package reach

import "time"

// Factors say how good a path is now, each in [0, 1].
type Factors struct {
	Success  float64 // share of calls of the last 5 minutes that succeeded; 1 where there were none
	Latency  float64 // 1 / (1 + mean of the last 10 successes / 1 s); 1 untried, 0 where all failed, 0.5 where all were declined
	Load     float64 // 1 - Busy
	Distance float64 // 1 the same machine, less the further away
	Busy     float64 // load as a share of the agent's limit: the larger of what it reports and what runs on it from here; may exceed 1
}

// Weights are routing.score_weights: success, latency, load, distance.
type Weights [4]float64

// DefaultWeights are the published ones.
var DefaultWeights = Weights{4, 3, 2, 1}

// busyLimit is the load above which the whole score is halved.
const busyLimit = 0.7

// latencyUnit is the mean at which the latency factor has fallen to a half.
const latencyUnit = time.Second

// neverMeasured is the latency factor of a path whose calls were all declined: neither fast nor slow.
const neverMeasured = 0.5

func latencyFactor(mean time.Duration) float64 {
	return 1 / (1 + float64(mean)/float64(latencyUnit))
}

// Score is ten times the weighted mean of the four factors, halved where the agent's load is above 70 %.
func (w Weights) Score(f Factors) float64 {
	sum := w[0] + w[1] + w[2] + w[3]
	score := 10 * (w[0]*f.Success + w[1]*f.Latency + w[2]*f.Load + w[3]*f.Distance) / sum
	if f.Busy > busyLimit {
		score /= 2
	}
	return score
}
