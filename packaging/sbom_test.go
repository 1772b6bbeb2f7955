// SPDX-License-Identifier: Apache-2.0

//go:build release

package packaging

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSBOM requires the list of components of a release to name what is linked into preflight.
func TestSBOM(t *testing.T) {
	files, err := filepath.Glob("../dist/preflight-*.cdx.json")
	if err != nil || len(files) != 1 {
		t.Fatalf("lists in dist: %q, want one: %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		BOMFormat, SpecVersion string
		Components             []struct{ Name, PURL string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if list.BOMFormat != "CycloneDX" || list.SpecVersion != "1.6" {
		t.Errorf("format %s %s, want CycloneDX 1.6", list.BOMFormat, list.SpecVersion)
	}
	for _, name := range []string{"std", "github.com/NVIDIA/go-nvml", "github.com/spf13/viper", "golang.org/x/crypto"} {
		at := slices.IndexFunc(list.Components, func(c struct{ Name, PURL string }) bool { return c.Name == name })
		if at < 0 || !strings.HasPrefix(list.Components[at].PURL, "pkg:golang/"+name+"@") {
			t.Errorf("%s is not in the list with its package URL", name)
		}
	}
}
