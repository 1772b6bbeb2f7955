package checks

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/facts"
)

// control is the ssh port of the callees and whether it answers the same
// callers; 0 when they do not agree or did not try.
func (m *meshCalls) control(paths []*facts.Path) (port int, answers bool) {
	tried := map[bool]bool{}
	for _, path := range paths {
		if path.Control != nil {
			tried[*path.Control] = true
		}
	}
	if len(tried) != 1 {
		return 0, false
	}
	if node := m.nodes[paths[0].Peer]; node.SSH != nil {
		port = node.SSH.Port
	}
	return cmp.Or(port, 22), tried[true]
}

// got is how many calls failed, of what, and one of them to try by hand.
func (m *meshCalls) got(s suspect, paths []*facts.Path) string {
	count := map[string]int{}
	for _, path := range paths {
		count[string(path.Outcome)]++
	}
	var parts []string
	for _, outcome := range []facts.PathOutcome{facts.PathDropped, facts.PathRefused, facts.PathRejected, facts.PathReset, facts.PathSilent} {
		if n := count[string(outcome)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	text := "calls: " + strings.Join(parts, ", ")
	if s.kind == directions && len(s.failed) > 1 {
		lines := arrows(m.calls, s.failed)
		const most = 6
		if len(lines) > most {
			lines = append(lines[:most], fmt.Sprintf("%d more", len(lines)-most))
		}
		text += ": " + strings.Join(lines, ", ")
	}
	first := m.calls[s.failed[0]]
	text += fmt.Sprintf("; %s called %s", first.from, where(paths[0]))
	if paths[0].Error != "" {
		text += ": " + paths[0].Error
	}
	return text + m.sampled()
}

// wouldSee is what a rank that makes the call dies with. NCCL's texts are of
// 2.24 and later (src/misc/socket.cc), gloo's of 2025 (transport/tcp).
func (m *meshCalls) wouldSee(path *facts.Path) string {
	words := map[facts.PathOutcome]string{
		facts.PathDropped: "Connection timed out", facts.PathRefused: "Connection refused", facts.PathRejected: "No route to host",
	}[path.Outcome]
	if m.view.Launch.Accelerator == "cpu" {
		switch path.Outcome {
		case facts.PathDropped:
			return fmt.Sprintf("Gloo connectFullMesh failed with … Connect timeout [%s]:%d", path.To, path.Port)
		case facts.PathReset:
			return fmt.Sprintf("Connection closed by peer [%s]:%d", path.To, path.Port)
		case facts.PathSilent:
			return "a hang in the first collective, until its timeout of 30 minutes"
		}
		return fmt.Sprintf("Gloo connectFullMesh failed with … connect [%s]:%d: %s", path.To, path.Port, cmp.Or(words, path.Error))
	}
	switch path.Outcome {
	case facts.PathReset:
		return fmt.Sprintf("socketProgress: Connection closed by remote peer %s<%d>", path.To, path.Port)
	case facts.PathSilent, facts.PathStranger, facts.PathMisdirected:
		return "a hang at the first collective: Watchdog caught collective operation timeout: WorkNCCL(…) ran for 600000 milliseconds before timing out"
	case facts.PathUnroutable:
		return fmt.Sprintf("connect to %s<%d> failed : %s", path.To, path.Port, cmp.Or(path.Error, "Network is unreachable"))
	}
	return fmt.Sprintf("connect to %s<%d> returned %s, exceeded error retry count after 35 attempts", path.To, path.Port, words)
}

// evidence are the paths of a suspect.
func (m *meshCalls) evidence(s suspect) []*facts.Path {
	var paths []*facts.Path
	for _, i := range s.failed {
		paths = append(paths, m.paths[i])
	}
	return paths
}

// sampled says how much was tried where that is not all.
func (m *meshCalls) sampled() string {
	all := len(m.names) * (len(m.names) - 1)
	if m.tried >= all {
		return ""
	}
	return fmt.Sprintf("; a sample: %s of %s calls were tried", humanize.Comma(int64(m.tried)), humanize.Comma(int64(all)))
}
