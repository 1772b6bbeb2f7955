// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

var DiskSpace = checks.Check{
	ID:       "disk-space",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionDisk},
	Volatile: true,
	Run: checks.OnEach(func(v checks.View, node *facts.Node) (findings []checks.Finding) {
		foreign, place := otherUser(v, node)
		if foreign != nil {
			findings = append(findings, *foreign)
		}
		for _, group := range fileSystems(usedPlaces(v, node)) {
			if foreign != nil && group[0].Owner != nil && *group[0].Owner == *place.Owner && !group[0].Writable {
				continue // the user ID is the cause
			}
			found := judgePlaces(v, node, group)
			for i := range found {
				if wouldSee := lacksTemporary(v, node); found[i].Verdict == checks.Warn && wouldSee != "" && slices.ContainsFunc(group, isTemporary) {
					found[i].Verdict, found[i].WouldSee = checks.Fail, wouldSee
				}
			}
			findings = append(findings, found...)
		}
		return append(findings, longForSockets(v, node)...)
	}),
}

// otherUser returns the finding for a node on which the login user has another user ID than on the
// nodes to which the shared home or working directory belongs. The files there then belong to
// another user. It also returns that directory.
func otherUser(v checks.View, node *facts.Node) (*checks.Finding, *facts.Place) {
	if node.Host == nil || node.Host.UID == nil || *node.Host.UID == 0 {
		return nil, nil
	}
	for i := range node.Disk.Places {
		place := &node.Disk.Places[i]
		if place.Role != facts.PlaceWorkDir && place.Role != "home" || place.Owner == nil || *place.Owner == *node.Host.UID {
			continue
		}
		owns := compare.Without(v.Nodes, func(n *facts.Node) bool {
			return n.Host == nil || n.Host.UID == nil || n.Host.User != node.Host.User || *n.Host.UID != *place.Owner
		})
		if len(owns) == 0 {
			continue
		}
		user := node.Host.User
		return &checks.Finding{
			Verdict:  checks.Warn,
			Summary:  fmt.Sprintf("%s has user ID %d, but the shared files belong to %d", user, *node.Host.UID, *place.Owner),
			Got:      fmt.Sprintf("%s is user %d; %s belongs to user %d", user, *node.Host.UID, place.Path, *place.Owner),
			Want:     fmt.Sprintf("user ID %d for %s, as on %s", *place.Owner, user, hostfile.Fold(checks.NamesOf(owns))),
			WouldSee: "PermissionError: [Errno 13] Permission denied, or files that other nodes may not change",
			Remedy: []fix.Command{
				fix.On("id %s; ls -ldn %s", fix.Name(user), fix.Path(place.Path)).As(fix.Look),
				fix.Note("give %s the same user ID on every node: usermod -u, or one directory service for all nodes", fix.Text(user)),
			},
		}, place
	}
	return nil, nil
}

const (
	// longestSocket is the largest number of bytes in the path of a socket (unix(7), sun_path,
	// without the terminating zero that Python adds).
	longestSocket = 107
	// socketInTemporary is what Python's multiprocessing appends to the temporary directory for its
	// sockets. DataLoader workers hand over tensors through such a socket, and so do managers.
	//
	// Source: Python 3.11, Lib/multiprocessing/util.py, get_temp_dir, and connection.py,
	// arbitrary_address; torch 2.15, multiprocessing/reductions.py, reduce_storage.
	socketInTemporary = "/pymp-XXXXXXXX/listener-XXXXXXXX"
	// sparesTemporary is the release since which multiprocessing replaces a temporary directory
	// with a long path by /tmp (python/cpython 132124, Misc/NEWS.d/3.14.0b2.rst).
	sparesTemporary = "3.14"
)

