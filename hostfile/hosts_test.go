// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseHosts(t *testing.T) {
	for spec, want := range map[string][]Host{
		"w1":            {{Name: "w1"}},
		"w[1-2],gpu7:2": {{Name: "w1"}, {Name: "w2"}, {Name: "gpu7", Slots: []int{0, 1}}},
		"w[1-2]:1":      {{Name: "w1", Slots: []int{0}}, {Name: "w2", Slots: []int{0}}},
		"w1:0":          {{Name: "w1", Slots: []int{}}},
		"u@w1:1":        {{Name: "u@w1", Slots: []int{0}}},
		"fe80::1":       {{Name: "fe80::1"}},
		"u@2001:db8::1": {{Name: "u@2001:db8::1"}},
		"[fe80::1]":     {{Name: "[fe80::1]"}},
		"[fe80::1]:1":   {{Name: "[fe80::1]", Slots: []int{0}}},
		"fe80::[1-2]":   {{Name: "fe80::1"}, {Name: "fe80::2"}},
		"w1,w[1-2]":     {{Name: "w1"}, {Name: "w2"}},
		"w[2-3],w[1-2]": {{Name: "w2"}, {Name: "w3"}, {Name: "w1"}},
		"w[1-2]:1,w2":   {{Name: "w1", Slots: []int{0}}, {Name: "w2", Slots: []int{0}}},
		"w2,w[1-2]:1":   {{Name: "w2", Slots: []int{0}}, {Name: "w1", Slots: []int{0}}},
		"a b,c":         {{Name: "a"}, {Name: "b"}, {Name: "c"}},
	} {
		got, err := ParseHosts(spec)
		if err != nil {
			t.Errorf("%q: %v", spec, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", spec, diff)
		}
	}
}

func TestParseHostsRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"":                      "names no host",
		",":                     "names no host",
		"w1:2,w[1-2]:4":         `"w1" has 2 slots in one place and 4 in another`,
		"w1:":                   "comes a number of slots",
		":4":                    "comes a number of slots",
		"w1:ssh":                "comes a number of slots",
		"w1:-1":                 "comes a number of slots",
		"w1:22:4":               "not an IPv6 address",
		"w[1-2]x:22:4":          "not an IPv6 address",
		"w1:1048577":            "comes a number of slots",
		"w[1-2]:1048576":        "more than 1048576 ranks",
		"w1:1048576,w2:1":       "more than 1048576 ranks",
		"a[1-60000],b[1-60000]": "more than 100000 hosts",
		"w[3-1]":                "runs backwards",
		"w[1-2":                 `"[" without "]"`,
	} {
		if got, err := ParseHosts(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseHosts(%q) = %.60v, %v; want an error with %q", spec, got, err, want)
		}
	}
}

// TestFromSlurm holds node lists and counts as Slurm 22.05 writes them.
func TestFromSlurm(t *testing.T) {
	for _, c := range []struct{ nodes, counts, want string }{
		{"sl2", "", "sl2:0"},
		{"sl[1-4]", "2(x4)", "sl1:2 sl2:2 sl3:2 sl4:2"},
		{"sl[1-4]", "5,1(x3)", "sl1:5 sl2:1 sl3:1 sl4:1"},
		{"sl[1,3-4]", "1(x2),2", "sl1:1 sl3:1 sl4:2"},
		{"gpu[001-003,010]", "8", "gpu001:8 gpu002:8 gpu003:8 gpu010:8"},
		{"a1,b[2-3],c-n04", "a100:4", "a1:4 b2:4 b3:4 c-n04:4"},
		{"rack[0-1]node[1-2]", "gpu:a100:4", "rack0node1:4 rack0node2:4 rack1node1:4 rack1node2:4"},
		{"sl1", "0", "sl1:0"},
	} {
		hosts, err := FromSlurm(c.nodes, c.counts)
		if err != nil || brief(hosts) != c.want {
			t.Errorf("FromSlurm(%q, %q) = %s, %v; want %s", c.nodes, c.counts, brief(hosts), err, c.want)
		}
		if stated := len(hosts) > 0 && hosts[0].Slots != nil; stated != (c.counts != "") {
			t.Errorf("FromSlurm(%q, %q): slots stated is %v", c.nodes, c.counts, stated)
		}
	}
}

