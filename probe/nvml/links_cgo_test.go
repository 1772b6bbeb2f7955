// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/facts"
)

// answering fills in fields like a driver that knows only the fields in known, by ID and scope.
func answering(known map[[2]uint32]uint64) func([]nvml.FieldValue) nvml.Return {
	return func(values []nvml.FieldValue) nvml.Return {
		for i := range values {
			value, ok := known[[2]uint32{values[i].FieldId, values[i].ScopeId}]
			if !ok {
				values[i].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
				continue
			}
			values[i].ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_INT)
			binary.NativeEndian.PutUint32(values[i].Value[:], uint32(value))
			binary.NativeEndian.PutUint32(values[i].Value[4:], 0xdeadbeef) // the rest of the union is undefined
		}
		return nvml.SUCCESS
	}
}

func TestLinksAreFolded(t *testing.T) {
	up := link{active: true, speed: 100, kind: "switch", remote: "0000:f5:00.0"}
	slow, other, down, untold := up, up, link{}, link{active: true, kind: "switch", remote: "0000:f5:00.0"}
	slow.speed, other.kind, other.remote = 50, "gpu", ""
	for name, test := range map[string]struct {
		links []link
		want  facts.NVLinks
	}{
		"alike":      {[]link{up, up}, facts.NVLinks{Speed: 100, RemoteKind: "switch"}},
		"none up":    {[]link{down, down}, facts.NVLinks{Down: []int{0, 1}}},
		"one slow":   {[]link{slow, up}, facts.NVLinks{Speed: 100, Slow: []int{0}, RemoteKind: "switch"}},
		"mixed":      {[]link{other, down, up}, facts.NVLinks{Speed: 100, Down: []int{1}, RemoteKind: "mixed", Remotes: []string{"", "", "0000:f5:00.0"}}},
		"no address": {[]link{other}, facts.NVLinks{Speed: 100, RemoteKind: "gpu"}},
		"no speed":   {[]link{up, untold}, facts.NVLinks{Speed: 100, RemoteKind: "switch"}},
	} {
		var got facts.NVLinks
		summarize(test.links, &got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFarEndThatIsAGPUIsRecognised checks that a GPU at the remote end is recognised by its
// address. An old driver reports the address of the remote end, but not its kind.
func TestFarEndThatIsAGPUIsRecognised(t *testing.T) {
	const first, second = "0000:1b:00.0", "0000:43:00.0"
	old := func(remote string) link { return link{active: true, speed: 100, remote: remote} }
	for name, test := range map[string]struct {
		links []link
		want  *facts.NVLinks
	}{
		"all":        {[]link{old(second), old(second)}, &facts.NVLinks{Count: 2, Speed: 100, RemoteKind: "gpu", Remotes: []string{second, second}}},
		"some":       {[]link{old(second), old("0000:99:00.0")}, &facts.NVLinks{Count: 2, Speed: 100, RemoteKind: "mixed", Remotes: []string{second, "0000:99:00.0"}}},
		"none":       {[]link{old(""), old("")}, nil},
		"no NVLinks": {nil, nil},
	} {
		c, out := asked(0, &mock.Device{})
		other, _ := asked(1, &mock.Device{})
		lost, _ := asked(2, &mock.Device{})
		c.links, c.seen.NVLinks, c.seen.Address, other.seen.Address = test.links, &facts.NVLinks{Count: len(test.links)}, first, second
		c.recognise([]*card{c, other, lost})
		var got *facts.NVLinks
		for _, line := range spoken(t, out) {
			got = line.Seen.NVLinks
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSpeedOfALinkByTheNewestFieldThatTellsIt(t *testing.T) {
	known := map[[2]uint32]uint64{{nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0}: 1}
	device := &mock.Device{GetFieldValuesFunc: func(values []nvml.FieldValue) nvml.Return { return answering(known)(values) }}
	c, _ := asked(0, device, "nvmlDeviceGetFieldValues")
	for _, step := range []struct {
		id, scope uint32
		speed     uint64
		want      []int64 // speeds of links 0, 7 and 12
	}{
		{nvml.FI_DEV_NVLINK_SPEED_MBPS_L0, 0, 2, []int64{16e6, 8e6, 8e6}},
		{nvml.FI_DEV_NVLINK_SPEED_MBPS_L7, 0, 3, []int64{16e6, 24e6, 8e6}},
		{nvml.FI_DEV_NVLINK_GET_SPEED, 0, 4, []int64{32e6, 24e6, 8e6}},
		{nvml.FI_DEV_NVLINK_GET_SPEED, 12, 26562, []int64{32e6, 24e6, 212_496e6}},
	} {
		known[[2]uint32{step.id, step.scope}] = step.speed
		speeds := c.linkSpeeds(18)
		if diff := cmp.Diff(step.want, []int64{speeds[0], speeds[7], speeds[12]}); diff != "" {
			t.Errorf("with field %d of %d (-want +got):\n%s", step.id, step.scope, diff)
		}
	}
}

func TestNumberOfLinks(t *testing.T) {
	device := &mock.Device{
		GetFieldValuesFunc: answering(map[[2]uint32]uint64{{nvml.FI_DEV_NVLINK_LINK_COUNT, 0}: 12}),
		GetNvLinkStateFunc: func(link int) (nvml.EnableState, nvml.Return) {
			if link >= 6 {
				return 0, nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.FEATURE_DISABLED, nvml.SUCCESS
		},
	}
	for want, has := range map[int][]string{
		12: {"nvmlDeviceGetFieldValues", "nvmlDeviceGetNvLinkState"},
		6:  {"nvmlDeviceGetNvLinkState"},
		0:  nil,
	} {
		c, _ := asked(0, device, has...)
		if got := c.linkCount(); got != want {
			t.Errorf("%d links by %q, want %d", got, has, want)
		}
		c.nvlinks()
		if (c.seen.NVLinks != nil) != (want > 0) || c.failure != nil {
			t.Errorf("by %q: %+v, failure %+v", has, c.seen.NVLinks, c.failure)
		}
	}
}

func TestCountersOfALinkWithErrors(t *testing.T) {
	device := &mock.Device{GetNvLinkErrorCounterFunc: func(link int, counter nvml.NvLinkErrorCounter) (uint64, nvml.Return) {
		if link == 2 && counter == nvml.NVLINK_ERROR_DL_RECOVERY {
			return 5, nvml.SUCCESS
		}
		return 0, nvml.SUCCESS
	}}
	c, _ := asked(0, device, "nvmlDeviceGetNvLinkErrorCounter")
	var got facts.NVLinks
	c.linkErrors(1, &got)
	c.linkErrors(2, &got)
	if diff := cmp.Diff(facts.NVLinks{Counted: true, Errors: []facts.NVLinkErrors{{Link: 2, Recoveries: 5}}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c, _ = asked(0, device)
	got = facts.NVLinks{}
	if c.linkErrors(1, &got); got.Counted {
		t.Error("counted by a driver that tells no counters")
	}
}

// TestCountersOfALinkOfBlackwell checks that the counters of a fifth-generation NVLink are read
// from fields. Such a link has them nowhere else.
func TestCountersOfALinkOfBlackwell(t *testing.T) {
	known := map[[2]uint32]uint64{{215, 3}: 4, {214, 3}: 1, {219, 3}: 70, {221, 3}: 2, {220, 3}: 2<<8 | 11}
	c, _ := asked(0, &mock.Device{GetFieldValuesFunc: answering(known)}, "nvmlDeviceGetFieldValues", "nvmlDeviceGetNvLinkErrorCounter")
	var got facts.NVLinks
	c.linkErrors(3, &got)
	want := facts.NVLinks{Counted: true, Errors: []facts.NVLinkErrors{{Link: 3, Recoveries: 4, FailedRecoveries: 1, Effective: 70, Symbol: 2, EffectiveBER: 2e-11}}}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for packed, want := range map[int64]float64{0: 0, 0xfff: 0, 1<<8 | 12: 1e-12, 15<<8 | 254: 15e-254} {
		if got := bitErrorRate(fieldValue{packed, true}); got < want*0.999 || got > want*1.001 {
			t.Errorf("%#x: %g, want %g", packed, got, want)
		}
	}
}

func TestFabricByEachOfItsForms(t *testing.T) {
	c, _ := asked(0, &mock.Device{GetGpuFabricInfoFunc: func() (nvml.GpuFabricInfo, nvml.Return) {
		return nvml.GpuFabricInfo{State: nvml.GPU_FABRIC_STATE_IN_PROGRESS, Status: uint32(nvml.ERROR_UNKNOWN), CliqueId: 7}, nvml.SUCCESS
	}}, "nvmlDeviceGetGpuFabricInfo", "nvmlErrorString")
	c.fabric()
	// While the state is in-progress, the status has no meaning.
	if diff := cmp.Diff(&facts.GPUFabric{State: "in-progress", Clique: 7}, c.seen.Fabric); diff != "" {
		t.Errorf("in progress (-want +got):\n%s", diff)
	}
	cluster := [16]uint8{0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	c.setFabric(nvml.GPU_FABRIC_STATE_COMPLETED, uint32(nvml.ERROR_UNKNOWN), cluster, 1, 0b0001_10_01_10_10, nvml.GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY)
	want := &facts.GPUFabric{State: "completed", Status: "as the library says", Cluster: "deadbeef-0001-0203-0405-060708090a0b", Clique: 1, Degraded: []string{"route"}, Health: "limited-capacity"}
	if diff := cmp.Diff(want, c.seen.Fabric); diff != "" {
		t.Errorf("completed (-want +got):\n%s", diff)
	}
	for health, want := range map[uint32][]string{
		0:                  nil, // an old driver does not report health
		0b0001_10_10_10_10: nil,
		0b0101_01_01_01_01: {"bandwidth", "route-recovery", "route", "access-timeout", "configuration"},
	} {
		if diff := cmp.Diff(want, degraded(health)); diff != "" {
			t.Errorf("health %#b (-want +got):\n%s", health, diff)
		}
	}
}

func TestTopology(t *testing.T) {
	toGPU := func(address string, active bool) link { return link{active: active, kind: "gpu", remote: address} }
	toSwitch := link{active: true, kind: "switch", remote: "0000:f5:00.0"}
	const first, second = "0000:1b:00.0", "0000:43:00.0"
	pci := nvml.TOPOLOGY_SINGLE
	device := &mock.Device{GetTopologyCommonAncestorFunc: func(nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) { return pci, nvml.SUCCESS }}
	for name, test := range map[string]struct {
		from, to []link
		level    nvml.GpuTopologyLevel
		want     string
	}{
		"bridged":              {[]link{toGPU(second, true), toGPU(second, true), toGPU("", true)}, []link{toGPU(first, true), toGPU(first, true)}, nvml.TOPOLOGY_SYSTEM, "NV2"},
		"bridged elsewhere":    {[]link{toGPU("0000:99:00.0", true)}, nil, nvml.TOPOLOGY_NODE, "NODE"},
		"a bridge that is off": {[]link{toGPU(second, false)}, []link{toGPU(first, false)}, nvml.TOPOLOGY_HOSTBRIDGE, "PHB"},
		"switched":             {[]link{toSwitch, toSwitch, toSwitch}, []link{toSwitch, toSwitch}, nvml.TOPOLOGY_SYSTEM, "NV2"},
		"one is not switched":  {[]link{toSwitch}, nil, nvml.TOPOLOGY_SYSTEM, "SYS"},
		"two of one board":     {nil, nil, nvml.TOPOLOGY_INTERNAL, "PIX"},
		"one PCIe switch":      {nil, nil, nvml.TOPOLOGY_SINGLE, "PIX"},
		"several":              {nil, nil, nvml.TOPOLOGY_MULTIPLE, "PXB"},
	} {
		pci = test.level
		from, _ := asked(0, device, "nvmlDeviceGetTopologyCommonAncestor")
		to, _ := asked(1, device, "nvmlDeviceGetTopologyCommonAncestor")
		from.seen.Address, to.seen.Address, from.links, to.links = first, second, test.from, test.to
		if got := topology([]*card{from, to})[0][1]; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		to.refused = []facts.NVMLFailure{{Call: "nvmlDeviceGetNvLinkState"}}
		for _, got := range []string{topology([]*card{from, to})[0][1], topology([]*card{from, to})[1][0]} {
			if got != "" && got[:2] != "NV" {
				t.Errorf("%s: %q of a GPU whose links are refused", name, got)
			}
		}
	}
}

func TestPeersTakeReadingAndWriting(t *testing.T) {
	status := map[nvml.GpuP2PCapsIndex]nvml.GpuP2PStatus{}
	device := &mock.Device{GetP2PStatusFunc: func(_ nvml.Device, access nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
		return status[access], nvml.SUCCESS
	}}
	for _, test := range []struct {
		read, write nvml.GpuP2PStatus
		want        string
	}{
		{nvml.P2P_STATUS_OK, nvml.P2P_STATUS_OK, "ok"},
		{nvml.P2P_STATUS_OK, nvml.P2P_STATUS_DISABLED_BY_REGKEY, "disabled-by-regkey"},
		{nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED, nvml.P2P_STATUS_OK, "topology-not-supported"},
		{nvml.GpuP2PStatus(42), nvml.P2P_STATUS_OK, ""},
	} {
		status[nvml.P2P_CAPS_INDEX_READ], status[nvml.P2P_CAPS_INDEX_WRITE] = test.read, test.write
		from, _ := asked(0, device, "nvmlDeviceGetP2PStatus")
		to, _ := asked(1, device, "nvmlDeviceGetP2PStatus")
		without := &card{caller: &caller{reader: from.reader}}
		want := [][]string{{"X", test.want, ""}, {test.want, "X", ""}, {"", "", "X"}}
		if diff := cmp.Diff(want, peers([]*card{from, to, without})); diff != "" {
			t.Errorf("read %d, write %d (-want +got):\n%s", test.read, test.write, diff)
		}
	}
}
