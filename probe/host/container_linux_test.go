// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"testing"

	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestContainer(t *testing.T) {
	const mountTable = "800 700 0:90 / / rw - overlay overlay rw\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"metal":             {map[string]string{"/proc/1/cgroup": "0::/init.scope\n"}, ""},
		"pod":               {map[string]string{"/proc/1/cgroup": "11:memory:/kubepods/burstable/podx/y\n", "/.dockerenv": ""}, "kubernetes"},
		"pod by account":    {map[string]string{"/var/run/secrets/kubernetes.io/serviceaccount/namespace": "ml"}, "kubernetes"},
		"docker by cgroup":  {map[string]string{"/proc/1/cgroup": "4:memory:/docker/8a\n"}, "docker"},
		"docker by systemd": {map[string]string{"/proc/1/cgroup": "0::/system.slice/docker-8a.scope\n"}, "docker"},
		"docker service":    {map[string]string{"/proc/1/cgroup": "0::/system.slice/docker.service\n"}, ""},
		"docker by file":    {map[string]string{"/.dockerenv": ""}, "docker"},
		"podman":            {map[string]string{"/run/.containerenv": "", "/.dockerenv": ""}, "podman"},
		"podman by cgroup":  {map[string]string{"/proc/1/cgroup": "0::/machine.slice/libpod-8a.scope\n"}, "podman"},
		"apptainer":         {map[string]string{"/.singularity.d/runscript": "", "/.dockerenv": ""}, "apptainer"},
		"enroot": {map[string]string{"/.dockerenv": "", "/.lock": "",
			"/proc/self/mountinfo": mountTable + "801 800 0:91 /x/.lock /.lock ro - ext4 /dev/sda rw\n"}, "enroot"},
		"docker on layers": {map[string]string{"/.dockerenv": "", "/proc/self/mountinfo": mountTable}, "docker"},
		"docker on a volume": {map[string]string{"/.dockerenv": "",
			"/proc/self/mountinfo": "800 700 253:4 / / rw - ext4 /dev/mapper/docker-253:0-1-8a rw\n"}, "docker"},
		"docker on a subvolume": {map[string]string{"/.dockerenv": "",
			"/proc/self/mountinfo": "800 700 0:44 /docker/btrfs/subvolumes/8a / rw - btrfs /dev/sda2 rw\n"}, "docker"},
		"an image as the disk of a machine": {map[string]string{"/.dockerenv": "",
			"/proc/self/mountinfo": "27 1 254:0 / / rw - ext4 /dev/vda rw\n"}, ""},
		"systemd's note": {map[string]string{"/run/systemd/container": "lxc\n", "/proc/self/mountinfo": mountTable}, "lxc"},
		"process 1":      {map[string]string{"/proc/1/environ": "PATH=/bin\x00container=lxc\x00"}, "lxc"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := container(probetest.Write(t, machine.Options{}, test.files)); got != test.want {
				t.Errorf("container is %q, want %q", got, test.want)
			}
		})
	}
}

func TestContainerThatSharesTheMachinesProcesses(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{"/.dockerenv": "", "/proc/self/stat": ""})
	if err := os.Mkdir(o.At("/proc/self/ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"pid": machine.InitialPID, "uts": "uts:[4026532999]"} {
		if err := os.Symlink(target, o.At("/proc/self/ns/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := container(o); got != "docker" {
		t.Errorf("container is %q, want docker", got)
	}
}

func TestDiskOfAVirtualMachineMadeFromAnImageIsNoContainer(t *testing.T) {
	o := probetest.Write(t, probetest.Machine(t, "host-metal-cgroup1"), map[string]string{"/.dockerenv": ""})
	if got := container(o); got != "" {
		t.Errorf("container is %q although all namespaces are the machine's own", got)
	}
}
