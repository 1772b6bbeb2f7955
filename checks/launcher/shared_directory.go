// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

var SharedDirectory = checks.Check{
	ID:       "shared-directory",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionShared},
	Volatile: true,
	Run: func(view checks.View) (findings []checks.Finding) {
		for _, s := range sharings(view) {
			findings = append(findings, s.judge()...)
		}
		return findings
	},
}

// lateness is how many seconds after the end of a write another node must see the file. It is far
// above what a busy server takes.
const lateness = 0.5

// sharing is a directory in which nodes have looked for each other's files.
type sharing struct {
	path  string
	view  checks.View
	nodes []*facts.Node // the nodes that could try the directory
}

// sharings returns the directories of the drill, sorted by path.
func sharings(view checks.View) (all []*sharing) {
	for _, node := range view.Nodes {
		if node.Shared == nil {
			continue
		}
		for _, dir := range node.Shared.Directories {
			at := slices.IndexFunc(all, func(s *sharing) bool { return s.path == dir.Path })
			if at < 0 {
				at, all = len(all), append(all, &sharing{path: dir.Path, view: view})
			}
			all[at].nodes = append(all[at].nodes, node)
		}
	}
	slices.SortFunc(all, func(a, b *sharing) int { return strings.Compare(a.path, b.path) })
	return all
}

// of returns what a node found out about the directory.
func (s *sharing) of(node *facts.Node) *facts.SharedDirectory {
	at := slices.IndexFunc(node.Shared.Directories, func(d facts.SharedDirectory) bool { return d.Path == s.path })
	return &node.Shared.Directories[at]
}

// place returns the disk's facts about the directory on a node, or an empty place.
func (s *sharing) place(node *facts.Node) *facts.Place {
	if node.Disk != nil {
		if at := slices.IndexFunc(node.Disk.Places, func(p facts.Place) bool { return p.Path == s.path }); at >= 0 {
			return &node.Disk.Places[at]
		}
	}
	return &facts.Place{}
}

// groups returns the nodes that have the same directory, the largest group first. Two nodes have
// the same one if one of them sees the other's file there. The result leaves out nodes that did not
// look for another node's file and whose files no other node looked for.
func (s *sharing) groups() [][]*facts.Node {
	leader, tried := map[string]string{}, map[string]bool{} // a leader's leader is the node itself
	for _, node := range s.nodes {
		leader[node.Name] = node.Name
	}
	first := func(name string) string { // of the node's group
		for leader[name] != name {
			leader[name] = leader[leader[name]] // keeps the way short
			name = leader[name]
		}
		return name
	}
	for _, node := range s.nodes {
		for _, peer := range s.of(node).Peers {
			if leader[peer.Peer] == "" {
				continue
			}
			tried[node.Name], tried[peer.Peer] = true, true
			if peer.Missing != facts.NotThere {
				leader[first(peer.Peer)] = first(node.Name)
			}
		}
	}
	var all [][]*facts.Node
	met := compare.Without(s.nodes, func(n *facts.Node) bool { return !tried[n.Name] })
	for _, same := range text.GroupBy(met, func(n *facts.Node) string { return first(n.Name) }) {
		all = append(all, same.All)
	}
	isMount := func(group []*facts.Node) int { // of two groups of one size, the one with a mount is right
		if s.place(group[0]).Remote() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b []*facts.Node) int { return cmp.Or(len(b)-len(a), isMount(b)-isMount(a)) })
	return all
}

// state says how the nodes share the directory.
type state int

const (
	together  state = iota // all nodes have the same directory, as far as they could try
	scattered              // each node has its own
	split                  // some nodes have another directory than the others
)

func (s *sharing) state(groups [][]*facts.Node) state {
	isOwn := func(group []*facts.Node) bool { return s.place(group[0]).Own() }
	switch {
	case len(groups) < 2:
		return together
	case len(groups[0]) == 1 && (!s.place(groups[0][0]).Remote() || !slices.ContainsFunc(groups, isOwn)):
		return scattered
	}
	return split
}

// policed reports whether the policy says that all nodes share the directory.
func (s *sharing) policed() bool { return slices.Contains(s.view.Policy.Shared, s.path) }

