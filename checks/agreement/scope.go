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

// Scope is which changes a person means by a name: those of a fact, of all facts below a path,
// or of a topic.
type Scope struct {
	Name  string
	topic string
	path  *regexp.Regexp
	exact bool // it is one fact by its whole path
}

// ReadScope reads "shm.size", "net.interfaces.*.mtu", "python.packages", "driver" or "*", and
// what folds siblings, "nvml.cards.[0-3,7].power.limit".
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

// Covers is whether a change is meant.
func (s Scope) Covers(c checks.Change) bool {
	if s.topic != "" {
		return topicOf(c).name == s.topic
	}
	return s.path.MatchString(c.Fact) || s.path.MatchString(toldBy(c.Fact))
}

// echoes are facts that repeat another: who names that one means them too, and they have no
// row of their own beside it.
var echoes = []struct {
	fact *regexp.Regexp
	of   string
}{
	{regexp.MustCompile(`^gpu\.(module|fabric_manager\.version|libcuda\..+\.version)$|^nvml\.(library|cuda)$`), "nvml.driver"},
	{regexp.MustCompile(`^python\.protobuf\.runtime$`), "python.packages.protobuf"},
	{regexp.MustCompile(`^python\.torch\.version$`), "python.packages.torch"},
	{regexp.MustCompile(`^env\.nccl\.(.+)$`), "env.vars.$1"},
	{regexp.MustCompile(`^net\.ephemeral_high$`), "net.ephemeral_low"}, // one sysctl
}

// toldBy is the fact that one repeats, itself where it repeats none.
func toldBy(fact string) string {
	for _, e := range echoes {
		if e.fact.MatchString(fact) {
			return e.fact.ReplaceAllString(fact, e.of)
		}
	}
	return fact
}

// WithoutEchoes are the changes of a node that are news beside each other.
func WithoutEchoes(changes []checks.Change) []checks.Change {
	return withoutEchoes(changes, func(c checks.Change) string { return c.Fact })
}

// WithoutEchoedDiffs are the differences between nodes that are, likewise.
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

// weight is how much a scope says of what it covers: a fact holds before what holds facts, and
// that before a topic.
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

// TopicNames are by what names a policy and --accept call what changes together.
func TopicNames() []string {
	return text.Map(topics, func(t topic) string { return t.name })
}

// unknownScope names what was likely meant.
func unknownScope(name string) error {
	sections := text.Map(facts.Sections(), func(section facts.Section) string { return string(section) })
	known := text.Map(knownFacts(), func(known knownFact) string { return known.Path })
	all := slices.Concat(TopicNames(), sections, OwnFacts(), known)
	if near := text.Nearest(strings.ToLower(name), all, max(1, len(name)/4)); near != "" {
		return &UnknownFactError{fmt.Sprintf("there is no fact or topic %q%s", name, text.DidYouMean(near))}
	}
	return unknownFact(name)
}

// weighted is what the policy says that some changes weigh.
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
				continue // the file was refused for it
			}
			all = append(all, weighted{scope, stated.Severity})
		}
		slices.Reverse(all) // the later of two that are alike in kind
		slices.SortStableFunc(all, func(a, b weighted) int { return cmp.Compare(b.weight(), a.weight()) })
		return all
	})
}

// severityOf is what the policy says of a change, "" where it says nothing: of the fact before
// its topic, and of that before drift as a whole.
func severityOf(view checks.View, c checks.Change) checks.Severity {
	all := weightsOf(view)
	if at := slices.IndexFunc(all, func(w weighted) bool { return w.Covers(c) }); at >= 0 {
		return all[at].severity
	}
	return view.Policy.Severities[checks.DriftID]
}

// weigh is what a change comes to: what the policy says of it or, where it says nothing, a
// failure where launches may break by it.
func weigh(view checks.View, node *facts.Node, c checks.Change) checks.Verdict {
	switch severity := severityOf(view, c); {
	case severity == checks.Error, severity == "" && breaks(node, c):
		return checks.Fail
	}
	return checks.Warn
}
