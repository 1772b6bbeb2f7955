// SPDX-License-Identifier: Apache-2.0

//go:build release

package examples

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// consumers returns the directory into which testdata/consumers.sh installs the programs that use
// the examples.
func consumers(t *testing.T) string {
	t.Helper()
	dir := absolute(t, "../bin/consumers")
	if _, err := os.Stat(filepath.Join(dir, "wanted")); err != nil {
		t.Skipf("NOT RUN: %s, because there is no %s: make release-check fetches it from PyPI", t.Name(), dir)
	}
	return dir
}

// copied copies an example into the working directory and returns its path.
func (d *desk) copied(t *testing.T, example string) string {
	t.Helper()
	text, err := os.ReadFile(example)
	path := filepath.Join(d.dir, filepath.Base(example))
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConsumerAnsible lets Ansible run the play for two machines. preflight must run once.
func TestConsumerAnsible(t *testing.T) {
	program := filepath.Join(consumers(t), "bin/ansible-playbook")
	for name, gate := range gates {
		d := newDesk(t, gate.fleet, "hostfile")
		d.env["ANSIBLE_HOME"] = d.dir
		out, code := d.run(t, program, "-v", "-i", "w1,w2", "-c", "local", d.copied(t, "ansible/preflight.yml"))
		if (code == 0) != (gate.code == 0) || strings.Count(out, `"rc": `) != 1 || !strings.Contains(out, `"rc": `+string(rune('0'+gate.code))) {
			t.Errorf("%s: the play ends with %d, while preflight ends with %d, once:\n%s", name, code, gate.code, out)
		}
		d.wrote(t, "preflight.html")
	}
}

// TestConsumerReFrame lets ReFrame run the check. The check must pass if the launch is ready, and
// it must read the duration from the file that preflight wrote.
func TestConsumerReFrame(t *testing.T) {
	program := filepath.Join(consumers(t), "bin/reframe")
	for name, gate := range gates {
		d := newDesk(t, gate.fleet, "job/hostfile")
		d.env["RFM_PREFIX"], d.env["TMPDIR"], d.env["RFM_COLORIZE"] = d.dir, d.dir, "n"
		out, code := d.run(t, program, "-c", d.copied(t, "reframe/preflight_check.py"), "-r", "--performance-report")
		if want := map[bool]string{true: "[  PASSED  ] Ran 1/1", false: "[  FAILED  ] Ran 1/1"}[gate.code == 0]; (code == 0) != (gate.code == 0) || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d while preflight ends with %d; it does not say %q:\n%s", name, code, gate.code, want, out)
		}
		if timed := regexp.MustCompile(`seconds +│ s +│ +[0-9.]+ `).MatchString(out); timed != (gate.code == 0) {
			t.Errorf("%s: that there is a time is %t:\n%s", name, timed, out)
		}
	}
}

// asksNVRx is a program that calls the service at a socket with the client of ft_launcher.
const asksNVRx = `
import sys, grpc
from nvidia_resiliency_ext.shared_utils.health_check import NodeHealthCheck
grpc.channel_ready_future(grpc.insecure_channel(sys.argv[1])).result(timeout=60)
print(NodeHealthCheck(endpoint=sys.argv[1])())
`

// TestConsumerNVRx checks that NVRx's own client excludes the node that fails. It must not exclude
// an unknown node or a node whose script is missing.
func TestConsumerNVRx(t *testing.T) {
	dir := consumers(t)
	python, script := filepath.Join(dir, "bin/python"), absolute(t, "nvrx/health-check")
	for name, c := range map[string]struct {
		fleet  fleet
		script string
		want   string
	}{
		"faulty": {fleet{nodes: "w8"}, script, "False"}, "healthy": {fleet{nodes: "w1"}, script, "True"},
		"dark": {fleet{nodes: "w6"}, script, "True"}, "no script": {fleet{nodes: "w8"}, "/nonexistent", "True"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, c.fleet)
			d.env["PYTHONPATH"] = filepath.Join(dir, "nvrx")
			endpoint := "unix://" + filepath.Join(d.dir, "nvhcd.sock")
			service := exec.Command(python, absolute(t, "nvrx/nvhcd.py"), endpoint, c.script)
			for _, key := range slices.Sorted(maps.Keys(d.env)) {
				service.Env = append(service.Env, key+"="+d.env[key])
			}
			service.Stderr = t.Output()
			if err := service.Start(); err != nil {
				t.Fatal(err)
			}
			defer service.Wait()
			defer service.Process.Kill()
			if out, code := d.run(t, python, "-c", asksNVRx, endpoint); code != 0 || !strings.HasSuffix(out, c.want+"\n") {
				t.Errorf("the client ends with %d and says %q, want %s", code, out, c.want)
			}
		})
	}
}
