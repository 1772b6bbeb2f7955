package checks

import (
	"sync"

	"preflight/facts"
)

var envSane = Check{
	ID:       "env-sane",
	Title:    "the environment says what its author meant",
	Severity: Warning,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionEnv},
	Doc: "Looks at what the ranks will see on each node for names that no library reads (NCCL_TIMEOUT), renamed and misspelt ones, numbers that are none, " +
		"interfaces that are not there by the rules of NCCL and of gloo, which differ, switches that contradict the machine, and switches that cost speed. " +
		"What makes the launch fail fails; the rest is warned of.",
	WouldSee: "nothing: the setting is silently without effect, or not with the effect its author meant",
	Run:      judgeEnv,
}

// ranks is what the ranks of one node will see.
type ranks struct {
	node  *facts.Node
	vars  map[string]facts.Setting
	fleet *envFleet
}

// envFleet is what is worked out once for all nodes.
type envFleet struct {
	view    View
	ifnames func() string     // ifnameList of the fleet, worked out once
	meant   map[string]string // misspelt name → the name it is a slip for
}

func newEnvFleet(view View) *envFleet {
	return &envFleet{view: view, ifnames: sync.OnceValue(func() string { return ifnameList(view) })}
}

func (r ranks) value(name string) string { return r.vars[name].Value }

// finding is a warning of one setting, with the way to take it out.
func (r ranks) finding(name, summary string) Finding {
	return Finding{
		Nodes:   []string{r.node.Name},
		Summary: summary,
		Got:     origin(r.fleet.view, r.vars[name]),
		Remedy:  takeOut(r.fleet.view, r.vars[name]),
	}
}

func judgeEnv(view View) []Finding {
	fleet := newEnvFleet(view)
	var all []ranks
	for _, node := range view.Nodes {
		all = append(all, ranks{node, rankEnv(view, node), fleet})
	}
	fleet.meant = slips(all)
	var findings []Finding
	for _, r := range all {
		findings = append(findings, r.judge()...)
	}
	return findings
}

// judge applies every rule that looks at one node.
func (r ranks) judge() []Finding {
	var findings []Finding
	for _, rule := range []func(ranks) []Finding{
		wrongNames, wrongNumbers, ncclInterfaces, exactInterfaces, missingAdapters, costlySwitches, leakedStore, confFile,
	} {
		findings = append(findings, rule(r)...)
	}
	return findings
}
