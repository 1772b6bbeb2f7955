// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var when = time.Unix(1700000000, 0)

// program is one with modules in it; the binary of a test does not tell of its own.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "floor")
	cmd := exec.Command("go", "build", "-o", path, "../../portable/floor")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestWrite: what CycloneDX 1.6 demands of a document is
// there (its JSON schema: bomFormat, specVersion, and of a component type and name), and
// references are unique.
func TestWrite(t *testing.T) {
	binary := program(t)
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := write(out, "v1.2.0", when, []string{binary, binary}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two runs wrote two documents")
	}
	var got document
	decoder := json.NewDecoder(&first)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(text))
	if got.Format != "CycloneDX" || got.SpecVersion != "1.6" || got.Version != 1 || got.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("this is no CycloneDX document of the commit's time: %+v", got)
	}
	if app := got.Metadata.Component; app.Version != "v1.2.0" || len(app.Components) != 2 || app.Components[0].Hashes[0].Content != digest {
		t.Errorf("the binaries are not told of: %+v", app)
	}
	if app := got.Metadata.Component; len(app.Licenses) != 1 || app.Licenses[0].License.ID != "Apache-2.0" {
		t.Errorf("under which licence it is was not told: %+v", app)
	}
	var names []string
	purl := regexp.MustCompile(`^pkg:golang/[^@+]+@[^@+]+$`)
	for _, one := range got.Components {
		names = append(names, one.Name)
		if one.Type != "library" || one.Ref != one.PURL || !purl.MatchString(one.PURL) {
			t.Errorf("a component nobody can look up: %+v", one)
		}
	}
	if !slices.Contains(names, "std") || !slices.Contains(names, "github.com/hashicorp/go-version") {
		t.Errorf("of %q, something is missing", names)
	}
	if unique := slices.Compact(slices.Clone(names)); len(unique) != len(names) {
		t.Errorf("told twice: %q", names)
	}
}

func TestModule(t *testing.T) {
	replaced := &debug.Module{Path: "example.com/old", Version: "v1.0.0",
		Replace: &debug.Module{Path: "example.com/New", Version: "v2.0.0+incompatible", Sum: "h1:abc="}}
	want := component{Type: "library", Ref: "pkg:golang/example.com/New@v2.0.0%2Bincompatible", Name: "example.com/New",
		Version: "v2.0.0+incompatible", PURL: "pkg:golang/example.com/New@v2.0.0%2Bincompatible", Properties: []property{{"go:sum", "h1:abc="}}}
	if diff := cmp.Diff(want, module(replaced)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWriteWithoutABinary(t *testing.T) {
	if err := write(&bytes.Buffer{}, "v1", when, []string{"main.go"}); err == nil {
		t.Error("a text was taken for a binary")
	}
	if err := write(&bytes.Buffer{}, "v1", when, []string{"nowhere"}); err == nil {
		t.Error("a file that is not there was taken for a binary")
	}
}
