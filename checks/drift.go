package checks

import (
	"slices"

	"preflight/facts"
)

// Baseline is an earlier look at the fleet, which it is held against.
type Baseline struct {
	File  string // as the user named it, for the command that writes it anew
	Head  *facts.Node
	Nodes []facts.Node
	// NotTried are the sections that nobody was to look at then, each with the reason.
	NotTried map[facts.Section]string
	// Unlisted is whether nobody can tell which of Nodes this launch leaves out and which
	// the hostfile has lost: it lies on another machine.
	Unlisted bool
}

// baseline is one that a fleet is held against.
type baseline struct{ *Baseline }

var drift = Check{
	ID:       DriftID,
	Title:    "nothing has changed since the baseline",
	Severity: Error,
	Agreed:   true,
	Needs:    []facts.Section{facts.SectionHost},
	DependsOn: []string{
		"gpu-driver-loads", "gpu-driver-runs-cuda", "gpu-fabric", "slots-fit", "gpu-count", "gpu-model-same", "gpu-healthy", "gpu-mode", "gpu-throttle", "gpu-links", "gpu-peer-access", "python-same", "protobuf-works", "nccl-loaded", "path-mtu", "nic-choice", "node-mesh", "shm-size", "shm-writable", "shm-limits", "ib-links", "ib-same", "memlock-limit", "open-files-limit", "memory-available", "disk-space", "env-sane", "deepspeed-ops",
	},
	Doc: "With --baseline golden.json what a node shows now is compared with what the same node showed when that file was written, fact by fact; " +
		"preflight diff lists the same changes. What belongs together, as all that one upgrade brings, is one finding. A change is an error where launches " +
		"may break by it: another NVIDIA driver, torch, NCCL or protobuf, another MTU (of a bridge, the loopback or what a container engine made it is a warning, unless it leads to the other nodes), " +
		"a network interface that has gone, has another name or lost its address, " +
		"a GPU that has gone, and a smaller /dev/shm. Every other change is a warning, a new node, one that the hostfile lists no more, one with another name and another machine " +
		"under a known name among them. Where another check of the same run finds on that node what a change comes from, the fix names it. A waiver of a finding has to cover all its facts that weigh most. Nodes that --include, --exclude or --num_nodes leave out, or that a Slurm job or -w does not name, are not missed. " +
		"Of the launching machine pdsh, ssh, the other launchers and .deepspeed_env are compared, where it is the same machine. The files of " +
		"the launch, its working directory, name resolution and what the nodes tried of each other are not compared: script-same, workdir-present, host-names and the drills judge these. " +
		"A section that only one of the two looks saw cannot be compared: unknown, but for what the baseline was never to look at (a GPU, with accelerator cpu), " +
		"of which a pass says that it was left out. Sizes and limits that follow the memory are the same where they differ by less than a hundredth.",
	WouldSee: "a job that ran here last week hangs or fails: something in between has changed, and nobody said so",
	Run:      drifted,
}

func drifted(view View) []Finding {
	if view.Policy.Baseline == nil {
		return skip("only with --baseline")
	}
	baseline := baseline{view.Policy.Baseline}
	var findings []Finding
	was := earlier(baseline.Nodes, view.All)
	if len(was) == 0 {
		for _, node := range view.Nodes {
			findings = append(findings, unknown(node, "the baseline knows no node of this launch: is it that of another fleet?"))
		}
		return findings
	}
	var left leftOut
	for _, node := range view.Nodes {
		before := was[node.Name]
		switch {
		case before == nil:
			findings = append(findings, baseline.added(view, node))
		case !before.Reached:
			findings = append(findings, unknown(node, "the baseline has not seen this node: it was not reached then"))
		default:
			findings = append(findings, left.note(unseenOf(before, node, baseline.NotTried, view.NotTried), node)...)
			findings = append(findings, baseline.changed(view, before, node)...)
		}
	}
	return slices.Concat(findings, left.finding(), baseline.renamed(view, was), baseline.lost(view, was), baseline.headChanged(view))
}
