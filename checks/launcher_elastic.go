package checks

import (
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// tornElastic: DeepSpeed's own elastic training builds torch's agent as torch
// before 2.3 took it.
//
// Source: pytorch/pytorch 120691, in 2.3, which moved redirects and tee out of
// WorkerSpec; deepspeed/launcher/launch.py, 0.7.0 to 0.19.7. Tried with 2.4.1 and 2.15.
func tornElastic(view View) []Finding {
	if !view.Launch.Elastic || view.Launch.Torchrun() {
		return nil
	}
	var findings []Finding
	for _, node := range view.Nodes {
		version, seen := torchOf(node)
		switch {
		case !node.Reached:
		case !seen:
			findings = append(findings, unknown(node, "which torch it has was not seen, and elastic training starts with torch before 2.3 only"))
		case version != "" && !launch.Before(version, "2.3"):
			findings = append(findings, Finding{
				Verdict:  Fail,
				Nodes:    []string{node.Name},
				Summary:  "DeepSpeed's elastic training does not start with torch 2.3 or newer",
				Got:      "torch " + version,
				Want:     "torch before 2.3, or a launch without --elastic_training",
				WouldSee: "TypeError: WorkerSpec.__init__() got an unexpected keyword argument 'redirects'",
				Remedy: []fix.Command{
					fix.Here("deepspeed …   # without --elastic_training, --min_elastic_nodes and --max_elastic_nodes"),
					fix.Here("torchrun --nnodes MIN:MAX --rdzv_backend c10d --rdzv_endpoint HOST:PORT …   # torch's own elastic training, on every node"),
				},
			})
		}
	}
	return findings
}

func torchOf(node *facts.Node) (version string, seen bool) {
	if node.Python == nil {
		return "", false
	}
	if node.Python.Torch != nil {
		return node.Python.Torch.Version, true
	}
	return node.Python.Packages["torch"], true
}
