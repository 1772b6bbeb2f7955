//go:build linux && cgo

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"preflight/facts"
)

// fabric asks for the GPU's place among the NVSwitches, in whichever form the
// driver knows. The plain one, of the first drivers, tells nothing of its health.
func (c *card) fabric() {
	const versioned, plain = "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"
	second := func() (nvml.GpuFabricInfo_v2, nvml.Return) { return c.device.GetGpuFabricInfoV().V2() }
	third := func() (nvml.GpuFabricInfo_v3, nvml.Return) { return c.device.GetGpuFabricInfoV().V3() }
	if info, ok := told(c.asker, second, versioned); ok {
		c.setFabric(info.State, info.Status, info.ClusterUuid, info.CliqueId, info.HealthMask)
	} else if info, ok := told(c.asker, third, versioned); ok {
		c.setFabric(info.State, info.Status, info.ClusterUuid, info.CliqueId, info.HealthMask)
	} else if info, ok := told(c.asker, c.device.GetGpuFabricInfo, plain); ok {
		c.setFabric(info.State, info.Status, info.ClusterUuid, info.CliqueId, 0)
	}
}

// fabricStates are NVML_GPU_FABRIC_STATE_* in their order (nvml.h).
var fabricStates = []string{"not-supported", "not-started", "in-progress", "completed"}

func (c *card) setFabric(state uint8, status uint32, cluster [16]uint8, clique, health uint32) {
	if int(state) >= len(fabricStates) {
		return
	}
	seen := &facts.GPUFabric{State: fabricStates[state], Clique: int(clique), Degraded: degraded(health)}
	if ret := nvml.Return(status); state == nvml.GPU_FABRIC_STATE_COMPLETED && ret != nvml.SUCCESS {
		seen.Status = c.words(ret) // before it is completed, it means nothing
	}
	if cluster != [16]uint8{} {
		seen.Cluster = fmt.Sprintf("%x-%x-%x-%x-%x", cluster[:4], cluster[4:6], cluster[6:8], cluster[8:10], cluster[10:])
	}
	c.seen.Fabric = seen
}

// degraded reads the health mask: pairs of bits that say 1 for trouble, and four
// that count the ways of being configured wrongly from 2 on (nvml.h,
// NVML_GPU_FABRIC_HEALTH_MASK_*).
func degraded(health uint32) []string {
	var names []string
	for _, trouble := range []struct {
		name  string
		shift int
	}{
		{"bandwidth", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW},
		{"route-recovery", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY},
		{"route", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY},
		{"access-timeout", nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY},
	} {
		if health>>trouble.shift&0x3 == 1 {
			names = append(names, trouble.name)
		}
	}
	configuration := health >> nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION & nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_INCORRECT_CONFIGURATION
	if configuration > nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE {
		names = append(names, "configuration")
	}
	return names
}
