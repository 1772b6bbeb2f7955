// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch/nccl"
)

// saying is an error message that identifies a cause. Package explain knows many more messages, but
// it imports the checks, so the checks cannot import it.
type saying struct {
	texts  []string // the message contains any of these texts; they are in lower case
	means  string
	checks []string // checks that report the same cause; if one of them fails, only that check reports the cause
	fix    func(view checks.View, node *facts.Node) []fix.Command
}

// sayings lists the error messages in order: the first that matches is the closest to the cause.
// Texts of errno are those of glibc (2.36, sysdeps/gnu/errlist.h), which libraries append to their
// own texts.
var sayings = []saying{
	// NCCL 2.31, user guide, "Diagnostics": "NCCL DIAG [INFO] p2p: only 52/56 GPU-to-GPU peer
	// accesses passed verification".
	{[]string{"peer accesses passed verification"}, "GPUs read wrong data from each other", []string{"gpu-peer-access", "gpu-copies"}, only(
		fix.On("nvidia-smi topo -p2p rw; nvidia-smi nvlink -e").As(fix.Look),
		fix.On(`sudo dmesg -T | grep -iE "nvlink|xid|iommu"`).As(fix.Look),
	)},
	// NCCL 2.30.7, src/os/linux.cc, in older releases src/misc/shmutils.cc. The message has the
	// file's name, or "shared memory segment".
	{[]string{"/dev/shm", "shared memory"}, "no shared memory", []string{"shm-size", "shm-writable"}, only(
		fix.On("df -h /dev/shm; ls -l /dev/shm   # is it full, or not writable?").As(fix.Look),
	)},
	// NCCL 2.30.7, src/misc/ibvwrap.cc: "Call to ibv_reg_mr failed"; libibverbs 44, init.c, warns
	// of a low RLIMIT_MEMLOCK.
	{[]string{"ibv_reg_mr", "ibv_create_cq", "memlock"}, "memory cannot be locked", []string{"memlock-limit"}, ofNode(remedy.RaiseMemlock)},
	// The text of EMFILE, the error of any call that opens a file.
	{[]string{"too many open files"}, "the limit on open files is too low", []string{"open-files-limit"}, ofNode(remedy.RaiseOpenFiles)},
	// NCCL 2.30.7, src/bootstrap.cc, src/transport/net_socket.cc and net_ib/init.cc ("NET/IB : No
	// IP interface found.", about the sockets that set up connections); gloo cc441984,
	// gloo/transport/tcp/device.cc; torch 2.4 and 2.15, ProcessGroupGloo.cpp.
	{[]string{"no socket interface found", "no interface found", "no ip interface found", "no usable listening interface", "unable to find address", "unable to resolve hostname"}, "no usable network interface", []string{"nic-choice", "nic-same"}, only(
		fix.On("ip -br address; env | grep SOCKET_IFNAME").As(fix.Look),
	)},
	// NCCL 2.30.7, src/misc/ibvwrap.cc for calls. src/transport/net_ib/p2p.cc has the text for
	// completions: "NET/IB: Got completion from peer".
	{[]string{"ibv_", "net/ib"}, "InfiniBand or RoCE fails", []string{"ib-links", "ib-same"}, only(
		fix.On("ibstat; show_gids   # the port, its GID and its link layer").As(fix.Look),
		fix.On(`sudo dmesg -T | grep -iE "mlx5|infiniband"`).As(fix.Look),
	)},
	// The texts of CUDA's errors 214, 700, 715 and 719, and their names in cuda.h 12. "illegal
	// instruction" alone is a SIGILL of the process and not of a GPU.
	{[]string{"uncorrectable", "unspecified launch failure", "illegal memory access", "illegal instruction was encountered", "error_illegal_instruction"}, "the GPU or its memory is broken", []string{"gpu-healthy"}, only(
		fix.On(`sudo dmesg -T | grep -iE "nvlink|xid"`).As(fix.Look),
		fix.On("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT").As(fix.Look),
	)},
	// NCCL 2.30.7, src/transport/nvls.cc. CUDA's error follows, such as "out of memory".
	{[]string{"nvlink sharp (nvls)"}, "the NVSwitches provide no multicast memory", []string{"gpu-fabric"}, only(
		fix.On("systemctl status nvidia-fabricmanager").As(fix.Look),
		fix.Note("or export NCCL_NVLS_ENABLE=0 to every rank: NCCL 2.29 and later end instead of going on without NVLS"),
	)},
	// NCCL 2.26.2, src/graph/topo.h.
	{[]string{"could not find net with id"}, "NCCL cannot plan a tree between these nodes", []string{"known-bad"}, only(
		fix.Note("install NCCL 2.27.3 or later, as in torch 2.8"),
	)},
	// The texts of CUDA's error 802.
	{[]string{"system not yet initialized", "system_not_ready"}, "the NVSwitches are not set up", []string{"gpu-fabric"}, only(
		fix.On("systemctl status nvidia-fabricmanager").As(fix.Look),
	)},
	// The text of CUDA's error 2, and of the error of torch's allocator.
	{[]string{"out of memory"}, "out of memory", []string{"gpu-idle", "memory-available"}, only(
		fix.On("nvidia-smi; free -h; sudo dmesg -T | grep -i 'out of memory'").As(fix.Look),
	)},
	// The texts of CUDA's error 209.
	{[]string{"no kernel image", "no_binary_for_gpu"}, "the libraries have no code for this GPU", []string{"torch-same"}, only(
		fix.On("nvidia-smi --query-gpu=name,compute_cap --format=csv   # install a torch that is built for it").As(fix.Look),
	)},
	// The texts of glibc 2.36, elf/dl-load.c and elf/dl-lookup.c, which Python's ImportError
	// quotes. ModuleNotFoundError is CPython's own.
	{[]string{"cannot open shared object file", "undefined symbol", "importerror", "modulenotfounderror", "symbol lookup error"}, "a library cannot be loaded", []string{"python-same", "torch-same", "packages-same", "nccl-loaded"}, importTorch},
	// NCCL 2.30.7, src/misc/socket.cc ("Connection closed by remote peer") and src/os/linux.cc
	// ("connect to … failed : " and errno); gloo cc441984, gloo/transport/tcp/pair.cc ("Read error
	// …", "Connection closed by peer"), unbound_buffer.cc ("Timed out waiting …ms for recv") and
	// helpers.h ("timed out connecting"); torch 2.4 and 2.15: "Gloo connectFullMesh failed", and of
	// TCPStore "The client socket has timed out" and "wait timeout after".
	{[]string{"connection reset", "connection closed", "connection refused", "connection timed out", "no route to host", "connectfullmesh", "broken pipe", "timed out", "timeout"}, "data sent over the connection is lost", []string{"node-mesh", "path-mtu"}, cutOff},
}

