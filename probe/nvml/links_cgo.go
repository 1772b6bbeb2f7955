// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"preflight/facts"
)

// link is one NVLink of a GPU.
type link struct {
	active bool
	speed  int64  // in one direction in bit/s; 0 if not reported
	kind   string // kind of the remote end: gpu, switch, other, or "" if not reported
	remote string // PCI address of the remote end, "" if not reported
}

const linkState = "nvmlDeviceGetNvLinkState"

// nvlinks asks for each link and stores properties that all links share only once.
func (c *card) nvlinks() {
	count := c.linkCount()
	if count == 0 {
		return
	}
	seen := &facts.NVLinks{Count: count}
	speeds := c.linkSpeeds(count)
	for index := range count {
		one := link{}
		state, ok := result(c.caller, bind(c.device.GetNvLinkState, index), linkState)
		if !ok && index == 0 {
			return // if the driver cannot be asked about links, the GPU counts as having none
		}
		if one.active = ok && state == nvml.FEATURE_ENABLED; one.active {
			one.speed = speeds[index]
			one.kind, one.remote = c.farEnd(index)
			c.linkErrors(index, seen)
		}
		c.links = append(c.links, one)
	}
	summarize(c.links, seen)
	c.seen.NVLinks = seen
}

// linkCount returns the number of links. If the driver is too old to report it, linkCount counts
// the links whose state the driver reports.
func (c *card) linkCount() int {
	if values := c.fields(field(nvml.FI_DEV_NVLINK_LINK_COUNT, 0)); values != nil && values[0].reported {
		return min(int(values[0].value), nvml.NVLINK_MAX_LINKS)
	}
	for index := range nvml.NVLINK_MAX_LINKS {
		if _, ok := result(c.caller, bind(c.device.GetNvLinkState, index), linkState); !ok {
			return index
		}
	}
	return nvml.NVLINK_MAX_LINKS
}

// linkSpeeds returns the speeds in bit/s by link. Newer drivers report the speed of every link, and
// older drivers the speeds of the first twelve links. The oldest drivers report the common speed of
// active links.
func (c *card) linkSpeeds(count int) []int64 {
	asked := []nvml.FieldValue{field(nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0)}
	for index := range count {
		old := uint32(nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON)
		switch {
		case index < 6:
			old = nvml.FI_DEV_NVLINK_SPEED_MBPS_L0 + uint32(index)
		case index < 12:
			old = nvml.FI_DEV_NVLINK_SPEED_MBPS_L6 + uint32(index-6)
		}
		asked = append(asked, field(nvml.FI_DEV_NVLINK_GET_SPEED, index), field(old, 0))
	}
	speeds := make([]int64, count)
	values := c.fields(asked...)
	if values == nil {
		return speeds
	}
	for index := range speeds {
		own, old, common := values[1+2*index], values[2+2*index], values[0]
		for _, value := range []fieldValue{own, old, common} {
			if value.reported && value.value > 0 {
				speeds[index] = value.value * 8_000_000 // the value is in megabytes per second
				break
			}
		}
	}
	return speeds
}

// farEnd returns the kind and the address of the remote end of a link.
func (c *card) farEnd(index int) (kind, remote string) {
	if device, ok := result(c.caller, bind(c.device.GetNvLinkRemoteDeviceType, index), "nvmlDeviceGetNvLinkRemoteDeviceType"); ok {
		switch device {
		case nvml.NVLINK_DEVICE_TYPE_GPU:
			kind = "gpu"
		case nvml.NVLINK_DEVICE_TYPE_SWITCH:
			kind = "switch"
		case nvml.NVLINK_DEVICE_TYPE_IBMNPU:
			kind = "other"
		}
	}
	if pci, ok := result(c.caller, bind(c.device.GetNvLinkRemotePciInfo, index), "nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo"); ok {
		remote = address(pci)
	}
	return kind, remote
}

