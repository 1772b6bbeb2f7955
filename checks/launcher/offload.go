// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch/dsconfig"
)

var OffloadPath = checks.Check{
	ID:       "offload-path",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionDisk},
	Volatile: true,
	Run:      judgeOffloadPath,
}

func judgeOffloadPath(view checks.View) []checks.Finding {
	if view.Launch.Config == nil || !slices.ContainsFunc(view.Launch.Config.Offload, func(o dsconfig.Offload) bool { return o.Device == "nvme" }) {
		return checks.Skipped("the launch offloads nothing to NVMe")
	}
	var findings []checks.Finding
	for _, node := range view.Nodes {
		met := map[string]bool{} // several kinds may use one directory
		for _, place := range node.Disk.Places {
			if strings.HasPrefix(place.Role, "offload-") && !met[place.Path] {
				met[place.Path] = true
				findings = append(findings, judgeOffload(view, node, place)...)
			}
		}
		if len(met) == 0 { // the path depends on the working directory of a rank
			findings = append(findings, checks.UnknownFor(node, "disk: preflight did not check the offload directory"))
		}
	}
	return findings
}

func judgeOffload(view checks.View, node *facts.Node, place facts.Place) []checks.Finding {
	f := checks.Finding{Nodes: []string{node.Name}, Got: fmt.Sprintf("%s, %s on %s", place.Path, place.FSType, place.Source)}
	at := fix.On("df -hT %s; ls -ld %[1]s", fix.Path(place.Path)).As(fix.Look)
	switch {
	case place.Problem != "":
		return []checks.Finding{checks.UnknownFor(node, fmt.Sprintf("disk: %s: %s", place.Path, place.Problem))}
	case place.ReadOnly || !place.Writable:
		f.Summary = "cannot write to the offload directory " + place.Path
		if !place.Exists {
			f.Summary += ", which does not exist"
		}
		f.Want = "a directory that the user of the launch can write to"
		f.WouldSee = fmt.Sprintf("PermissionError: [Errno 13] Permission denied: '%s/zero_stage_3'", place.Path)
		f.Remedy = []fix.Command{fix.On("sudo mkdir -p %s && sudo chown $(id -u) %[1]s", fix.Path(place.Path))}
	case slices.Contains(ranks.RemoteFS, place.FSType):
		f.Verdict = checks.Warn
		f.Summary = "the offload directory is on a network file system: " + place.Path
		f.Want = "a local NVMe disk of the node"
		f.WouldSee = "steps that take many times as long; in a shared directory, ranks of several nodes may write one file"
		f.Remedy = []fix.Command{at}
	case place.Free < view.Policy.DiskFree:
		free, least := compare.Apart(place.Free, view.Policy.DiskFree)
		f.Summary = "the offload directory is nearly full: " + place.Path
		f.Got = fmt.Sprintf("%s free of %s (%s)", free, humanize.IBytes(uint64(place.Total)), place.Source)
		f.Want = "at least " + least
		f.WouldSee = "OSError: [Errno 28] No space left on device, or a failed assertion in swap_out"
		f.Remedy = []fix.Command{at}
	case !existsSomewhere(view, place) || place.Exists:
		return nil
	default:
		f.Verdict = checks.Warn
		f.Summary = place.Path + " is missing here but exists on other nodes: is a disk not mounted?"
		f.WouldSee = "offloaded states go to the root disk, which may be slow or small"
		f.Remedy = []fix.Command{fix.On("lsblk; findmnt -T %s", fix.Path(place.Path)).As(fix.Look)}
	}
	return []checks.Finding{f}
}

// existsSomewhere reports whether the directory exists on at least one node.
func existsSomewhere(v checks.View, place facts.Place) bool {
	return slices.ContainsFunc(v.Nodes, func(node *facts.Node) bool {
		return slices.ContainsFunc(node.Disk.Places, func(p facts.Place) bool { return p.Path == place.Path && p.Exists })
	})
}
