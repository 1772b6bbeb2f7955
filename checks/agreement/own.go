// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"regexp"
	"strings"
	"sync"

	"preflight/facts"
)

// Uncompared is a set of facts that a saved run records, but that preflight never compares with the
// same node's earlier values.
type Uncompared struct{ Facts, Why string }

// NeverCompared lists facts that naturally differ between nodes and whose changes mean nothing. All
// other facts are compared.
var NeverCompared = []Uncompared{
	{"env.nccl.*.source", "the value is compared, wherever it is set"},
	{"env.vars.*.source", "the value is compared, wherever it is set"},
	{"gpu.driver", "gpu.devices and nvml.cards describe the same GPUs, and the firmware numbers the bus"},
	{"gpu.on_bus", "gpu.devices and nvml.cards describe the same GPUs, and the firmware numbers the bus"},
	{"gpu.xids_unread", "it says only that the account could not read the log"},
	{"ib.devices.*.path", "the firmware numbers the bus"},
	{"ib.devices.*.ports.*.gids", "derived from guid and addresses, which are compared"},
	{"ib.devices.*.ports.*.lid", "assigned again by the subnet manager"},
	{"ib.devices.*.verbs", "numbered at boot"},
	{"net.routes", "they follow the interfaces, which are compared; node-mesh tests where they lead"},
	{"nvml.cards.*.address", "the firmware numbers the bus; uuid identifies a GPU"},
	{"nvml.cards.*.failure.call", "failure.kind is compared"},
	{"nvml.cards.*.failure.code", "failure.kind is compared"},
	{"nvml.cards.*.failure.text", "failure.kind is compared"},
	{"nvml.cards.*.minor", "numbered when the driver is loaded"},
	{"nvml.cards.*.nvlinks.remotes", "the firmware numbers the bus"},
	{"nvml.cards.*.serial", "uuid identifies a GPU"},
	{"nvml.failure.call", "failure.kind is compared"},
	{"nvml.failure.code", "failure.kind is compared"},
	{"nvml.failure.text", "failure.kind is compared"},
	{"nvml.hidden", "nvml.cards lists what a session sees"},
	{"nvml.unshown", "nvml.cards lists what a session sees"},
	{"python.unfound", "python.packages is compared, and the list of modules follows the script"},
	{"ssh.cause", "whether a node is reached, and why not, is compared as such"},
	{"ssh.detail.*", "whether a node is reached, and why not, is compared as such"},
	{"ssh.message", "whether a node is reached, and why not, is compared as such"},
	{"ssh.openssh", "it follows the ssh configuration of the user who launches"},
	{"ssh.stage", "whether a node is reached, and why not, is compared as such"},
	{"ssh.user", "host.user is compared"},
	{"toolchain.lock", "a running build holds it"},
}

// leftOut returns the patterns of NeverCompared by section. A single pattern for all sections would
// dominate the time of a comparison.
var leftOut = sync.OnceValue(func() map[string]*regexp.Regexp {
	bySection := map[string][]string{}
	for _, left := range NeverCompared {
		section, _, _ := strings.Cut(left.Facts, ".")
		bySection[section] = append(bySection[section], PathPattern(left.Facts, ".+").String())
	}
	patterns := map[string]*regexp.Regexp{}
	for section, any := range bySection {
		patterns[section] = regexp.MustCompile(strings.Join(any, "|"))
	}
	return patterns
})

func isLeftOut(path string) bool {
	section, _, _ := strings.Cut(path, ".")
	pattern := leftOut()[section]
	return pattern != nil && pattern.MatchString(path)
}

// OwnFacts returns the facts that naturally differ between nodes and that preflight compares with
// the same node's earlier values.
var OwnFacts = sync.OnceValue(func() (paths []string) {
	for _, d := range facts.DescribedOwn() {
		if !isLeftOut(d.Path) {
			paths = append(paths, d.Path)
		}
	}
	return paths
})