// linkErrors reads the error counters of one link.
func (c *card) linkErrors(index int, seen *facts.NVLinks) {
	counter := func(which nvml.NvLinkErrorCounter) int64 {
		call := func() (uint64, nvml.Return) { return c.device.GetNvLinkErrorCounter(index, which) }
		count, ok := result(c.caller, call, "nvmlDeviceGetNvLinkErrorCounter")
		seen.Counted = seen.Counted || ok
		return int64(count)
	}
	errors := facts.NVLinkErrors{Link: index}
	if values := c.fields(linkFiveCounters(index)...); values != nil && values[0].reported {
		seen.Counted = true
		errors.Recoveries, errors.FailedRecoveries, errors.Effective, errors.Symbol = values[0].value, values[1].value, values[2].value, values[3].value
		errors.EffectiveBER = bitErrorRate(values[4])
	} else {
		errors.Replays = counter(nvml.NVLINK_ERROR_DL_REPLAY)
		errors.Recoveries = counter(nvml.NVLINK_ERROR_DL_RECOVERY)
		errors.CRC = counter(nvml.NVLINK_ERROR_DL_CRC_FLIT)
	}
	if errors != (facts.NVLinkErrors{Link: index}) {
		seen.Errors = append(seen.Errors, errors)
	}
}

// linkFiveCounters returns the counters of a fifth-generation NVLink. Drivers do not report the
// older counters for such a link (nvml.h, NVML_FI_DEV_NVLINK_ERROR_DL_*: unsupported for Blackwell
// and later).
func linkFiveCounters(index int) []nvml.FieldValue {
	return []nvml.FieldValue{
		field(nvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, index), field(nvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS, index),
		field(nvml.FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS, index), field(nvml.FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS, index),
		field(nvml.FI_DEV_NVLINK_COUNT_EFFECTIVE_BER, index),
	}
}

// bitErrorRate decodes a rate as NVML packs it: 8 bits of exponent, and above them 4 bits of
// mantissa. If all bits are set, there was no error.
//
// Source: nvml.h, NVML_NVLINK_ERROR_COUNTER_BER_GET; NVIDIA/DCGM of 2026-07, DcgmUtilities.cpp,
// NvmlBerParser and IsEffectiveBerThresholdExceeded.
func bitErrorRate(packed fieldValue) float64 {
	exponent, mantissa := packed.value&0xff, packed.value>>8&0xf
	if !packed.reported || exponent == 0xff && mantissa == 0xf {
		return 0
	}
	return float64(mantissa) * math.Pow10(-int(exponent))
}

// summarize stores properties that all links share only once. If all links lead to switches, it
// leaves out the addresses of the switches.
func summarize(links []link, seen *facts.NVLinks) {
	var kinds, remotes []string
	seen.Down, seen.Slow, seen.Speed = nil, nil, 0
	for index, one := range links {
		remotes = append(remotes, one.remote)
		if !one.active {
			seen.Down = append(seen.Down, index)
			continue
		}
		seen.Speed = max(seen.Speed, one.speed)
		if !slices.Contains(kinds, one.kind) {
			kinds = append(kinds, one.kind)
		}
	}
	for index, one := range links {
		if one.active && one.speed > 0 && one.speed < seen.Speed {
			seen.Slow = append(seen.Slow, index)
		}
	}
	switch len(kinds) {
	case 0:
	case 1:
		seen.RemoteKind = kinds[0]
	default:
		seen.RemoteKind = "mixed"
	}
	seen.Remotes = nil
	if seen.RemoteKind != "switch" && slices.ContainsFunc(remotes, func(remote string) bool { return remote != "" }) {
		seen.Remotes = remotes
	}
}

// recognise identifies GPUs at the remote ends of links by their addresses. It is for drivers that
// are too old to report the kind of a remote end.
func (c *card) recognise(cards []*card) {
	found := false
	for i := range c.links {
		far := &c.links[i]
		if far.kind == "" && slices.ContainsFunc(cards, func(other *card) bool { return far.remote != "" && far.remote == other.seen.Address }) {
			far.kind, found = "gpu", true
		}
	}
	if found {
		summarize(c.links, c.seen.NVLinks)
		c.write()
	}
}

