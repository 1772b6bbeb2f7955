// SPDX-License-Identifier: Apache-2.0

//go:build release

package portable_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/nvml"
)

// gnu maps Go's name of an architecture to Debian's name of the machine.
var gnu = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// oldSystem is one of the directories that roots.sh creates.
type oldSystem struct{ root, arch string }

// oldSystems returns the systems that this machine can run: those of its own architecture as on a
// node, and the others with qemu if it is installed.
func oldSystems(t *testing.T) []oldSystem {
	t.Helper()
	roots, err := filepath.Glob("../bin/roots/*-*")
	if err != nil || len(roots) == 0 {
		t.Fatalf("no old systems (%v): make release-check fetches them", err)
	}
	var systems []oldSystem
	for _, root := range roots {
		root, err := filepath.Abs(root)
		if err != nil {
			t.Fatal(err)
		}
		arch, _, _ := strings.Cut(filepath.Base(root), "-")
		if _, err := exec.LookPath("qemu-" + gnu[arch] + "-static"); err != nil && arch != runtime.GOARCH {
			t.Logf("NOT RUN: %s, because there is no qemu-user-static: sh testhosts/apt.sh release installs it", filepath.Base(root))
			continue
		}
		systems = append(systems, oldSystem{root, arch})
	}
	return systems
}

// inside runs its remaining arguments in a root, with a real /proc and with the directory of the
// binary on /mnt. The mounts end with the command.
const inside = `root=$1 dir=$2; mount -t proc proc "$root/proc" && mount --bind "$dir" "$root/mnt" && shift 2 && exec chroot "$root" "$@"`

// run starts a finished binary on the system, with an empty stdin.
func (s oldSystem) run(t *testing.T, binary string, args ...string) []byte {
	t.Helper()
	dir, name := filepath.Split(binary)
	argv := append([]string{"unshare", "-m", "sh", "-c", inside, "sh", s.root, dir, "/mnt/" + name}, args...)
	if s.arch != runtime.GOARCH {
		argv = append([]string{"qemu-" + gnu[s.arch] + "-static", "-L", s.root, binary}, args...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", binary, args, err, stderr.Bytes())
	}
	return out
}

// agent returns the path of the agent that the release carries for the architecture.
func (s oldSystem) agent(t *testing.T) string {
	t.Helper()
	agent := "../bin/agents/linux-" + s.arch
	if _, err := os.Stat(agent); err != nil {
		t.Fatalf("%v: make release builds it", err)
	}
	return agent
}

func TestReleaseStartsOnOldSystems(t *testing.T) {
	for _, system := range oldSystems(t) {
		t.Run(filepath.Base(system.root), func(t *testing.T) {
			if out := system.run(t, "../dist/preflight-linux-"+system.arch, "--version"); !bytes.HasPrefix(out, []byte("preflight ")) {
				t.Errorf("--version says %q", out)
			}
			binary := system.agent(t)
			_, text, _ := bytes.Cut(system.run(t, binary, "agent"), []byte(" "))
			var greeting struct {
				Hello struct{ OS, Arch string }
			}
			if err := json.Unmarshal(text, &greeting); err != nil {
				t.Errorf("%s agent says %q: %v", binary, text, err)
			}
			if got := greeting.Hello; got.OS != "linux" || got.Arch != system.arch {
				t.Errorf("%s says it is for %s on %s", binary, got.OS, got.Arch)
			}
		})
	}
}

// driverless is the source of a libnvidia-ml.so.1 that reports a driver that is not loaded. It
// needs no C library and lacks almost every function.
const driverless = `
int nvmlInit_v2(void) { return 9; }
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "?"; }
`

// install puts the library where the system's loader finds it.
func (s oldSystem) install(t *testing.T) {
	t.Helper()
	cc, err := exec.Command("sh", "cc.sh", s.arch).Output()
	if err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(s.root, "usr/lib", gnu[s.arch]+"-linux-gnu", "libnvidia-ml.so.1")
	argv := append(strings.Fields(string(cc)), "-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libnvidia-ml.so.1", "-xc", "-o", library, "-")
	if err := os.MkdirAll(filepath.Dir(library), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(library) })
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(driverless)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", argv, err, out)
	}
}

// TestReleaseAsksNVMLOnOldSystems tests the reason for using cgo: on an old system the agent loads
// the driver's library, and survives functions that the library lacks.
func TestReleaseAsksNVMLOnOldSystems(t *testing.T) {
	for _, system := range oldSystems(t) {
		t.Run(filepath.Base(system.root), func(t *testing.T) {
			system.install(t)
			var failure *facts.NVMLFailure
			done := false
			for line := range bytes.Lines(system.run(t, system.agent(t), "agent", "nvml")) {
				var said nvml.Line
				if json.Unmarshal(line, &said) == nil && said.Failure != nil {
					failure = said.Failure
				}
				done = done || said.Done
			}
			want := &facts.NVMLFailure{Kind: facts.FailureNoDriver, Call: "nvmlInit_v2", Code: 9, Text: "Driver Not Loaded"}
			if diff := cmp.Diff(want, failure); diff != "" || !done {
				t.Errorf("came to its end: %v; failure (-want +got):\n%s", done, diff)
			}
		})
	}
}