// looking returns the IDs of all checks in sayings.
func looking() (ids []string) {
	for _, s := range sayings {
		ids = append(ids, s.checks...)
	}
	return ids
}

func only(commands ...fix.Command) func(checks.View, *facts.Node) []fix.Command {
	return func(checks.View, *facts.Node) []fix.Command { return commands }
}

func ofNode(remedy func(*facts.Node) []fix.Command) func(checks.View, *facts.Node) []fix.Command {
	return func(_ checks.View, node *facts.Node) []fix.Command { return remedy(node) }
}

func importTorch(view checks.View, _ *facts.Node) []fix.Command {
	if view.Launch.Interpreter == "" {
		return nil
	}
	return []fix.Command{fix.On("%s -X importtime -c 'import torch; print(torch.ones(1), torch.__file__)'   # which library fails, and where Python looks for torch", fix.Path(view.Launch.Interpreter)).As(fix.Look)}
}

// cutOff returns the commands that find the reason why a connection opens but its data is dropped.
func cutOff(_ checks.View, node *facts.Node) []fix.Command {
	return append(remedy.WithHostNetwork(node),
		fix.On("sudo iptables -S; sudo nft list ruleset   # look for DROP and REJECT, also by size or number: quota, connbytes, limit").As(fix.Look),
		fix.On("ip -s -s link   # errors and drops of the interface in use").As(fix.Look),
	)
}