// fieldValue is the value of one of NVML's numbered fields.
type fieldValue struct {
	value    int64
	reported bool
}

func field(id uint32, scope int) nvml.FieldValue {
	return nvml.FieldValue{FieldId: id, ScopeId: uint32(scope)}
}

// fields asks for several fields at the same time. It returns nil if the driver does not support
// fields.
func (c *card) fields(asked ...nvml.FieldValue) []fieldValue {
	_, ok := result(c.caller, func() (struct{}, nvml.Return) { return struct{}{}, c.device.GetFieldValues(asked) }, "nvmlDeviceGetFieldValues")
	if !ok {
		return nil
	}
	values := make([]fieldValue, len(asked))
	for i, answer := range asked {
		if nvml.Return(answer.NvmlReturn) != nvml.SUCCESS {
			continue
		}
		values[i] = fieldValue{reported: true}
		switch nvml.ValueType(answer.ValueType) {
		case nvml.VALUE_TYPE_UNSIGNED_INT, nvml.VALUE_TYPE_SIGNED_INT:
			values[i].value = int64(binary.NativeEndian.Uint32(answer.Value[:]))
		default:
			values[i].value = int64(binary.NativeEndian.Uint64(answer.Value[:]))
		}
	}
	return values
}

// fabric reads the GPU's place among the NVSwitches, with the newest call that the driver supports.
// Only the third version of the call reports a health summary. The unversioned call reports no
// health.
func (c *card) fabric() {
	const versioned, plain = "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"
	second := func() (nvml.GpuFabricInfo_v2, nvml.Return) { return c.device.GetGpuFabricInfoV().V2() }
	third := func() (nvml.GpuFabricInfo_v3, nvml.Return) { return c.device.GetGpuFabricInfoV().V3() }
	if info, ok := result(c.caller, third, versioned); ok {
		c.setFabric(info.State, info.Status, info.ClusterUuid, info.CliqueId, info.HealthMask, info.HealthSummary)
	} else if info, ok := result(c.caller, second, versioned); ok {
		c.setFabric(info.State, info.Status, info.ClusterUuid, info.CliqueId, info.HealthMask, 0)
	} else if info, ok := result(c.caller, c.device.GetGpuFabricInfo, plain); ok {
		c.setFabric(info.State, info.Status, info.ClusterUuid, info.CliqueId, 0, 0)
	}
}

// fabricHealths maps the values of NVML_GPU_FABRIC_HEALTH_SUMMARY_* (nvml.h) to names. 0 means not
// reported.
var fabricHealths = map[uint8]string{
	nvml.GPU_FABRIC_HEALTH_SUMMARY_HEALTHY:          "healthy",
	nvml.GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY:        "unhealthy",
	nvml.GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY: "limited-capacity",
}

// fabricStates lists the names of NVML_GPU_FABRIC_STATE_* in order (nvml.h).
var fabricStates = []string{"not-supported", "not-started", "in-progress", "completed"}

func (c *card) setFabric(state uint8, status uint32, cluster [16]uint8, clique, health uint32, summary uint8) {
	if int(state) >= len(fabricStates) {
		return
	}
	seen := &facts.GPUFabric{State: fabricStates[state], Clique: int(clique), Degraded: degraded(health), Health: fabricHealths[summary]}
	if ret := nvml.Return(status); state == nvml.GPU_FABRIC_STATE_COMPLETED && ret != nvml.SUCCESS {
		seen.Status = c.words(ret) // the status means nothing before the state is completed
	}
	if cluster != [16]uint8{} {
		seen.Cluster = fmt.Sprintf("%x-%x-%x-%x-%x", cluster[:4], cluster[4:6], cluster[6:8], cluster[8:10], cluster[10:])
	}
	c.seen.Fabric = seen
}

// degraded decodes the health mask. The mask has pairs of bits, in which the value 1 means a
// problem. It also has a group of four bits for the kind of misconfiguration, numbered from 2 on
// (nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_*).
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

