//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"preflight/facts"
)

// link is one NVLink of a GPU.
type link struct {
	active bool
	speed  int64  // of one direction in bit/s, 0 for not told
	kind   string // of the far end: gpu, switch, other, "" for not told
	remote string // PCI address of the far end, "" for not told
}

const linkState = "nvmlDeviceGetNvLinkState"

// nvlinks asks each link and folds what they have alike.
func (c *card) nvlinks() {
	count := c.linkCount()
	if count == 0 {
		return
	}
	seen := &facts.NVLinks{Count: count}
	speeds := c.linkSpeeds(count)
	for index := range count {
		one := link{}
		state, ok := told(c.asker, of(c.device.GetNvLinkState, index), linkState)
		if !ok && index == 0 {
			return // links that cannot be asked are like none
		}
		if one.active = ok && state == nvml.FEATURE_ENABLED; one.active {
			one.speed = speeds[index]
			one.kind, one.remote = c.farEnd(index)
			c.linkErrors(index, seen)
		}
		c.links = append(c.links, one)
	}
	fold(c.links, seen)
	c.seen.NVLinks = seen
}

// linkCount asks for it and, where the driver is too old for that, counts the
// links whose state it tells.
func (c *card) linkCount() int {
	if values := c.fields(field(nvml.FI_DEV_NVLINK_LINK_COUNT, 0)); values != nil && values[0].told {
		return min(int(values[0].value), nvml.NVLINK_MAX_LINKS)
	}
	for index := range nvml.NVLINK_MAX_LINKS {
		if _, ok := told(c.asker, of(c.device.GetNvLinkState, index), linkState); !ok {
			return index
		}
	}
	return nvml.NVLINK_MAX_LINKS
}

// linkSpeeds are in bit/s by link. Newer drivers tell every link's, older ones
// those of the first twelve, and the oldest what active links have in common.
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
			if value.told && value.value > 0 {
				speeds[index] = value.value * 8_000_000 // megabytes a second
				break
			}
		}
	}
	return speeds
}

// farEnd is what a link leads to.
func (c *card) farEnd(index int) (kind, remote string) {
	if device, ok := told(c.asker, of(c.device.GetNvLinkRemoteDeviceType, index), "nvmlDeviceGetNvLinkRemoteDeviceType"); ok {
		switch device {
		case nvml.NVLINK_DEVICE_TYPE_GPU:
			kind = "gpu"
		case nvml.NVLINK_DEVICE_TYPE_SWITCH:
			kind = "switch"
		case nvml.NVLINK_DEVICE_TYPE_IBMNPU:
			kind = "other"
		}
	}
	if pci, ok := told(c.asker, of(c.device.GetNvLinkRemotePciInfo, index), "nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo"); ok {
		remote = address(pci)
	}
	return kind, remote
}

// linkErrors reads the counters of one link.
func (c *card) linkErrors(index int, seen *facts.NVLinks) {
	counter := func(which nvml.NvLinkErrorCounter) int64 {
		call := func() (uint64, nvml.Return) { return c.device.GetNvLinkErrorCounter(index, which) }
		count, ok := told(c.asker, call, "nvmlDeviceGetNvLinkErrorCounter")
		seen.Counted = seen.Counted || ok
		return int64(count)
	}
	errors := facts.NVLinkErrors{Link: index}
	errors.Replays = counter(nvml.NVLINK_ERROR_DL_REPLAY)
	errors.Recoveries = counter(nvml.NVLINK_ERROR_DL_RECOVERY)
	errors.CRC = counter(nvml.NVLINK_ERROR_DL_CRC_FLIT)
	if errors != (facts.NVLinkErrors{Link: index}) {
		seen.Errors = append(seen.Errors, errors)
	}
}

// fold says once what the links have alike. Where all lead to switches, which of
// them is no news.
func fold(links []link, seen *facts.NVLinks) {
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

// recognise finds GPUs at the far ends of links by their address, where the
// driver is too old to tell what is there.
func (c *card) recognise(cards []*card) {
	found := false
	for i := range c.links {
		far := &c.links[i]
		if far.kind == "" && slices.ContainsFunc(cards, func(other *card) bool { return far.remote != "" && far.remote == other.seen.Address }) {
			far.kind, found = "gpu", true
		}
	}
	if found {
		fold(c.links, c.seen.NVLinks)
		c.write()
	}
}

// fieldValue is what one of NVML's numbered fields holds.
type fieldValue struct {
	value int64
	told  bool
}

func field(id uint32, scope int) nvml.FieldValue {
	return nvml.FieldValue{FieldId: id, ScopeId: uint32(scope)}
}

// fields asks for several at once; nil when the driver knows no fields.
func (c *card) fields(asked ...nvml.FieldValue) []fieldValue {
	_, ok := told(c.asker, func() (struct{}, nvml.Return) { return struct{}{}, c.device.GetFieldValues(asked) }, "nvmlDeviceGetFieldValues")
	if !ok {
		return nil
	}
	values := make([]fieldValue, len(asked))
	for i, answer := range asked {
		if nvml.Return(answer.NvmlReturn) != nvml.SUCCESS {
			continue
		}
		values[i] = fieldValue{told: true}
		switch nvml.ValueType(answer.ValueType) {
		case nvml.VALUE_TYPE_UNSIGNED_INT, nvml.VALUE_TYPE_SIGNED_INT:
			values[i].value = int64(binary.NativeEndian.Uint32(answer.Value[:]))
		default:
			values[i].value = int64(binary.NativeEndian.Uint64(answer.Value[:]))
		}
	}
	return values
}