// said returns the first saying that occurs in one of the lines, or nil if none does.
func said(lines ...string) *saying {
	for i := range sayings {
		if slices.ContainsFunc(lines, sayings[i].isIn) {
			return &sayings[i]
		}
	}
	return nil
}

// isIn reports whether a line contains the saying. It ignores NCCL's INFO lines, such as "NET/IB :
// Using …".
func (s *saying) isIn(line string) bool {
	line = strings.ToLower(line)
	return !strings.Contains(line, "nccl info") && slices.ContainsFunc(s.texts, func(text string) bool { return strings.Contains(line, text) })
}

// telling returns the line of a failure's log that contains a saying, or the last line if none
// does.
func telling(failure facts.SmokeFailure) string {
	lines := failure.Log
	if s := said(lines...); s != nil {
		return lines[slices.IndexFunc(lines, s.isIn)]
	}
	if len(lines) > 0 {
		return lines[len(lines)-1]
	}
	return ""
}

// meant returns the first saying that occurs in the failures. It leaves out messages about hangs,
// because they come from the rank that waited and not from a library.
func meant(failures []facts.SmokeFailure) *saying {
	var lines []string
	for _, failure := range failures {
		if failure.Kind != facts.SmokeHang && failure.Kind != facts.SmokeStuck {
			lines = append(lines, failure.Message)
		}
		lines = append(lines, failure.Log...)
	}
	return said(lines...)
}

// put adds the cause and the fix to a finding. Both come from the failures, or from fallback if the
// failures name no cause. If another check fails one of the nodes for the same cause, the finding
// becomes an unknown that refers to that check.
func put(view checks.View, f checks.Finding, node *facts.Node, failures []facts.SmokeFailure, fallback saying) checks.Finding {
	cause := cmp.Or(meant(failures), &fallback)
	for _, check := range cause.checks {
		failing := view.Failing(check)
		if slices.ContainsFunc(f.Nodes, func(name string) bool { return failing[name] }) {
			return checks.Finding{Verdict: checks.Unknown, Nodes: f.Nodes, Summary: f.Summary + ": see " + check, Explained: true}
		}
	}
	if cause.means != "" {
		f.Summary += ": " + cause.means
	}
	f.Remedy = cause.fix(view, node)
	return f
}

// have reports whether at least one of the failures is of one of the kinds.
func have(failures []facts.SmokeFailure, kinds ...facts.SmokeKind) bool {
	return slices.ContainsFunc(failures, func(f facts.SmokeFailure) bool { return slices.Contains(kinds, f.Kind) })
}

// wouldSee returns the error message of a library in the failures, or the text otherwise if there
// is none.
func wouldSee(failures []facts.SmokeFailure, otherwise string) string {
	for _, failure := range failures {
		switch failure.Kind {
		case facts.SmokeError, facts.SmokeCrash:
			return failure.Message
		case facts.SmokeWrong:
			return "no message: a loss that is NaN, or does not fall"
		}
	}
	return otherwise
}

// ofItself returns the cause for ranks of a single node that fail without an error message.
func ofItself(failures []facts.SmokeFailure) saying {
	if have(failures, facts.SmokeHang, facts.SmokeStuck) {
		return saying{fix: only(
			fix.On("ps -eo pid,stat,wchan:32,args | grep -E ' D[a-zA-Z<+]* '   # processes that wait for a file system or a driver").As(fix.Look),
			fix.On("sudo dmesg -T | tail -50").As(fix.Look),
		)}
	}
	return saying{fix: diagnose}
}