// TestSlurmSlots holds environments of jobs of Slurm 22.05.
func TestSlurmSlots(t *testing.T) {
	for _, c := range []struct {
		asked string
		env   map[string]string
		onCPU bool
		want  string
	}{
		{"salloc -N4 --gpus-per-node=2", map[string]string{"SLURM_GPUS_PER_NODE": "2", "SLURM_TASKS_PER_NODE": "1(x4)"}, false, "2"},
		{"the same, to compute on the CPU", map[string]string{"SLURM_GPUS_PER_NODE": "2", "SLURM_TASKS_PER_NODE": "1(x4)"}, true, "1(x4)"},
		{"salloc -N4 --gpus-per-node=a100:8", map[string]string{"SLURM_GPUS_PER_NODE": "a100:8", "SLURM_TASKS_PER_NODE": "1(x4)"}, false, "8"},
		{"salloc -N4 --gpus-per-node=a100:4,v100:2", map[string]string{"SLURM_GPUS_PER_NODE": "a100:4,v100:2"}, false, "6"},
		{"of no known form", map[string]string{"SLURM_GPUS_PER_NODE": "many"}, false, "many"},
		{"sbatch -N4 --gres=gpu:2", map[string]string{"SLURM_GPUS_ON_NODE": "2", "SLURM_TASKS_PER_NODE": "1(x4)"}, false, "2"},
		{"sbatch -N4 -G8", map[string]string{"SLURM_GPUS": "8", "SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_NUM_NODES": "4", "SLURM_TASKS_PER_NODE": "1(x4)"}, false, "2"},
		{"sbatch -N4 -G7, spread unevenly", map[string]string{"SLURM_GPUS": "7", "SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_NUM_NODES": "4", "SLURM_TASKS_PER_NODE": "1(x4)"}, false, "1(x4)"},
		{"salloc -N4 --gpus-per-task=1 -n8", map[string]string{"SLURM_GPUS_PER_TASK": "1", "SLURM_TASKS_PER_NODE": "2(x4)"}, false, "2(x4)"},
		{"salloc -N3 -n5", map[string]string{"SLURM_TASKS_PER_NODE": "2(x2),1"}, false, "2(x2),1"},
	} {
		if got := SlurmSlots(func(name string) string { return c.env[name] }, c.onCPU); got != c.want {
			t.Errorf("%s: %q, want %q", c.asked, got, c.want)
		}
	}
}

func TestFromSlurmRefuses(t *testing.T) {
	for _, c := range []struct{ nodes, counts, want string }{
		{"", "", "SLURM_JOB_NODELIST"},
		{"sl[1-4]", "2(x3)", "counts 3 of the 4 nodes"},
		{"sl[1-4]", "2(x5)", "more than the 4 nodes"},
		{"sl[1-2]", "1,1,1", "more than the 2 nodes"},
		{"sl[1-2]", "2(x0)", "is not a count"},
		{"sl[1-2]", "2(x2", "is not a count"},
		{"sl[1-2]", "(x2)", "is not a count"},
		{"sl[1-2]", "-1", "is not a count"},
		{"sl[1-2]", "1048576", "more than 1048576 ranks"},
		{"sl[1-2]", "999999999999999999(x2)", "more than 1048576 ranks"},
		{"sl[1-2],sl2", "", "named twice"},
	} {
		if got, err := FromSlurm(c.nodes, c.counts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("FromSlurm(%q, %q) = %s, %v; want an error with %q", c.nodes, c.counts, brief(got), err, c.want)
		}
	}
}
