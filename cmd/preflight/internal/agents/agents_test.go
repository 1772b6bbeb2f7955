// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"preflight/remote"
)

// packed returns this test's own program, packed like an agent.
func packed(t *testing.T) *fstest.MapFile {
	t.Helper()
	text, err := remote.Pack("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: text}
}

func TestOpen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: opening agents, because this program is none")
	}
	agent := packed(t)
	own, err := remote.Own("linux", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	readme := &fstest.MapFile{Data: []byte("no agent\n")}
	for name, c := range map[string]struct {
		carried fstest.MapFS
		arch    string
		found   bool
	}{
		"a plain build":      {fstest.MapFS{"README.md": readme}, runtime.GOARCH, true},
		"for it":             {fstest.MapFS{"linux-mips.gz": agent, "linux-arm.gz": agent}, "mips", true},
		"of another machine": {fstest.MapFS{"linux-mips.gz": agent}, runtime.GOARCH, false},
		"none for it":        {fstest.MapFS{"README.md": readme}, "mips", false},
	} {
		all, err := open(c.carried)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found, err := all.of("linux", c.arch)
		if c.found != (err == nil) || c.found && found.Hash != own.Hash {
			t.Errorf("%s: found %+v (%v)", name, found, err)
		}
		if !c.found && (!errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "make cross ARCHES="+c.arch)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := fstest.MapFS{"linux-mips.gz": readme}
	if _, err := open(broken); err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "linux-mips.gz") {
		t.Errorf("a broken one: %v", err)
	}
}

func TestStatic(t *testing.T) {
	dynamic, static := &remote.Binary{Loader: "/lib/ld.so"}, &remote.Binary{}
	if (set{"linux-mips.gz": dynamic}).static() {
		t.Error("an agent that can load libraries is called static")
	}
	if !(set{"linux-mips.gz": dynamic, "linux-arm.gz": static}).static() {
		t.Error("one agent of two is static, and none is called so")
	}
	if (set{}).static() != OwnStatic() {
		t.Error("a preflight without agents is not judged by its own program")
	}
}

// TestOpenedOnce: every node asks for an agent, so the cost must not grow with the number of
// agents.
func TestOpenedOnce(t *testing.T) {
	agent := packed(t)
	all, err := open(fstest.MapFS{"linux-mips.gz": agent})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := all.of("linux", "mips")
	again, err := all.of("linux", "mips")
	if err != nil || first != again {
		t.Errorf("two nodes were found two binaries (%v)", err)
	}
	text, err := first.Gzip()
	if err != nil || !bytes.Equal(text, agent.Data) {
		t.Errorf("%d bytes to send (%v), want %d", len(text), err, len(agent.Data))
	}
	if same, _ := again.Gzip(); &same[0] != &text[0] {
		t.Error("two nodes get two copies")
	}
}

// TestNoneIsLeftInTheTree: every build embeds the agents that are in the tree. If an agent were
// left there, builds of later sources would send it.
func TestNoneIsLeftInTheTree(t *testing.T) {
	left, err := filepath.Glob("carried/*")
	if want := []string{"carried/README.md"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%q (%v), want %q", left, err, want)
	}
}