// longForSockets returns the finding for a temporary directory whose path is too long for sockets.
// Python uses no directory that does not exist or is not writable: it replaces it by /tmp without a
// message.
func longForSockets(v checks.View, node *facts.Node) []checks.Finding {
	at := slices.IndexFunc(node.Disk.Places, func(p facts.Place) bool { return isTemporary(&p) })
	if at < 0 || node.Python != nil && node.Python.Version != "" && !hostfile.Before(node.Python.Version, sparesTemporary) {
		return nil
	}
	place, longest := &node.Disk.Places[at], longestSocket-len(socketInTemporary)
	if len(place.Path) <= longest || !place.Exists || !place.Writable || place.ReadOnly || ranks.Moved(v, node, place) {
		return nil
	}
	f := checks.Finding{
		Summary: fmt.Sprintf("TMPDIR has %d bytes: too long for the sockets of DataLoader workers", len(place.Path)),
		Got:     fmt.Sprintf("%d bytes: TMPDIR=%s", len(place.Path), place.Path),
		Want:    fmt.Sprintf("at most %d bytes: Python adds %s, and a socket's path has at most %d", longest, socketInTemporary, longestSocket),
		Remedy:  []fix.Command{ranks.SearchSession("TMPDIR"), ranks.ExportLine(v.Launch, "TMPDIR", "/tmp")},
	}
	if _, isExported := ranks.Exported(v, "TMPDIR"); isExported {
		f.Remedy = ranks.TakeOut(v, ranks.Env(v, node).Get("TMPDIR"))
	}
	forWorkers(v, node, &f, "OSError: AF_UNIX path too long")
	return []checks.Finding{f}
}

// usedPlaces returns the places to which the launch writes. It leaves out places that the launch's
// exports move elsewhere, because the probe looked where the environment of its own session
// pointed.
func usedPlaces(v checks.View, node *facts.Node) (used []*facts.Place) {
	isElsewhere := func(place *facts.Place) bool {
		if strings.HasPrefix(place.Role, "offload-") || strings.HasPrefix(place.Role, facts.RoleShared) || place.Role == "var-tmp" {
			return true // offload-path and shared-directory check the first two kinds of places, and the third kind is only a fallback
		}
		if place.Role != facts.RoleOutput && slices.ContainsFunc(v.Launch.Places, func(p facts.LaunchFile) bool { return p.Role == place.Role }) {
			return true // ranks only read this place, or only rank 0 writes to it
		}
		if script := ranks.ScriptAt(v.Launch, node); place.Role == facts.PlaceWorkDir && (!place.Writable || place.ReadOnly) && script != nil && script.WritesNothing {
			return true // a launcher writes nothing there
		}
		if place.Role == "torch-extensions" && len(v.Launch.Ops()) > 0 && (!place.Writable || place.ReadOnly || place.NoExec) {
			return true // deepspeed-ops reports this place
		}
		return ranks.Moved(v, node, place)
	}
	for i := range node.Disk.Places {
		if place := &node.Disk.Places[i]; !isElsewhere(place) {
			used = append(used, place)
		}
	}
	return used
}

func isTemporary(place *facts.Place) bool { return place.Role == "tmp" }

// lacksTemporary returns the error of a launch that cannot start on a node because the node has no
// usable temporary directory. It returns "" if the node has one. Open MPI uses only the first
// directory. torchrun writes its logs to the first directory that accepts a file of four bytes. A
// directory that the probe did not report counts as usable.
//
// Source: Python 3.11, Lib/tempfile.py, _get_default_tempdir; torch 2.15,
// torch/distributed/elastic/multiprocessing/api.py, DefaultLogsSpecs.
func lacksTemporary(v checks.View, node *facts.Node) (wouldSee string) {
	var needed []string
	space := int64(4 << 10) // the size of the one page that the four bytes occupy
	switch session := v.Launch.StartedBy().SessionSpace; {
	case session > 0:
		space, needed, wouldSee = session, []string{"tmp"}, "A call to mkdir was unable to create the desired directory: …/ompi.{node}.0, or PMIX ERROR: OUT-OF-RESOURCE"
	case v.Launch.Torchrun():
		needed, wouldSee = []string{"tmp", "var-tmp", "workdir"}, "FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp', '/usr/tmp', …]"
	default:
		return ""
	}
	places := slices.DeleteFunc(slices.Clone(node.Disk.Places), func(p facts.Place) bool { return !slices.Contains(needed, p.Role) })
	takes := func(place facts.Place) bool {
		hasInodes := place.FreeInodes > 0 || !slices.Contains(ranks.CountInodes, place.FSType)
		return place.Problem != "" || place.Writable && !place.ReadOnly && place.Free >= space && hasInodes
	}
	if len(places) < len(needed) || slices.ContainsFunc(places, takes) {
		return ""
	}
	return wouldSee
}