// role returns the use of the directory that matters most.
func (s *sharing) role() string {
	for _, place := range s.view.Launch.Places {
		if place.Path == s.path && place.Role != facts.RoleCheckpoint && place.Role != facts.RoleResume { // the ranks only read these two
			return place.Role
		}
	}
	for _, node := range s.nodes {
		if place := s.place(node); place.Role == "hf-cache" || place.Role == "torch-extensions" {
			return place.Role
		}
	}
	return ""
}

// unused reports whether the launch's settings lead the ranks of all nodes to another directory.
func (s *sharing) unused() bool {
	switch role := s.role(); {
	case s.policed():
		return false
	case role == "torch-extensions" && !slices.ContainsFunc(s.nodes, func(n *facts.Node) bool {
		return slices.ContainsFunc(ranks.Caches(s.view, n), func(c ranks.Cache) bool { return c.Role == role })
	}):
		return true
	case role == "hf-cache":
		return slices.ContainsFunc(s.nodes, func(n *facts.Node) bool { return ranks.Moved(s.view, n, s.place(n)) })
	}
	return false
}

func (s *sharing) judge() (findings []checks.Finding) {
	if s.unused() {
		return nil
	}
	for _, node := range s.nodes {
		place := s.place(node)
		reported := place.Problem != "" && !strings.HasPrefix(place.Role, facts.RoleShared) // by data-shared or disk-space
		if problem := s.of(node).Problem; problem != "" && !reported {
			findings = append(findings, checks.UnknownFor(node, fmt.Sprintf("%s: %s", s.path, problem)))
		}
	}
	findings = append(findings, s.unwritten()...)
	s.nodes = compare.Without(s.nodes, func(n *facts.Node) bool { return s.of(n).Problem != "" })
	groups := s.groups()
	findings = append(findings, s.apart(groups)...)
	for _, same := range groups {
		if len(same) > 1 {
			findings = append(findings, s.late(same)...)
			findings = append(findings, s.locks(same)...)
		}
	}
	return append(findings, s.owners()...)
}

// finding returns a finding for nodes, with the file system of the first one.
func (s *sharing) finding(nodes []string, verdict checks.Verdict, summary, got, want string) checks.Finding {
	f := checks.Finding{Nodes: nodes, Verdict: verdict, Summary: summary, Got: got, Want: want}
	if place := s.placeAt(nodes); place.FSType != "" {
		f.Got += fmt.Sprintf(" (%s on %s)", place.FSType, place.Source)
	}
	return f
}

func (s *sharing) placeAt(nodes []string) *facts.Place {
	at := slices.IndexFunc(s.nodes, func(n *facts.Node) bool { return n.Name == nodes[0] })
	return s.place(s.nodes[at])
}

func (s *sharing) look() fix.Command {
	return fix.On("findmnt -T %s -o TARGET,SOURCE,FSTYPE,OPTIONS", fix.Path(s.path)).As(fix.Look)
}

// apart returns the finding for nodes that have another directory at the path than most nodes. If
// each node has its own, data-shared decides whether the launch minds; the policy always does.
func (s *sharing) apart(groups [][]*facts.Node) []checks.Finding {
	how := s.state(groups)
	local := s.role() == "hf-cache" || s.role() == "torch-extensions" || s.role() == facts.RoleOutput && s.view.Launch.NodeLocal
	if how == together || !s.policed() && (how == scattered || local) {
		return nil
	}
	right := groups[0]
	with, mount := hostfile.Fold(checks.NamesOf(right)), s.place(right[0])
	others := slices.Concat(groups[1:]...)
	summary := fmt.Sprintf("%s is another directory than on %s", s.path, with)
	switch {
	case how == scattered:
		right, others, summary = nil, slices.Concat(groups...), fmt.Sprintf("%s is a directory of its own on each node", s.path)
	case len(right) == len(groups[1]) && !(mount.Remote() && s.place(others[0]).Own()):
		right, others, summary = nil, slices.Concat(groups...), fmt.Sprintf("%s is not the same directory on all nodes", s.path)
	}
	others = compare.Without(s.nodes, func(n *facts.Node) bool { return !slices.Contains(others, n) }) // in hostfile order
	f := s.finding(checks.NamesOf(others), s.verdict(), summary, "files that other nodes write there are not visible", "every node sees the files of all others")
	f.Remedy = []fix.Command{s.look()}
	if right != nil && mount.Mount != "" && mount.Mount != "/" && s.place(others[0]).Mount != mount.Mount {
		f.Want = fmt.Sprintf("%s on %s, mounted at %s as on %s", mount.FSType, mount.Source, mount.Mount, with)
		f.Remedy = append(f.Remedy, fix.On("sudo mount %s   # if /etc/fstab has that mount", fix.Path(mount.Mount)))
	} else {
		f.Remedy = append(f.Remedy, fix.Note("mount one share there on all nodes, or use a directory that is on a share"))
	}
	if f.WouldSee = s.notFound(); s.role() == facts.RoleOutput {
		f.WouldSee = "nothing, until you resume from a checkpoint: ValueError: Can't find a valid checkpoint, or FileNotFoundError: …_optim_states.pt"
	}
	return []checks.Finding{f}
}

