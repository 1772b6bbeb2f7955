// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

var IMEX = checks.Check{
	ID:       "gpu-imex",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionGPU},
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := judgedNVIDIA(view)
		transports := nccl.NewTransports(view.Launch, view.All)
		joined := compare.Without(nodes, func(n *facts.Node) bool { return transports.Domain(n) == "" })
		if len(nodes) > 0 && len(joined) == 0 {
			return append(findings, checks.Skipped("NCCL shares no GPU memory between machines")...)
		}
		checked := compare.Without(joined, func(n *facts.Node) bool { return n.GPU.IMEX == nil })
		for _, node := range joined {
			if node.GPU.IMEX == nil {
				findings = append(findings, checks.UnknownFor(node, "gpu: IMEX was not checked"))
				continue
			}
			findings = append(findings, checks.OfNode(node, slices.Concat(closedChannels(node), idleIMEX(node))...)...)
		}
		for _, domain := range text.GroupBy(checked, transports.Domain) {
			findings = append(findings, unlikePeers(domain.All)...)
		}
		return findings
	},
}

// closedChannels returns a finding for a node without a usable IMEX channel. On such a node, NCCL
// from 2.25 to before 2.27.3 behaves as if the machine had no NVLink to other machines.
//
// Source: NVIDIA/nccl 2.25.1, 2.27.3 and 2.30.7, mnnvl.cc, ncclMnnvlCheck; the administrator or the
// kernel module creates the nodes: NVIDIA/open-gpu-kernel-modules 560, nvidia/nv-caps-imex.c.
func closedChannels(node *facts.Node) []checks.Finding {
	var refused []string
	for _, channel := range node.GPU.IMEX.Channels {
		if channel.Problem == "" {
			return nil
		}
		refused = append(refused, channel.Path+": "+channel.Problem)
	}
	container := ranks.ContainerOf(node)
	f := checks.Finding{
		Summary:  "no IMEX channel: ranks cannot share GPU memory with other machines",
		Want:     "/dev/nvidia-caps-imex-channels/channel0, which every rank can read and write",
		WouldSee: "NCCL WARN MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX channel configuration (/dev/nvidia-caps-imex-channels). Set NCCL_MNNVL_ENABLE=0 to ignore this issue.",
		Remedy:   remedy.Anew(container, remedy.IMEXChannel),
	}
	if refused != nil {
		f.Summary, f.Got = "ranks cannot open an IMEX channel to share GPU memory with other machines", strings.Join(refused, ", ")
	}
	switch {
	case f.Remedy != nil:
	case container != "":
		f.Remedy = []fix.Command{fix.Note("start the container of {nodes} again with its machine's /dev/nvidia-caps-imex-channels/channel0; in Kubernetes a ComputeDomain provides it")}
	case refused != nil:
		f.Remedy = []fix.Command{fix.On("ls -l /dev/nvidia-caps-imex-channels; id   # shows who may open them").As(fix.Look), fix.On("sudo chmod a+rw /dev/nvidia-caps-imex-channels/channel0   # if jobs need no isolation from each other")}
	default:
		f.Remedy = []fix.Command{
			fix.On(`sudo mkdir -p /dev/nvidia-caps-imex-channels && sudo mknod -m 666 /dev/nvidia-caps-imex-channels/channel0 c $(awk '$2 == "nvidia-caps-imex-channels" {print $1}' /proc/devices) 0   # until the next boot`),
			fix.Note("to keep it after a reboot, add options nvidia NVreg_CreateImexChannel0=1 to /etc/modprobe.d and rebuild the initramfs"),
			fix.Note("if Slurm gives jobs their channels (SwitchType=switch/nvidia_imex), run preflight inside the job"),
		}
	}
	if version := nccl.Version(node); version != "" && !hostfile.Before(version, "2.25") && hostfile.Before(version, "2.27.3") {
		f.Verdict, f.WouldSee = checks.Warn, "no message: NCCL "+version+" uses the network between machines"
	}
	return []checks.Finding{f}
}

// idleIMEX returns a finding for a machine whose IMEX service is not running.
func idleIMEX(node *facts.Node) []checks.Finding {
	seen := node.GPU.IMEX
	if seen.Running || seen.State == "active" || ranks.ContainerOf(node) != "" {
		return nil
	}
	f := checks.Finding{
		Summary: "the IMEX service is not running", Got: seen.State, Want: "nvidia-imex running",
		Remedy: []fix.Command{fix.On("sudo systemctl enable --now nvidia-imex"), fix.On("sudo journalctl -u nvidia-imex -n 20   # if the service stops again").As(fix.Look)},
	}
	if !seen.Installed {
		f.Summary = "the IMEX service is not installed"
		f.Remedy = []fix.Command{fix.Note("install nvidia-imex in the driver's version on {nodes}, from NVIDIA's repository, and list the machines of the NVLink domain in /etc/nvidia-imex/nodes_config.cfg"), f.Remedy[0]}
	}
	return []checks.Finding{f}
}

// unlikePeers compares the lists of machines that the IMEX services of one NVLink domain have. A
// service compares its list with the lists of all other services, and does not start if they
// differ.
//
// Source: NVIDIA, IMEX Service for NVLink Networks, Deployment Models, Constraints.
func unlikePeers(nodes []*facts.Node) (findings []checks.Finding) {
	listed := compare.Without(nodes, func(n *facts.Node) bool { return n.GPU.IMEX.Peers == nil || ranks.ContainerOf(n) != "" })
	lists := fix.On("grep -v '^#' /etc/nvidia-imex/nodes_config.cfg; nvidia-imex-ctl -N").As(fix.Look)
	again := fix.On("sudo systemctl restart nvidia-imex   # on all machines of the domain, when the lists are the same and no job runs there").As(fix.Or)
	edit := fix.Note("give all machines of the NVLink domain the same /etc/nvidia-imex/nodes_config.cfg, then restart nvidia-imex on all of them")
	differences := compare.Differences(compare.Among(listed, "nodes_config.cfg", func(n *facts.Node) string { return strings.Join(n.GPU.IMEX.Peers, " ") }))
	if differences != nil {
		return compare.Findings("machine lists of the IMEX services", differences, checks.Finding{Remedy: []fix.Command{lists, again, edit}})
	}
	for _, node := range listed {
		if unknown := strangers(node, nodes); unknown != nil {
			findings = append(findings, checks.Finding{
				Nodes:   []string{node.Name},
				Summary: "the IMEX service does not list all nodes of this launch",
				Got:     fmt.Sprintf("%s listed, but no address of %s is among them", counted{int64(len(node.GPU.IMEX.Peers)), "machine"}, strings.Join(unknown, ", ")),
				Want:    "a nodes_config.cfg that lists every machine of the NVLink domain",
				Remedy:  []fix.Command{lists, again, edit},
			})
		}
	}
	return findings
}

// strangers returns the nodes that have no address in the list of the given node. It returns nil if
// the list contains names.
func strangers(node *facts.Node, nodes []*facts.Node) (names []string) {
	for _, peer := range node.GPU.IMEX.Peers {
		if _, err := netip.ParseAddr(peer); err != nil {
			return nil
		}
	}
	for _, other := range nodes {
		own := []string{other.Address}
		for _, each := range valueOf(other.Net).Interfaces {
			for _, address := range each.Addresses {
				bare, _, _ := strings.Cut(address, "/")
				own = append(own, bare)
			}
		}
		if other.Net != nil && !slices.ContainsFunc(node.GPU.IMEX.Peers, func(peer string) bool { return slices.Contains(own, peer) }) {
			names = append(names, other.Name)
		}
	}
	return names
}
