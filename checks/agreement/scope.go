// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

// Scope is the set of changes that a name stands for: the changes of one fact, of all facts below a
// path, or of a topic.
type Scope struct {
	Name  string
	topic string
	path  *regexp.Regexp
	exact bool // the name is the whole path of one fact
}

// ReadScope parses a name such as "shm.size", "net.interfaces.*.mtu", "python.packages", "driver"
// or "*". It also accepts folded siblings such as "nvml.cards.[0-3,7].power.limit".
func ReadScope(name string) (Scope, error) {
	if slices.ContainsFunc(topics, func(t topic) bool { return t.name == name }) {
		return Scope{Name: name, topic: name}, nil
	}
	paths := []string{InFull(name)}
	if strings.Contains(name, "[") {
		expanded, err := hostfile.Expand(name)
		if err != nil {
			return Scope{}, fmt.Errorf("%q: %w", name, err)
		}
		paths = expanded
	}
	var patterns []string
	for _, path := range paths {
		if name != everyFact && !isFact(path) && !isOfDrift(path) && !isFact(path+".*") {
			return Scope{}, unknownScope(name)
		}
		patterns = append(patterns, PathPattern(path, ".*").String())
	}
	all := strings.ReplaceAll(strings.Join(patterns, "|"), "$", `(\.|$)`)
	return Scope{Name: name, path: regexp.MustCompile(all), exact: !strings.Contains(name, "*") && isFact(paths[0])}, nil
}

// Covers reports whether the scope includes a change.
func (s Scope) Covers(c checks.Change) bool {
	if s.topic != "" {
		return topicOf(c).name == s.topic
	}
	return s.path.MatchString(c.Fact) || s.path.MatchString(toldBy(c.Fact))
}

// echoes maps facts to the fact that they repeat. A scope with the repeated fact includes its
// echoes, and an echo gets no row of its own next to that fact.
var echoes = []struct {
	fact *regexp.Regexp
	of   string
}{
	{regexp.MustCompile(`^gpu\.(module|fabric_manager\.version|libcuda\..+\.version)$|^nvml\.(library|cuda)$`), "nvml.driver"},
	{regexp.MustCompile(`^python\.protobuf\.runtime$`), "python.packages.protobuf"},
	{regexp.MustCompile(`^python\.torch\.version$`), "python.packages.torch"},
	{regexp.MustCompile(`^env\.nccl\.(.+)$`), "env.vars.$1"},
	{regexp.MustCompile(`^net\.ephemeral_high$`), "net.ephemeral_low"}, // one sysctl sets both
}

// toldBy returns the fact that the given fact repeats, or the given fact itself.
func toldBy(fact string) string {
	for _, e := range echoes {
		if e.fact.MatchString(fact) {
			return e.fact.ReplaceAllString(fact, e.of)
		}
	}
	return fact
}

// WithoutEchoes leaves out changes that repeat another change of the same node.
func WithoutEchoes(changes []checks.Change) []checks.Change {
	return withoutEchoes(changes, func(c checks.Change) string { return c.Fact })
}

// WithoutEchoedDiffs leaves out differences between nodes that repeat another difference.
func WithoutEchoedDiffs(diffs []checks.FactDiff) []checks.FactDiff {
	return withoutEchoes(diffs, func(d checks.FactDiff) string { return d.Fact })
}

func withoutEchoes[T any](all []T, factOf func(T) string) []T {
	told := map[string]bool{}
	for _, one := range all {
		told[factOf(one)] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { of := toldBy(factOf(one)); return of != factOf(one) && told[of] })
}

// weight returns how specific a scope is. A single fact has the highest weight. A path that covers
// several facts comes next, then a topic, and then everything.
func (s Scope) weight() int {
	switch {
	case s.exact:
		return 3
	case s.topic != "":
		return 1
	case s.Name == everyFact:
		return 0
	}
	return 2
}

func topicOf(c checks.Change) topic {
	return topics[slices.IndexFunc(topics, func(t topic) bool { return t.facts.MatchString(c.Fact) })]
}

// TopicNames returns the names of the topics for policies and --accept.
func TopicNames() []string {
	return text.Map(topics, func(t topic) string { return t.name })
}

// unknownScope returns the error for an unknown name. The error suggests a similar name.
func unknownScope(name string) error {
	sections := text.Map(facts.Sections(), func(section facts.Section) string { return string(section) })
	known := text.Map(knownFacts(), func(known knownFact) string { return known.Path })
	all := slices.Concat(TopicNames(), sections, OwnFacts(), known)
	if near := text.Nearest(strings.ToLower(name), all, max(1, len(name)/4)); near != "" {
		return &UnknownFactError{fmt.Sprintf("there is no fact or topic %q%s", name, text.DidYouMean(near))}
	}
	return unknownFact(name)
}

// weighted is a set of changes with the severity that the policy gives to them.
type weighted struct {
	Scope
	severity checks.Severity
}

type weightsKey struct{}

func weightsOf(view checks.View) []weighted {
	return checks.Remember(view, weightsKey{}, func() (all []weighted) {
		for _, stated := range view.Policy.Drift {
			scope, err := ReadScope(stated.Of)
			if err != nil {
				continue // cannot happen: such a policy file was refused when it was read
			}
			all = append(all, weighted{scope, stated.Severity})
		}
		slices.Reverse(all) // if two statements are equally specific, the later one in the file wins
		slices.SortStableFunc(all, func(a, b weighted) int { return cmp.Compare(b.weight(), a.weight()) })
		return all
	})
}

// severityOf returns the policy's severity for a change, or "" if the policy states none. A
// statement about the fact wins over a statement about the topic. A statement about the topic wins
// over a statement about drift as a whole.
func severityOf(view checks.View, c checks.Change) checks.Severity {
	all := weightsOf(view)
	if at := slices.IndexFunc(all, func(w weighted) bool { return w.Covers(c) }); at >= 0 {
		return all[at].severity
	}
	return view.Policy.Severities[checks.DriftID]
}

// weigh returns the verdict for a change: the severity that the policy states. If the policy states
// none, the verdict is a failure if the change can break launches.
func weigh(view checks.View, node *facts.Node, c checks.Change) checks.Verdict {
	switch severity := severityOf(view, c); {
	case severity == checks.Error, severity == "" && breaks(node, c):
		return checks.Fail
	}
	return checks.Warn
}
