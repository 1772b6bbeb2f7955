// SPDX-License-Identifier: Apache-2.0

//go:build release

package packaging

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"preflight/testhosts"
)

// ways are the ways to install preflight: the file to fetch, the program that it needs, and the
// commands of docs/install.md, which name no release. TestImage covers the image, and CI the build
// from source.
var ways = []struct {
	name, fetched, takes string
	before               string // commands to run first that are not on the page
	words                []string
	run                  string
}{
	{name: "archive", fetched: "preflight-*-linux-ARCH.tar.gz", takes: "tar",
		words: []string{"tar xzf preflight-VERSION-linux-ARCH.tar.gz", "sudo install preflight-VERSION-linux-ARCH/preflight /usr/local/bin"}, run: "preflight"},
	{name: "archive without root", fetched: "preflight-*-linux-ARCH.tar.gz", takes: "tar",
		words: []string{"tar xzf preflight-VERSION-linux-ARCH.tar.gz"}, run: "./preflight-VERSION-linux-ARCH/preflight"},
	{name: "deb", fetched: "preflight_*_ARCH.deb", takes: "apt",
		words: []string{"sudo apt install ./preflight_VERSION_ARCH.deb"}, run: "preflight"},
	{name: "rpm", fetched: "preflight-*.MACHINE.rpm", takes: "rpm", before: withoutDNF,
		words: []string{"sudo dnf install ./preflight-VERSION-1.x86_64.rpm"}, run: "preflight"},
	{name: "wheel", fetched: "preflight_launch-*-manylinux*_MACHINE.whl", takes: "python3", before: "/usr/bin/python3 -m venv train; . train/bin/activate",
		words: []string{"pip install ./preflight_launch-….whl"}, run: "preflight"},
	{name: "uvx", fetched: "preflight_launch-*-manylinux*_MACHINE.whl", takes: "python3", before: `PATH=SHARED/uv/bin:$PATH`,
		run: "uvx --from ./preflight_launch-….whl preflight"},
}

// withoutDNF replaces dnf on Debian with rpm, which refuses to install there unless forced and
// knows of no installed package.
const withoutDNF = `command -v dnf >/dev/null || dnf() { rpm --force-debian --nodeps -i "$2"; }`

// patience is the limit for one way: a newcomer gives it five minutes.
const patience = 5 * time.Minute

// aside mounts layers over the directories of this machine, so that an installation is visible only
// to the launching machine of a cluster and ends with it. It also keeps apt from asking questions.
const aside = `set -e
for tree in usr var/lib; do
	mkdir -p /run/aside/$tree/upper /run/aside/$tree/work
	mount -t overlay aside -o "lowerdir=/$tree,upperdir=/run/aside/$tree/upper,workdir=/run/aside/$tree/work" /$tree
done
printf 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n' >/etc/apt/apt.conf.d/aside`

// TestWaysIn runs the commands of docs/install.md until preflight prints a report on a hostfile, and
// logs the time that this takes. They need no network except that to the nodes.
func TestWaysIn(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			needs(t, way.takes)
			shared := t.TempDir()
			head := testhosts.RaiseFor(t, testhosts.Options{Name: "ways", Nodes: 2, Slots: 1, Share: []string{shared}}).Head
			here := strings.NewReplacer("SHARED", shared, "VERSION", "*", "…", "*", "ARCH", runtime.GOARCH, "MACHINE", machine[runtime.GOARCH], "x86_64", machine[runtime.GOARCH])
			for _, words := range append(way.words, way.run) {
				if !strings.HasPrefix(words, "SHARED") && !strings.Contains(page(t, "install.md"), words) {
					t.Errorf("docs/install.md does not say %q", words)
				}
			}
			typed := here.Replace("set -e; sudo() { \"$@\"; }\n" + way.before + "\n" + strings.Join(way.words, "\n") + "\n")
			report := here.Replace(way.run) + " --accelerator cpu"
			file := filepath.Join(shared, "fetched")
			output(t, "mkdir", file)
			output(t, "cp", released(t, here.Replace(way.fetched)), file)
			if _, err := head.Run(t.Context(), "sh", "-c", aside+"\ncp "+file+"/* /root"); err != nil {
				t.Fatal(err)
			}
			if way.name == "uvx" {
				uv(t, shared)
			}

			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := head.Command(ctx, "sh", "-c", typed+report)
			cmd.WaitDelay = time.Second     // its children may keep its output open
			said, _ := cmd.CombinedOutput() // any verdict is fine: nodes may have no torch
			t.Logf("%s: %.0f s to the first report", way.name, time.Since(began).Seconds())
			if !reported.Match(said) {
				t.Errorf("%s%s\nprints no report of two nodes:\n%s", typed, report, said)
			}
		})
	}
}

// reported matches the report of two nodes that were both reached. Otherwise the report says how
// many were reached.
var reported = regexp.MustCompile(`(?m)^2 nodes, 2 ranks, `)

// uv installs uv, from PyPI.
func uv(t *testing.T, shared string) {
	t.Helper()
	output(t, "/usr/bin/python3", "-m", "venv", filepath.Join(shared, "uv"))
	if out, err := exec.Command(filepath.Join(shared, "uv/bin/pip"), "install", "-q", "uv").CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: %s, because uv could not be fetched from PyPI: %v\n%s", t.Name(), err, out)
	}
}