// ofTheWay is the cause for nodes that fail together without an error message: data does not
// arrive.
var ofTheWay = saying{checks: []string{"node-mesh", "path-mtu"}, fix: wordless}

// wordless returns the commands that find out why nodes hang without an error message. The most
// likely cause comes first: ranks chose an interface that does not lead to the other nodes, full
// packets are dropped, a firewall filters by more than the port, or a link loses packets.
func wordless(view checks.View, node *facts.Node) (way []fix.Command) {
	if i := slices.IndexFunc(view.All, func(n facts.Node) bool { return slices.Contains(node.Smoke.Against, n.Name) }); i >= 0 {
		way = between(view, node, &view.All[i])
	}
	return append(way, cutOff(view, node)...)
}

// between returns the commands that show the path from one node to another.
func between(view checks.View, node, peer *facts.Node) (way []fix.Command) {
	if ranks.UsesNCCL(view) {
		way = append(way, fix.Here("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET preflight -H {hostfile} --include %s --smoke -o json=smoke.json   # the log of the trials names the interface or port of each node", fix.Join("@", fix.Host(hostfile.Bare(node.Name)), fix.Host(hostfile.Bare(peer.Name)))).As(fix.Look))
	} else {
		way = append(way, fix.On("getent ahosts $(hostname); env | grep GLOO_SOCKET_IFNAME   # without the variable, gloo uses the address of the node's own name").As(fix.Look))
	}
	address := nccl.PeerAddress(peer).Address
	if address == "" || node.Net == nil {
		return way
	}
	way = append(way, fix.On("ip route get %s   # must use the right interface, not docker's", fix.Host(address)).At(node.Name).As(fix.Look))
	headers := 28 // headers of IP and ICMP, in bytes
	if strings.Contains(address, ":") {
		headers = 48
	}
	if mtu := names.InterfaceOf(node.Net, interfaceOf(node)).MTU; mtu > headers {
		way = append(way, fix.On("ping -c 3 -M do -s %s %s   # if this is lost and a smaller -s passes, the MTU of the path is too small", fix.Number(mtu-headers), fix.Host(address)).At(node.Name).As(fix.Look))
	}
	return way
}

// diagnose returns the commands that find the cause of wrong results.
func diagnose(view checks.View, _ *facts.Node) []fix.Command {
	if !ranks.UsesNCCL(view) {
		return []fix.Command{fix.On("sudo dmesg -T | grep -iE 'mce|edac|hardware error'   # CPU and memory errors").As(fix.Look)}
	}
	return []fix.Command{fix.On("dcgmi diag -r 3   # loads the GPUs for some minutes").As(fix.Look), fix.On(`sudo dmesg -T | grep -iE "nvlink|xid"`).As(fix.Look)}
}

// IDs of the checks that other checks of this package refer to.
const (
	computesID   = "gpu-computes"
	nodeID       = "collective-node"
	collectiveID = "collective"
)

// needs lists the sections that every check of this package needs.
var needs = []facts.Section{facts.SectionSmoke}

// took returns the nodes whose ranks were started, and an unknown for each other node. gpu-computes
// reports these unknowns unless gpu-computes is switched off.
func took(view checks.View, check string) (nodes []*facts.Node, found []checks.Finding) {
	for _, node := range view.Nodes {
		if node.Smoke.Refused == "" {
			nodes = append(nodes, node)
			continue
		}
		f := checks.UnknownFor(node, "the smoke test did not run: "+node.Smoke.Refused)
		f.Explained = check != computesID && !view.Policy.SwitchesOff(computesID)
		found = append(found, f)
	}
	return nodes, found
}

// leftTo returns an unknown for a node whose failure another check reports.
func leftTo(node *facts.Node, check string) checks.Finding {
	f := checks.UnknownFor(node, "the test did not get that far: see "+check)
	f.Explained = true
	return f
}