func (s *sharing) notFound() string {
	return fmt.Sprintf("FileNotFoundError: [Errno 2] No such file or directory: '%s/…', on some nodes", s.path)
}

// verdict returns the verdict for nodes that do not see the files of others.
func (s *sharing) verdict() checks.Verdict {
	if s.policed() || s.role() == facts.RoleIndexCache || s.role() == facts.RoleTokenized {
		return checks.Fail
	}
	return checks.Warn
}

// late returns the findings for nodes that see the files of others late, although they have the
// same directory.
func (s *sharing) late(same []*facts.Node) (findings []checks.Finding) {
	worst, unseen := map[string]float64{}, map[string]string{}
	var attempts []proof.Attempt
	s.eachPair(same, func(reader *facts.Node, peer facts.SharedPeer) {
		attempts = append(attempts, proof.Attempt{From: peer.Peer, To: reader.Name, Failed: peer.Missing != "" || peer.Seconds >= lateness})
	})
	for _, nodes := range s.blamed(same, attempts) {
		s.eachPair(same, func(reader *facts.Node, peer facts.SharedPeer) {
			if !slices.Contains(nodes, reader.Name) && !slices.Contains(nodes, peer.Peer) {
				return
			}
			for _, node := range nodes {
				worst[node] = max(worst[node], peer.Seconds)
				if peer.Missing != "" {
					unseen[node] = peer.Missing
				}
			}
		})
		seconds, verdict := worst[nodes[0]], checks.Warn
		summary, got := fmt.Sprintf("new files in %s are seen %.1f s late", s.path, seconds), fmt.Sprintf("another node's file is not there whole for %.1f s", seconds)
		if why := unseen[nodes[0]]; why != "" {
			verdict, summary, got = s.verdict(), fmt.Sprintf("new files in %s are not seen within %.0f s", s.path, seconds), fmt.Sprintf("%s after %.0f s", why, seconds)
		}
		f := s.finding(nodes, verdict, summary, got, "another node's file is there whole within 0.5 s")
		f.Remedy = append([]fix.Command{s.look()}, uncached(s.placeAt(nodes).FSType)...)
		f.WouldSee = s.notFound()
		findings = append(findings, f)
	}
	return findings
}

// eachPair visits what the nodes of a group saw of each other.
func (s *sharing) eachPair(same []*facts.Node, visit func(reader *facts.Node, peer facts.SharedPeer)) {
	among := map[string]bool{}
	for _, node := range same {
		among[node.Name] = true
	}
	for _, reader := range same {
		for _, peer := range s.of(reader).Peers {
			if among[peer.Peer] {
				visit(reader, peer)
			}
		}
	}
}

// blamed returns the nodes that explain the failed attempts, one list for each cause. If a single
// direction failed, the node that looked is blamed.
func (s *sharing) blamed(same []*facts.Node, attempts []proof.Attempt) (all [][]string) {
	names := checks.NamesOf(same)
	for _, suspect := range proof.Suspects(names, attempts) {
		nodes := suspect.Nodes
		switch suspect.Kind {
		case proof.Everywhere, proof.Between:
			nodes = names
		case proof.Directions:
			nodes = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				return !slices.ContainsFunc(suspect.Failed, func(a proof.Attempt) bool { return a.To == name })
			})
		}
		all = append(all, nodes)
	}
	return all
}

