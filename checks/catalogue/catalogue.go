// SPDX-License-Identifier: Apache-2.0

// Package catalogue lists every check in the order of the report. It also says what the result of a
// run means for each node.
//
// The texts of the checks are in the packages of their families.
package catalogue

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/engine"
	"preflight/checks/fabric"
	"preflight/checks/gpu"
	"preflight/checks/host"
	"preflight/checks/knownbad"
	"preflight/checks/launcher"
	"preflight/checks/network"
	"preflight/checks/rehearsal"
	"preflight/checks/smoke"
	"preflight/checks/software"
	"preflight/checks/ssh"
)

// Catalogue lists every check in the order of the report. The checks of the way to a node come
// first, then the checks of the machine, its software and its network. IDs are a contract: they are
// stable and never reused.
var Catalogue = slices.Concat(tests, []checks.Check{
	rehearsal.After(tests),

	agreement.Drift,
	agreement.Expectation,
	engine.PolicyInForce, // must be last, because it reports which waivers were not needed
})

// tests lists the checks that test something, each of which may report why a rehearsal failed.
var tests = []checks.Check{
	ssh.Reach,
	ssh.HostKey,
	ssh.Login,
	ssh.Shell,
	ssh.Inside,
	ssh.BetweenNodes,
	ssh.AgentStart,

	host.Distinct,
	host.Names,
	launcher.Ready,
	launcher.Args,
	launcher.Env,

	launcher.RunsInside,
	launcher.WorkdirPresent,
	launcher.ScriptSame,
	software.ModuleShadowed,
	gpu.SlotsFit,
	software.PythonSame,
	software.TorchSame,
	software.NCCLSame,
	software.ProtobufSame,
	software.DeepSpeedSame,
	software.PackagesSame,
	software.ProtobufWorks,
	software.NCCLLoaded,
	software.DeepSpeedConfig,
	software.DeepSpeedOps,
	launcher.OffloadPath,
	launcher.DataShared,
	launcher.SharedDirectory,
	launcher.ModelCached,
	knownbad.KnownBad,
	network.EnvSame,
	network.EnvSane,

	host.SHMSize,
	host.SHMWritable,
	host.SHMLeftovers,
	host.SHMLimits,
	host.NUMAMemory,

	host.MemlockLimit,
	host.OpenFilesLimit,
	host.ProcessLimit,
	host.CPUShare,
	host.AcceptBacklog,
	host.DiskSpace,
	host.CacheLocal,
	host.MemoryAvailable,
	host.OOMKill,
	host.ClockSkew,

	gpu.DriverLoads,
	gpu.Count,
	gpu.ModelSame,
	gpu.DriverSame,
	gpu.DriverRunsCUDA,
	gpu.NCCLFits,
	gpu.Healthy,
	gpu.Idle,
	gpu.Mode,
	gpu.Throttle,
	gpu.Links,
	gpu.PeerAccess,
	gpu.Fabric,
	gpu.IMEX,
	gpu.Direct,
	gpu.NICAffinity,
	gpu.TopologyFile,

	network.NICChoice,
	network.NICSame,
	network.GlooAddress,
	network.Overlay,
	network.ContainerNetworks,
	network.NeighbourTable,
	network.NodeMesh,
	network.PathMTU,
	network.MasterAddress,
	network.MasterPortFree,
	network.Rendezvous,
	launcher.CallBack,
	launcher.HubReach,
	software.NCCLPlugin,
	fabric.Links,
	fabric.Same,
	fabric.QoS,
	fabric.Counters,
	network.RailMesh,

	network.Throughput,

	smoke.Computes,
	smoke.Copies,
	smoke.Node,
	smoke.Collective,
	smoke.Speed,
}

// NotCovered describes problems that can end a launch and that no check of a run tested, with the
// flags that test them. It returns "" if there are none. The smoke test sends over the network that
// the ranks will use, so it covers InfiniBand and RoCE.
func NotCovered(outcomes []checks.Outcome) string {
	tried := func(check checks.Check) bool {
		return slices.ContainsFunc(outcomes, func(o checks.Outcome) bool {
			return o.Check == check.ID && o.Verdict != checks.Unknown && o.Verdict != checks.Skip
		})
	}
	var left []string
	if !tried(smoke.Collective) {
		left = append(left, "InfiniBand and RoCE traffic")
	}
	if !tried(smoke.Computes) {
		left = append(left, "GPU compute")
	}
	var all []string
	skipped := func(check checks.Check, reason string) bool {
		return slices.ContainsFunc(outcomes, func(o checks.Outcome) bool { return o.Check == check.ID && o.Reason == reason })
	}
	if skipped(launcher.ScriptSame, launcher.NoCommand) {
		if skipped(host.AcceptBacklog, host.NoRanks) {
			all = append(all, "GPUs, CPUs and memory for the ranks (-w NODE:8 gives a node 8 ranks)")
		}
		all = append(all, "the launch's script and what it imports (-- COMMAND)")
	}
	if left != nil {
		all = append(all, strings.Join(left, ", ")+" (--smoke)")
	}
	if slices.ContainsFunc(outcomes, func(o checks.Outcome) bool { return o.Check == "rehearsal" && o.Verdict == checks.Pass }) {
		all = append(all, "the training's own code, its memory and its data (nothing tries them beforehand)")
	}
	if slices.ContainsFunc(outcomes, notMeasured) {
		all = append(all, "link speed (--throughput)")
	}
	return strings.Join(all, "; ")
}

// notMeasured reports whether the run did not measure the speed of links.
func notMeasured(o checks.Outcome) bool {
	return o.Check == network.Throughput.ID && o.Verdict == checks.Skip && strings.Contains(o.Reason, "--throughput")
}

// Lookup returns the check with this ID, and whether there is one.
func Lookup(id string) (checks.Check, bool) {
	i := slices.IndexFunc(Catalogue, func(c checks.Check) bool { return c.ID == id })
	if i < 0 {
		return checks.Check{}, false
	}
	return Catalogue[i], true
}
