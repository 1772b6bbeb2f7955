// SPDX-License-Identifier: Apache-2.0

//go:build release

package packaging

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"preflight/testhosts"
)

// engine is podman with its own storage. It creates no cgroup, because crun 1.8 refuses machines
// with both kinds of cgroups. It sets limits, because podman would raise them, which not every root
// may do (see testhosts.Node.RunContainer).
const engine = `#!/bin/sh
verb=$1; shift
[ "$verb" != run ] || set -- --cgroups disabled --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 "$@"
exec /usr/bin/podman --root DIR/root --runroot DIR/run --storage-driver vfs --cgroup-manager cgroupfs --events-backend file "$verb" "$@"
`

// somebody is the line in /etc/passwd of the account that launches, which is not root.
const somebody = "somebody:x:4711:4711::/run/somebody:/bin/sh\n"

// TestImage builds the image and runs the commands of docs/install.md next to two nodes, as an
// account that has keys for them.
func TestImage(t *testing.T) {
	if err := testhosts.HasPodman(); err != nil {
		t.Skipf("NOT RUN: %s, because %v", t.Name(), err)
	}
	dir := t.TempDir()
	cluster := testhosts.RaiseFor(t, testhosts.Options{Name: "image", Nodes: 2, Slots: 1, Share: []string{dir}})
	podman := filepath.Join(dir, "podman")
	script(t, podman, strings.ReplaceAll(engine, "DIR", dir))
	script(t, filepath.Join(dir, "id"), "#!/bin/sh\necho 4711\n")

	began := time.Now()
	output(t, "make", "-C", "..", "image", "ENGINE="+podman)
	typed := func(command string) (said string, status int) {
		t.Helper()
		cmd := cluster.Head.Command(t.Context(), "sh", "-c", command)
		cmd.Dir = "/run/somebody/job"
		cmd.Env = append(cmd.Env, "HOME=/run/somebody", "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	for name, text := range map[string]string{"/etc/passwd": somebody, "/run/somebody/.ssh/config": "Host *\n\tUser root\n"} {
		if err := cluster.Head.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, machine := range cluster.Machines() { // because nodes share the directory of a launch
		if _, err := machine.Run(t.Context(), "mkdir", "-p", "/run/somebody/job"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cluster.Head.Run(t.Context(), "sh", "-ec", `umount /sys/fs/cgroup/unified 2>/dev/null || :
		cp /root/hostfile /run/somebody/job; cp /root/.ssh/id_ed25519 /root/.ssh/known_hosts /run/somebody/.ssh
		chown -R 4711:4711 /run/somebody`); err != nil {
		t.Fatal(err)
	}

	commands := regexp.MustCompile(`podman run [^\n`+"`"+`]+`).FindAllString(page(t, "install.md"), -1)
	if len(commands) != 2 {
		t.Fatalf("docs/install.md has %q, and a judgement and an explanation are expected", commands)
	}
	judge, explain := commands[0], commands[1]
	// The nodes have no GPUs, and may have no torch.
	said, status := typed(judge + ",torch-same --accelerator cpu")
	t.Logf("from make image to the first report: %.0f s", time.Since(began).Seconds())
	if status != 0 || !strings.HasPrefix(said, "2 nodes, 2 ranks, ") || !strings.Contains(said, "\n\nPASS  ready to launch\n") {
		t.Errorf("%s\nends with %d, and two nodes are well:\n%.3000s", judge, status, said)
	}
	if said, status := typed("echo 'RuntimeError: NCCL communicator was aborted' >train.log; " + explain); status > 2 || !strings.Contains(said, "standard input:1") {
		t.Errorf("%s\nends with %d, and does not say what it read:\n%s", explain, status, said)
	}
	for arguments, want := range map[string]string{"version": "preflight version ", "checks": "shm-size "} {
		if said, status := typed("podman run --rm --read-only --user 4711 preflight " + arguments); status != 0 || !strings.Contains(said, want) {
			t.Errorf("%s ends with %d, and lacks %q:\n%s", arguments, status, want, said)
		}
	}
}

// page is one of docs/.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
