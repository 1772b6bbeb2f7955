package launch

import (
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
