package launch

import (
	"cmp"
	"slices"
	"testing"

	"preflight/facts"
)

func TestAccelerators(t *testing.T) {
	nodes := []string{"/dev/nvidia0", "/dev/nvidia1"}
	held := []string{"0000:07:00.0", "0000:0b:00.0", "0000:48:00.0", "0000:4c:00.0"}
	bare, docker := &facts.Host{}, &facts.Host{Container: "docker"}
	for _, c := range []struct {
		name  string
		gpu   *facts.GPU
		host  *facts.Host
		count int
		known bool
	}{
		{"not looked at", nil, bare, 0, false},
		{"none", &facts.GPU{}, bare, 0, true},
		{"before their first use", &facts.GPU{Driver: held}, bare, 4, true},
		{"a container that was given two", &facts.GPU{Devices: nodes, Driver: held}, docker, 2, true},
		{"perhaps a container", &facts.GPU{Devices: nodes, Driver: held}, nil, 2, true},
		{"device nodes of GPUs that are gone", &facts.GPU{Devices: nodes, Driver: []string{}}, bare, 2, true},
		{"of other makers", &facts.GPU{Others: []string{"/dev/kfd node 1", "/dev/kfd node 2"}}, bare, 2, true},
		{"of Windows", &facts.GPU{Others: []string{"/dev/dxg"}}, bare, 0, false},
	} {
		count, known := Accelerators(&facts.Node{Facts: facts.Facts{GPU: c.gpu, Host: c.host}})
		if count != c.count || known != c.known {
			t.Errorf("%s: %d, %v, want %d, %v", c.name, count, known, c.count, c.known)
		}
	}
}

// What a rank is given hangs on the machine that the launch is typed on.
func TestExportsOfALoginNode(t *testing.T) {
	machine := func(gpu *facts.GPU) *facts.Node {
		head := seen("NCCL_DEBUG=INFO")
		head.GPU = gpu
		return head
	}
	bare := machine(&facts.GPU{})
	for _, c := range []struct {
		name, release, launcher, accelerator string
		head                                 *facts.Node
		variable                             string
		want                                 bool
	}{
		{"no GPU", "", "pdsh", "", bare, "NCCL_DEBUG", false},
		{"no GPU, the first that takes the CPU", "0.14.1", "pdsh", "", bare, "NCCL_DEBUG", false},
		{"no GPU, before that", "0.14.0", "pdsh", "", bare, "NCCL_DEBUG", true},
		{"no GPU, cuda by name", "", "pdsh", "cuda", bare, "NCCL_DEBUG", true},
		{"a GPU", "", "pdsh", "", machine(&facts.GPU{Devices: []string{"/dev/nvidia0"}}), "NCCL_DEBUG", true},
		{"a GPU, cpu by name", "", "pdsh", "cpu", machine(&facts.GPU{Devices: []string{"/dev/nvidia0"}}), "NCCL_DEBUG", false},
		{"not looked at", "", "pdsh", "", machine(nil), "NCCL_DEBUG", true},
		{"no GPU, mvapich", "", "mvapich", "", bare, "MV2_USE_CUDA", false},
		{"nobody looked, mvapich", "", "mvapich", "", nil, "MV2_USE_CUDA", true},
	} {
		p, err := Predict(Options{Hosts: hosts(1, 1), Launcher: c.launcher, Accelerator: c.accelerator, DeepSpeed: c.release}, c.head)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(p.Exports, func(s facts.Setting) bool { return s.Name == c.variable })
		if got != c.want || p.Accelerator != cmp.Or(c.accelerator, "cuda") {
			t.Errorf("%s: %s is exported: %v; the nodes are judged for %s", c.name, c.variable, got, p.Accelerator)
		}
	}
}