// uncached returns the steps that make a mount show new files at once.
func uncached(fstype string) []fix.Command {
	switch fstype {
	case "nfs", "nfs4":
		return []fix.Command{
			fix.Note("mount it with actimeo=1,lookupcache=positive on these nodes: unmount it first, because a remount does not change these options"),
			fix.Note("or let programs wait for files with a barrier of all ranks, not by asking whether the file exists").As(fix.Or),
		}
	case "fuse.sshfs":
		return []fix.Command{fix.Note("mount it again with sshfs -o dir_cache=no,attr_timeout=0,entry_timeout=0 on these nodes")}
	}
	return []fix.Command{fix.Note("switch the caches of names and attributes off in the mount options of these nodes, or use a directory on another file system")}
}

// locks returns the findings for locks that nodes do not share. Only programs that use the Hub's
// cache, and what the policy names, need locks.
func (s *sharing) locks(same []*facts.Node) (findings []checks.Finding) {
	if !s.policed() && s.role() != "hf-cache" {
		return nil
	}
	for _, group := range compare.GroupBy(same, func(n *facts.Node) string { return s.lockError(n) }) {
		if group.Value == "" {
			continue
		}
		f := s.finding(group.Nodes, checks.Warn, fmt.Sprintf("%s cannot lock files", s.path), group.Value, "flock and fcntl locks that all nodes share")
		f.WouldSee = "a hang in filelock: Python's library tries again for ever"
		if s.role() == "hf-cache" && s.loadsDataSets() {
			f.Verdict, f.WouldSee = checks.Fail, "a hang in load_dataset: filelock tries again for ever, or OSError: [Errno 37] No locks available"
		}
		f.Remedy = s.relock(group.Nodes)
		findings = append(findings, f)
	}
	free := map[string]bool{}
	var attempts []proof.Attempt
	s.eachPair(same, func(reader *facts.Node, peer facts.SharedPeer) {
		failed := false
		for _, kind := range []string{facts.LockFlock, facts.LockFcntl} {
			if peer.Locks[kind] == facts.LockFree {
				failed, free[kind] = true, true
			}
		}
		if len(peer.Locks) > 0 {
			attempts = append(attempts, proof.Attempt{From: peer.Peer, To: reader.Name, Failed: failed})
		}
	})
	kinds := slices.DeleteFunc([]string{facts.LockFlock, facts.LockFcntl}, func(kind string) bool { return !free[kind] })
	for _, nodes := range s.blamed(same, attempts) {
		f := s.finding(nodes, checks.Warn, fmt.Sprintf("locks in %s hold on one node only", s.path),
			fmt.Sprintf("%s: another node takes a lock that is held", strings.Join(kinds, " and ")), "flock and fcntl locks that all nodes share")
		f.WouldSee = "sometimes a broken cache, because two nodes write the same file at the same time"
		f.Remedy = s.relock(nodes)
		findings = append(findings, f)
	}
	return findings
}

// lockError returns why a node cannot lock files, "" if it can.
func (s *sharing) lockError(node *facts.Node) string {
	own := s.of(node).Locks
	var failed []string
	for _, kind := range []string{facts.LockFlock, facts.LockFcntl} {
		if own[kind] != "" {
			failed = append(failed, kind+": "+own[kind])
		}
	}
	return strings.Join(failed, ", ")
}

func (s *sharing) loadsDataSets() bool {
	isSet := func(m facts.ModelNamed) bool { return m.DataSet }
	script := ranks.ScriptAt(s.view.Launch, s.nodes[0])
	return slices.ContainsFunc(s.view.Launch.Models, isSet) || script != nil && slices.Contains(script.Imports, "datasets")
}

// relock returns the steps that give nodes locks, or that do without them.
func (s *sharing) relock(nodes []string) []fix.Command {
	steps := []fix.Command{s.look()}
	switch s.placeAt(nodes).FSType {
	case "nfs", "nfs4":
		steps = append(steps, fix.Note("mount it without nolock and local_lock on these nodes; NFS 3 also needs rpc.statd on the nodes and lockd on the server"))
	case "lustre":
		steps = append(steps, fix.Note("mount it with -o flock on these nodes, not with localflock or noflock"))
	default:
		steps = append(steps, fix.Note("use a file system that has locks for all nodes; sshfs has none"))
	}
	if s.role() == "hf-cache" {
		steps = append(steps, ranks.ExportLine(s.view.Launch, "HF_HOME", "/var/tmp/huggingface"))
	}
	return steps
}

