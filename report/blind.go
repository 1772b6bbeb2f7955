package report

import (
	"slices"

	"preflight/checks"
)

// blindness is checks that could not look at the same nodes for one and the same
// reason: one block of a report, not one a check.
type blindness struct {
	reason string
	nodes  string // folded
	checks []string
}

func (p *page) blind(findings []checks.Finding) (blocks []blindness) {
	for _, f := range findings {
		if f.Verdict != checks.Unknown {
			continue
		}
		nodes := p.nodes(f.Nodes)
		at := slices.IndexFunc(blocks, func(b blindness) bool { return b.reason == f.Summary && b.nodes == nodes })
		if at < 0 {
			at = len(blocks)
			blocks = append(blocks, blindness{reason: f.Summary, nodes: nodes})
		}
		blocks[at].checks = append(blocks[at].checks, f.Check)
	}
	return blocks
}
