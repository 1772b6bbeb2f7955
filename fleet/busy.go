package fleet

import "time"

// slack is how much longer than a limit whoever takes part in a drill may take: what a node
// waits for is done by others, and the slowest of them tells how little of the time it can
// work. With nobody busy it is nothing.
func (r *run) slack(limit time.Duration) time.Duration {
	slowest := 1.0
	for _, m := range r.members {
		slowest = min(slowest, m.agent.Pace())
	}
	return time.Duration(float64(limit)/slowest) - limit
}
