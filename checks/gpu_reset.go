package checks

import (
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

var (
	resetGPU = fix.On("sudo nvidia-smi --gpu-reset -i {gpus}   # once nothing uses it; or reboot")
	// resetGPUs is what becomes of it where GPUs can be reset together only.
	resetGPUs = fix.On("sudo nvidia-smi --gpu-reset   # all of them, as NVLink joins them, once nothing uses any; or reboot")

	// rebootNode ends whatever runs on a node, and not only a launch of ours.
	rebootNode = fix.On("sudo reboot   # once nobody's job runs there")
)

// resetTogether is whether a GPU can be reset only with all that NVLink joins it to:
// before Ampere, and on Ampere behind NVSwitches whose fabric manager does not run.
//
// Source: nvidia-smi(1), driver 550, --gpu-reset.
func resetTogether(node *facts.Node, card *facts.Card) bool {
	if card.NVLinks == nil || activeLinks(card) == 0 || card.Capability == "" {
		return false
	}
	asleep := node.GPU != nil && node.GPU.NVSwitches > 0 && (node.GPU.FabricManager == nil || !node.GPU.FabricManager.Running)
	return launch.Before(card.Capability, "8.0") || asleep && launch.Before(card.Capability, "9.0")
}