// unwritten returns the findings for nodes that cannot write although the file system's numbers
// and permissions said that they can. disk-space reports the other cases.
func (s *sharing) unwritten() (findings []checks.Finding) {
	failed := compare.Without(s.nodes, func(n *facts.Node) bool {
		dir, place := s.of(n), s.place(n)
		isKnown := place.Role != "" && !strings.HasPrefix(place.Role, facts.RoleShared) && (!place.Writable || place.ReadOnly || place.Free < s.view.Policy.DiskFree)
		onlyReads := !s.policed() && n.Name != names.FirstHost(s.view) && (s.role() == facts.RoleIndexCache || s.role() == facts.RoleTokenized)
		return dir.Failed == "" || isKnown || onlyReads
	})
	for _, group := range compare.GroupBy(failed, func(n *facts.Node) string { return string(s.of(n).Failed) + s.of(n).Error }) {
		at := slices.IndexFunc(s.nodes, func(n *facts.Node) bool { return n.Name == group.Nodes[0] })
		node := s.nodes[at]
		dir, verdict := s.of(node), s.verdict()
		if script := ranks.ScriptAt(s.view.Launch, node); s.role() == facts.RoleOutput && node.Name == names.FirstHost(s.view) && script != nil && script.Saves {
			verdict = checks.Fail // its rank 0 saves there
		}
		f := s.finding(group.Nodes, verdict, fmt.Sprintf("cannot write to %s: %s", s.path, dir.Error), fmt.Sprintf("%s: %s", dir.Failed, dir.Error), "4 MiB can be written")
		f.WouldSee = "OSError: " + dir.Error
		switch dir.Code {
		case "EDQUOT":
			f.Remedy = []fix.Command{
				fix.On("quota -s; df -h %s; df -i %[1]s", fix.Path(dir.At)).As(fix.Look),
				fix.Note("delete files of this user there, or ask the administrator for a larger quota of bytes and files"),
			}
		case "ENOSPC":
			f.Remedy = []fix.Command{
				fix.On("df -h %s; df -i %[1]s", fix.Path(dir.At)).As(fix.Look),
				fix.Note("delete files on the file system, or ask its administrator: a storage target or a project quota may be full although df shows space"),
			}
		default:
			f.Remedy = []fix.Command{
				fix.On("id; ls -ldn %s; findmnt -T %[1]s", fix.Path(dir.At)).As(fix.Look),
				fix.Note("give the user who launches write access on the server: NFS with root_squash treats root as nobody"),
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// owners returns the finding for nodes whose files belong to another user, if the files of other
// nodes belong to the user who wrote them. If all nodes have another owner, the file system maps
// all users on purpose.
func (s *sharing) owners() []checks.Finding {
	wrote := compare.Without(s.nodes, func(n *facts.Node) bool { return s.of(n).Failed != "" })
	squashed := compare.Without(wrote, func(n *facts.Node) bool { return s.of(n).Owner == nil })
	if len(squashed) == 0 || len(squashed) == len(wrote) {
		return nil
	}
	owner := *s.of(squashed[0]).Owner
	f := s.finding(checks.NamesOf(squashed), checks.Warn, fmt.Sprintf("files in %s get another owner than on the other nodes", s.path),
		fmt.Sprintf("user ID %d for a file that this node wrote", owner), "the user who launches owns the files, as on the other nodes")
	f.WouldSee = "PermissionError: [Errno 13] Permission denied, when a node changes a file that another node wrote"
	f.Remedy = []fix.Command{
		fix.On("id -u; findmnt -T %s -o SOURCE,OPTIONS", fix.Path(s.path)).As(fix.Look),
		fix.Note("export the share to these nodes as to the others (in /etc/exports: root_squash, all_squash, anonuid), or give the user the same ID on every node"),
	}
	return []checks.Finding{f}
}
