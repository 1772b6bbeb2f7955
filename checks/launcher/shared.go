// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

var DataShared = checks.Check{
	ID:       "data-shared",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionDisk},
	Volatile: true,
	Run:      judgeShared,
}

func judgeShared(view checks.View) (findings []checks.Finding) {
	switch {
	case len(view.Launch.Places) == 0:
		return checks.Skipped("the command names no directory that ranks share files in")
	case len(view.All) < 2:
		return checks.Skipped("a single node shares nothing")
	}
	tried := sharings(view)
	for _, named := range view.Launch.Places {
		l := leaving{LaunchFile: named, view: view}
		if at := slices.IndexFunc(tried, func(s *sharing) bool { return s.path == named.Path }); at >= 0 {
			l.sharing = tried[at]
		}
		for _, node := range view.Nodes {
			switch place := placeOf(node, named); {
			case place == nil:
				findings = append(findings, checks.UnknownFor(node, fmt.Sprintf("disk: preflight did not check %s", named.Path)))
			case place.Problem != "":
				findings = append(findings, checks.UnknownFor(node, fmt.Sprintf("disk: %s: %s", named.Path, place.Problem)))
			case slices.Contains(leftBefore, named.Role) || node.Shared != nil:
				l.seen = append(l.seen, node)
			case view.NotTried[facts.SectionShared] == "":
				findings = append(findings, checks.UnknownFor(node, "shared: "+node.Missing[facts.SectionShared]))
			}
		}
		findings = append(findings, l.judge()...)
	}
	return findings
}

// leftBefore lists the roles of data that an earlier run left behind. Every node needs such data in
// the same version.
var leftBefore = []string{facts.RoleTokenized, facts.RoleCheckpoint, facts.RoleResume}

// placeOf returns a node's facts about a directory that the launch names, or nil if the facts were
// not collected.
func placeOf(node *facts.Node, named facts.LaunchFile) *facts.Place {
	at := slices.IndexFunc(node.Disk.Places, func(p facts.Place) bool { return p.Role == named.Role && p.Path == named.Path })
	if at < 0 {
		return nil
	}
	return &node.Disk.Places[at]
}

// leaving is a directory in which ranks leave files that other ranks need.
type leaving struct {
	facts.LaunchFile
	view    checks.View
	seen    []*facts.Node // nodes that reported facts about the directory
	sharing *sharing      // what the nodes found out together, nil if they did not try the directory
}

func (l leaving) judge() []checks.Finding {
	how := together
	if l.sharing != nil {
		how = l.sharing.state(l.sharing.groups())
	}
	switch {
	case slices.Contains(leftBefore, l.Role) && how != split: // shared-directory reports the nodes with another directory
		return l.found()
	case how != scattered || len(l.seen) == 0:
		return nil
	case l.unmounted() != nil:
		return []checks.Finding{*l.unmounted()}
	case l.Role == facts.RoleIndexCache:
		return l.indices()
	}
	return l.outputs()
}

// unmounted returns the finding for nodes that lack the mount on which most nodes have the
// directory. It returns nil if there is no such mount.
func (l leaving) unmounted() *checks.Finding {
	groups := compare.GroupBy(l.seen, func(n *facts.Node) string { return placeOf(n, l.LaunchFile).Mount })
	mount := groups[0].Value
	if mount == "" || mount == "/" || 2*len(groups[0].Nodes) <= len(l.seen) || len(groups) == 1 {
		return nil
	}
	lacking := compare.Without(l.seen, func(n *facts.Node) bool { return placeOf(n, l.LaunchFile).Mount == mount })
	from := compare.Without(l.seen, func(n *facts.Node) bool { return placeOf(n, l.LaunchFile).Mount != mount })
	f := l.finding(lacking, fmt.Sprintf("nothing is mounted at %s, which most nodes have as a mount", mount))
	has := placeOf(lacking[0], l.LaunchFile)
	f.Got = fmt.Sprintf("%s on %s, mounted at %s", has.FSType, has.Source, has.Mount)
	f.Want = fmt.Sprintf("a mount at %s, as on %s", mount, hostfile.Fold(checks.NamesOf(from)))
	f.Remedy = []fix.Command{
		fix.On("findmnt %s   # this node has the mount", fix.Path(mount)).At(from[0].Name).As(fix.Look),
		fix.On("sudo mount %s   # if /etc/fstab has that mount", fix.Path(mount)),
	}
	return &f
}