// matrix calls ask for every pair of GPUs and puts X on the diagonal.
func matrix(cards []*card, ask func(from, to *card) string) [][]string {
	rows := make([][]string, len(cards))
	for i, from := range cards {
		rows[i] = make([]string, len(cards))
		for j, to := range cards {
			switch {
			case i == j:
				rows[i][j] = "X"
			case from.device != nil && to.device != nil && !from.lost() && !to.lost():
				rows[i][j] = ask(from, to)
			}
		}
	}
	return rows
}

// levels maps what two GPUs share on the PCI bus to nvidia-smi's abbreviation for it, according to
// the legend of nvidia-smi topo -m (driver 550). nvidia-smi treats two GPUs on one board, behind
// the board's own switch, like two GPUs behind one switch.
var levels = map[nvml.GpuTopologyLevel]string{
	nvml.TOPOLOGY_INTERNAL:   "PIX",
	nvml.TOPOLOGY_SINGLE:     "PIX",
	nvml.TOPOLOGY_MULTIPLE:   "PXB",
	nvml.TOPOLOGY_HOSTBRIDGE: "PHB",
	nvml.TOPOLOGY_NODE:       "NODE",
	nvml.TOPOLOGY_SYSTEM:     "SYS",
}

// topology returns how each pair of GPUs is connected: by their NVLinks, otherwise by the PCI bus.
// It returns nothing for GPUs whose links this session may not read, because NVLink may connect
// them.
func topology(cards []*card) [][]string {
	return matrix(cards, func(from, to *card) string {
		if joining := nvlinksBetween(from, to); joining > 0 {
			return fmt.Sprintf("NV%d", joining)
		}
		if from.wasRefused(linkState) || to.wasRefused(linkState) {
			return ""
		}
		level, ok := result(from.caller, bind(from.device.GetTopologyCommonAncestor, to.device), "nvmlDeviceGetTopologyCommonAncestor")
		if !ok {
			return ""
		}
		return levels[level]
	})
}

// nvlinksBetween counts the active links from one GPU to another. If there are none, it counts the
// active links of both to switches, because the switches of a machine connect all its GPUs.
func nvlinksBetween(from, to *card) int {
	direct := from.activeLinks(func(one link) bool { return one.remote != "" && one.remote == to.seen.Address })
	if direct > 0 {
		return direct
	}
	toSwitch := func(one link) bool { return one.kind == "switch" }
	return min(from.activeLinks(toSwitch), to.activeLinks(toSwitch))
}

func (c *card) activeLinks(which func(link) bool) int {
	count := 0
	for _, one := range c.links {
		if one.active && which(one) {
			count++
		}
	}
	return count
}

// peerReasons maps nvmlGpuP2PStatus_t (nvml.h) to why two GPUs cannot access each other's memory.
var peerReasons = map[nvml.GpuP2PStatus]string{
	nvml.P2P_STATUS_OK:                         "ok",
	nvml.P2P_STATUS_CHIPSET_NOT_SUPPORTED:      "chipset-not-supported",
	nvml.P2P_STATUS_GPU_NOT_SUPPORTED:          "gpu-not-supported",
	nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: "topology-not-supported",
	nvml.P2P_STATUS_DISABLED_BY_REGKEY:         "disabled-by-regkey",
	nvml.P2P_STATUS_NOT_SUPPORTED:              "not-supported",
	nvml.P2P_STATUS_UNKNOWN:                    "unknown",
}

// peers returns, for each pair of GPUs, whether they can read and write each other's memory. If
// they cannot, it returns the first reason.
func peers(cards []*card) [][]string {
	return matrix(cards, func(from, to *card) string {
		answer := ""
		for _, access := range []nvml.GpuP2PCapsIndex{nvml.P2P_CAPS_INDEX_READ, nvml.P2P_CAPS_INDEX_WRITE} {
			call := func() (nvml.GpuP2PStatus, nvml.Return) { return from.device.GetP2PStatus(to.device, access) }
			status, ok := result(from.caller, call, "nvmlDeviceGetP2PStatus")
			if !ok {
				return ""
			}
			if answer = peerReasons[status]; answer != "ok" {
				return answer
			}
		}
		return answer
	})
}