func fileSystems(places []*facts.Place) (groups [][]*facts.Place) {
	for _, place := range places {
		i := slices.IndexFunc(groups, func(g []*facts.Place) bool {
			return g[0].Source == place.Source && g[0].Free == place.Free && g[0].Problem == place.Problem &&
				g[0].Writable == place.Writable && g[0].ReadOnly == place.ReadOnly && g[0].NoExec == place.NoExec && g[0].InTheWay == place.InTheWay
		})
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], place)
	}
	return groups
}

func judgePlaces(v checks.View, node *facts.Node, places []*facts.Place) []checks.Finding {
	first, wanted := places[0], v.Policy.DiskFree
	hasInodes := first.FreeInodes >= fewInodes || !slices.Contains(ranks.CountInodes, first.FSType)
	if first.Problem == "" && first.Writable && !first.ReadOnly && !first.NoExec && first.Free >= wanted && hasInodes {
		return nil
	}
	roles := text.Map(places, func(place *facts.Place) string { return place.Role })
	f := checks.Finding{Verdict: checks.Warn}
	on := fmt.Sprintf("%s, %s on %s", first.Path, first.FSType, first.Source)
	what := strings.Join(roles, ", ")
	dir := fix.Path(first.Path)
	if !text.IsPlain(first.Path) {
		dir = "." // commands must not contain a name that a shell would split
	}
	switch {
	case first.Problem != "":
		return []checks.Finding{checks.UnknownFor(node, fmt.Sprintf("disk: %s (%s): %s", what, first.Path, first.Problem))}
	case first.ReadOnly || !first.Writable:
		if slices.Equal(roles, []string{"hf-cache"}) {
			return nil // a cache of models is often shared and read-only on purpose
		}
		f.Summary = "not writable: " + what
		f.Got = on
		f.Want = "a directory that the user who launches can write"
		if first.InTheWay != "" {
			f.Got += ": " + first.InTheWay + " is not a directory"
		}
		f.Remedy = []fix.Command{
			fix.On("ls -ld %s; findmnt -T %[1]s", dir).As(fix.Look),
			fix.Note("give the user who launches write access to the directory, or make the launch use another directory"),
		}
		f.WouldSee = "PermissionError: [Errno 13] Permission denied, or FileNotFoundError: No usable temporary directory found"
		if slices.Contains(roles, facts.RoleOutput) {
			f.WouldSee = "RuntimeError: … open file failed with strerror: " + whyUnwritable(first)
			if script := ranks.ScriptAt(v.Launch, node); script != nil && script.Saves && node.Name == names.FirstHost(v) {
				f.Verdict = checks.Fail // its rank 0 saves there
			}
		}
	case first.NoExec && slices.ContainsFunc(roles, loadsCode):
		roles = slices.DeleteFunc(roles, func(r string) bool { return !loadsCode(r) })
		f.Summary = "mounted noexec, so compiled kernels cannot be loaded: " + strings.Join(roles, ", ")
		f.Got = on + ", noexec"
		variables := text.Map(roles, func(role string) string { return codeCaches[role].variable })
		f.Want = "a file system without noexec, or another directory in " + text.List(variables)
		f.Remedy = []fix.Command{fix.On("findmnt -T %s", dir).As(fix.Look)}
		for _, role := range roles {
			f.Remedy = append(f.Remedy, ranks.ExportLine(v.Launch, codeCaches[role].variable, codeCaches[role].elsewhere))
		}
		f.Remedy = fix.Steps(f.Remedy...)
		f.WouldSee = "ImportError: fused_adam.so: failed to map segment from shared object"
	case first.Free < wanted:
		free, least := compare.Apart(first.Free, wanted)
		f.Summary = fmt.Sprintf("too little disk space (%s free): %s", humanize.IBytes(uint64(first.Free)), what)
		f.Got = fmt.Sprintf("%s free of %s at %s (%s)", free, humanize.IBytes(uint64(first.Total)), first.Path, first.Source)
		f.Want = "at least " + least + " free"
		f.Remedy = []fix.Command{fix.On("df -h %s", dir).As(fix.Look), fix.On("du -xh -d 2 %s | sort -h | tail", dir).As(fix.Look), freeUp}
	case !hasInodes:
		f.Summary = fmt.Sprintf("too few inodes (%d free): %s", first.FreeInodes, what)
		f.Got = fmt.Sprintf("%d inodes free at %s (%s)", first.FreeInodes, first.Path, first.Source)
		f.Want = fmt.Sprintf("at least %d inodes free", fewInodes)
		f.Remedy = []fix.Command{fix.On("df -i %s", dir).As(fix.Look), fix.On("du -x --inodes -d 2 %s | sort -n | tail", dir).As(fix.Look), freeUp}
	default:
		return nil
	}
	return []checks.Finding{f}
}