// finding returns the finding for nodes that will not see the files that other nodes write to the
// directory.
func (l leaving) finding(nodes []*facts.Node, summary string) checks.Finding {
	has := placeOf(nodes[0], l.LaunchFile)
	f := checks.Finding{
		Nodes: checks.NamesOf(nodes), Summary: summary, Got: fmt.Sprintf("%s on %s", has.FSType, has.Source), Want: "one shared directory for all nodes",
		Remedy: []fix.Command{fix.On("findmnt -T %s", fix.Path(l.Path)).As(fix.Look), fix.Note("mount one share there on all nodes, or use a directory that is on a share")},
	}
	switch l.Role {
	case facts.RoleIndexCache:
		f.WouldSee = fmt.Sprintf("FileNotFoundError: [Errno 2] No such file or directory: '%s/….npy', on all nodes but the first", l.Path)
	case facts.RoleTokenized:
		f.WouldSee = "the watchdog's timeout of a collective: some ranks wait at the barrier before tokenizing, and others skip it"
	case facts.RoleCheckpoint:
		f.WouldSee = "ValueError: Can't find a valid checkpoint at " + l.Path
	case facts.RoleResume:
		f.WouldSee = "WARNING: could not find the metadata file, and other weights than on the nodes that have the file"
	case facts.RoleOutput:
		f.Verdict = checks.Warn
		f.WouldSee = "nothing, until you resume from a checkpoint: ValueError: Can't find a valid checkpoint, or FileNotFoundError: …_optim_states.pt"
	}
	return f
}

// listingOf returns a digest of the directory's entries on a node, or "" if unknown.
func (l leaving) listingOf(node *facts.Node) string { return placeOf(node, l.LaunchFile).Listing }

// indices returns findings for data indices. Only rank 0 builds the indices, on the first node of
// the launch.
func (l leaving) indices() []checks.Finding {
	others := compare.Without(l.seen, func(n *facts.Node) bool { return n.Name == names.FirstHost(l.view) })
	if groups := compare.GroupBy(l.seen, l.listingOf); len(groups) == 1 && groups[0].Value != "" && placeOf(l.seen[0], l.LaunchFile).Exists {
		return nil // every node already has a copy
	}
	f := l.finding(others, fmt.Sprintf("rank 0 writes its data indices to %s on %s, which is not shared", l.Path, names.FirstHost(l.view)))
	return []checks.Finding{f}
}

func (l leaving) outputs() []checks.Finding {
	if l.view.Launch.NodeLocal {
		return nil
	}
	f := l.finding(l.seen, fmt.Sprintf("each node writes its part of a checkpoint to its own disk: %s", l.Path))
	f.Remedy = append(f.Remedy, fix.Note("or let every node write the whole checkpoint: save_on_each_node for the transformers Trainer, checkpoint.use_node_local_storage in DeepSpeed's configuration"))
	return []checks.Finding{f}
}

// found returns findings for data that an earlier run left behind.
func (l leaving) found() []checks.Finding {
	lacks := func(n *facts.Node) bool { return !placeOf(n, l.LaunchFile).Exists }
	has, lacking := compare.Without(l.seen, lacks), compare.Without(l.seen, func(n *facts.Node) bool { return !lacks(n) })
	switch {
	case len(lacking) == 0 && l.view.Launch.NodeLocal:
		return nil
	case len(lacking) == 0:
		return l.unlike()
	case len(has) > 0:
		return []checks.Finding{l.finding(lacking, fmt.Sprintf("%s is missing, but exists on %s", l.Path, hostfile.Fold(checks.NamesOf(has))))}
	case l.Role != facts.RoleCheckpoint:
		return nil // this run will create the data
	}
	f := l.finding(lacking, l.Path+" does not exist")
	f.Want, f.Remedy = "a checkpoint that exists", []fix.Command{fix.On("ls -la %s", fix.Path(path.Dir(l.Path))).As(fix.Look)}
	return []checks.Finding{f}
}

// unlike warns if nodes have different files. It leaves out nodes whose directory was not read.
func (l leaving) unlike() []checks.Finding {
	known := compare.Without(l.seen, func(n *facts.Node) bool { return l.listingOf(n) == "" })
	groups := compare.GroupBy(known, l.listingOf)
	if len(groups) < 2 {
		return nil
	}
	f := l.finding(known, l.Path+" has different files on different nodes")
	listings := text.Map(groups, func(group compare.Group) string {
		return fmt.Sprintf("listing %s on %s", group.Value, hostfile.Fold(group.Nodes))
	})
	f.Verdict, f.Got = checks.Warn, strings.Join(listings, ", ")
	return []checks.Finding{f}
}