// timeUp returns an unknown for a node on which no time was left for a test.
func timeUp(node *facts.Node, what string) checks.Finding {
	f := checks.UnknownFor(node, "no time was left to test "+what)
	f.Remedy = []fix.Command{fix.Note("give the smoke test more time, for example --smoke-time=120s")}
	return f
}

// ranked names a rank by its device, or by its number if the rank has no device.
func ranked(node *facts.Node, local int) string {
	i := slices.IndexFunc(node.Smoke.Ranks, func(rank facts.SmokeRank) bool { return rank.LocalRank == local })
	if i < 0 || node.Smoke.Ranks[i].Device < 0 {
		return fmt.Sprintf("local rank %d", local)
	}
	rank := node.Smoke.Ranks[i]
	return fmt.Sprintf("GPU %d (%s)", rank.Device, cmp.Or(rank.Address, "address unknown"))
}

// happened describes the failure of a rank. The text includes the most informative line of the
// library's log.
func happened(failure facts.SmokeFailure) string {
	text := failure.Call
	switch failure.Kind {
	case facts.SmokeHang:
		text = "hangs in " + text
	case facts.SmokeStuck:
		text = "is stuck in " + text + " and ignores signals"
	case facts.SmokeCrash:
		text = "ended in " + text
	case facts.SmokeWrong:
		text += " gave a wrong answer"
	}
	if failure.Element != nil {
		text += fmt.Sprintf(": element %d is %s", *failure.Element, number(failure.Got))
		if failure.Want != nil {
			text += " and should be " + number(failure.Want)
		}
	}
	if failure.Message != "" {
		text += ": " + failure.Message
	}
	if line := telling(failure); line != "" && !strings.Contains(text, line) {
		text += "; " + line
	}
	return text
}

// number formats a value. nil stands for NaN, which JSON cannot express.
func number(value *float64) string {
	if value == nil {
		return "NaN"
	}
	return strconv.FormatFloat(*value, 'g', -1, 64)
}

// allHappened describes the failures of a node. It describes equal failures only once.
func allHappened(node *facts.Node, failures []facts.SmokeFailure) string {
	var texts []string
	met := map[string][]string{}
	for _, failure := range failures {
		text := happened(failure)
		if met[text] == nil {
			texts = append(texts, text)
		}
		if rank := ranked(node, failure.LocalRank); !slices.Contains(met[text], rank) {
			met[text] = append(met[text], rank)
		}
	}
	for i, text := range texts {
		texts[i] = strings.Join(met[text], ", ") + ": " + text
	}
	return strings.Join(texts, "; ")
}

// areAbsent reports whether all failures mean that the library for the test is missing. Such
// failures say nothing about the node.
func areAbsent(failures []facts.SmokeFailure) bool {
	return len(failures) > 0 && !slices.ContainsFunc(failures, func(f facts.SmokeFailure) bool { return f.Kind != facts.SmokeAbsent })
}

// wayOut returns an unknown whose remedy says how to run the test with another engine.
func wayOut(view checks.View, node *facts.Node, failures []facts.SmokeFailure) checks.Finding {
	f := checks.UnknownFor(node, "cannot run the test: "+failures[0].Call+": "+failures[0].Message)
	switch {
	case node.Smoke.Engine == "direct":
		f.Remedy = []fix.Command{fix.Note("use the other engine with --smoke=torch, and name the interpreter of the launch with --python")}
	case view.Launch.Accelerator == "cpu": // the other engine supports only GPUs
		f.Remedy = []fix.Command{fix.Note("name the interpreter of the launch with --python")}
	default:
		f.Remedy = []fix.Command{fix.Note("use the other engine with --smoke=direct, or name the interpreter of the launch with --python")}
	}
	return f
}

// share returns the rate as a percentage of another rate.
func share(rate, of float64) string { return fmt.Sprintf("%.0f %%", 100*rate/of) }

// stated returns the text of Want for a minimum rate that the policy sets.
func stated(least, setting string) string {
	return fmt.Sprintf("at least %s (policy %s)", least, setting)
}