// whyUnwritable returns the kernel's error for a new file in a place that is not writable.
func whyUnwritable(place *facts.Place) string {
	switch {
	case place.InTheWay != "":
		return "Not a directory"
	case place.ReadOnly:
		return "Read-only file system"
	}
	return "Permission denied"
}

var freeUp = fix.Note("delete files that are no longer needed, or make the launch use a directory on another disk")

// codeCaches lists the places from which compiled code is loaded, by role. Each entry has the
// variable that moves the place, and a directory to which the place can be moved.
var codeCaches = map[string]struct{ variable, elsewhere string }{
	"triton-cache":     {"TRITON_CACHE_DIR", "/var/tmp/triton"},
	"inductor-cache":   {"TORCHINDUCTOR_CACHE_DIR", "/var/tmp/torchinductor"},
	"torch-extensions": {"TORCH_EXTENSIONS_DIR", "/var/tmp/torch_extensions"},
}

func loadsCode(role string) bool {
	_, is := codeCaches[role]
	return is
}

var CacheLocal = checks.Check{
	ID:       "cache-local",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionDisk},
	Volatile: true,
	Run: func(view checks.View) []checks.Finding {
		if len(view.All) < 2 {
			return checks.Skipped("one node shares no cache with another node")
		}
		if !slices.ContainsFunc(view.Nodes, func(n *facts.Node) bool { return ranks.Caches(view, n) != nil }) {
			return checks.Skipped("the launch uses none of the compilers that this check knows")
		}
		return text.Map(ranks.CrowdedCaches(view), func(crowd ranks.Crowd) checks.Finding { return crowded(view, crowd) })
	},
}

func crowded(view checks.View, crowd ranks.Crowd) checks.Finding {
	f := checks.Finding{
		Nodes:   checks.NamesOf(crowd.Nodes),
		Summary: "several nodes compile into the same NFS directory: " + crowd.Role,
		Got:     fmt.Sprintf("%s, %s on %s", crowd.Path, crowd.FSType, crowd.Source),
		Want:    crowd.Variable + " on a local disk of each node",
	}
	if dir := crowd.Elsewhere(); dir != "" {
		f.Remedy = []fix.Command{ranks.ExportLine(view.Launch, crowd.Variable, dir)}
	} else {
		f.Remedy = []fix.Command{fix.Note("export %s to every rank, with a directory on a local disk of each node", fix.Variable(crowd.Variable))}
	}
	return f
}
