// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/launch"
)

// answers runs a script of this directory. The script prints the version of the program that it
// tests, and then one answer for each order.
func answers[Answer, Order any](t *testing.T, orders []Order, argv ...string) (version string, all []Answer) {
	t.Helper()
	var lines bytes.Buffer
	for _, o := range orders {
		line, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	for i, word := range argv {
		if here, err := filepath.Abs(word); err == nil && filepath.Ext(word) == ".py" {
			argv[i] = here
		}
	}
	script := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	script.Dir = t.TempDir() // the programs leave files in the directory in which they run
	script.Stdin, script.Stderr = &lines, &logged{t: t}
	out, err := script.Output()
	if err != nil {
		t.Fatalf("%q: %v; run oracle/setup.sh where it is missing", argv, err)
	}
	said := json.NewDecoder(bytes.NewReader(out))
	if err := said.Decode(&version); err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	all = make([]Answer, len(orders))
	for i := range all {
		if err := said.Decode(&all[i]); err != nil {
			t.Fatalf("answer %d of %q: %v", i, argv, err)
		}
	}
	return version, all
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// endpoint is a value of --rdzv_endpoint as torch or launch reads it.
type endpoint struct {
	Host  string
	Port  int
	Error string
}

// TestRulesEndpoint gives torchrun and launch the same endpoints, most of them random combinations
// of meaningful parts.
func TestRulesEndpoint(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 15))
	// There is no newline in this list. Python would allow a newline at the end of a text, but no
	// host name contains one.
	parts := []string{
		"w1", "10.0.0.1", ":", "[", "]", "fd00::1", "29500", "0", "65536", "_", "-", ".", "@", " ", "%", "é", "x", "\t", "::", "99999", "123456", "+1", "/",
		"٣", "\u3000", "²", "\u0301", "Ⅷ", "\u0085",
	}
	texts := []string{
		"w1:65535", "[fd00::1]:29500", "[fd00::1]", "fd00::1", "fe80::1%eth0:29500",
		"w1:000001", "w1:-1", "w1:1.0", "[w1]:1", "[[fd00::1]]:1", "w1:29500:",
	}
	for range 4000 {
		var text strings.Builder
		for range r.IntN(6) {
			text.WriteString(pick(r, parts...))
		}
		texts = append(texts, text.String())
	}
	eachRelease(t, func(t *testing.T, release release) {
		version, all := answers[endpoint](t, texts, release.python, "-W", "ignore", "rules.py", "endpoint")
		accepted := 0
		for i, want := range all {
			want.Error = strings.TrimSuffix(want.Error, ".") // preflight's errors have no full stop
			got := endpoint{}
			var err error
			if got.Host, got.Port, err = launch.ParseEndpoint(texts[i], 29400); err != nil {
				got.Error = err.Error()
			} else {
				accepted++
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("torch %s, %q: (-want +got)\n%s", version, texts[i], diff)
			}
		}
		t.Logf("torch %s: %d endpoints, %d of them accepted", version, len(texts), accepted)
		if accepted < len(texts)/20 || accepted > len(texts)/2 {
			t.Error("that is not what the endpoints are meant to be")
		}
	})
}
