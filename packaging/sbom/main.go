// SPDX-License-Identifier: Apache-2.0

// Command sbom writes what finished binaries are made of, as CycloneDX 1.6 JSON
// (cyclonedx.org/docs/1.6/json), to standard output:
//
//	SOURCE_DATE_EPOCH=… go run ./packaging/sbom -version v1.2.0 FILE…
//
// It lists what the Go linker wrote into the binaries (debug/buildinfo): every module
// that is in one of them, with the digest go.sum has of it, and the Go release whose
// standard library is. Of licences it names ours. It refuses to guess: those of others and
// what depends on what are not in a binary, so they are not in the document, and the C
// library is not listed because it is the system's.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "the release the binaries are of")
	flag.Parse()
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil || *version == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: SOURCE_DATE_EPOCH=SECONDS sbom -version VERSION FILE…")
		os.Exit(2)
	}
	if err := write(os.Stdout, *version, time.Unix(epoch, 0), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// The parts of a CycloneDX document that are filled in.
type (
	document struct {
		Format      string      `json:"bomFormat"`
		SpecVersion string      `json:"specVersion"`
		Version     int         `json:"version"`
		Metadata    metadata    `json:"metadata"`
		Components  []component `json:"components"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string      `json:"type"`
		Ref        string      `json:"bom-ref"`
		Name       string      `json:"name"`
		Version    string      `json:"version,omitempty"`
		PURL       string      `json:"purl,omitempty"`
		Hashes     []hash      `json:"hashes,omitempty"`
		Licenses   []license   `json:"licenses,omitempty"`
		Properties []property  `json:"properties,omitempty"`
		Components []component `json:"components,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	license struct {
		License struct {
			ID string `json:"id"` // as SPDX has it
		} `json:"license"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// write looks into the binaries. They are parts of the application; the modules are
// beside it, each once.
func write(w io.Writer, version string, when time.Time, paths []string) error {
	app := component{Type: "application", Ref: "preflight", Name: "preflight", Version: version, Licenses: make([]license, 1)}
	app.Licenses[0].License.ID = "Apache-2.0"
	modules := map[string]component{}
	for _, path := range paths {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		binary, err := file(path)
		if err != nil {
			return err
		}
		app.Components = append(app.Components, binary)
		goVersion := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
		for _, one := range append(info.Deps, &debug.Module{Path: "std", Version: goVersion}) {
			library := module(one)
			modules[library.Ref] = library
		}
	}
	all := slices.SortedFunc(maps.Values(modules), func(a, b component) int { return cmp.Compare(a.Ref, b.Ref) })
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(document{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Components: all,
		Metadata: metadata{Timestamp: when.UTC().Format(time.RFC3339), Component: app},
	})
}

func file(path string) (component, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return component{}, err
	}
	name := filepath.Base(path)
	return component{Type: "file", Ref: "file:" + name, Name: name,
		Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(data))}}}, nil
}

// module is one that was linked, the replacement where it was replaced. Its package URL
// is of the type golang (package-url/purl-spec): slashes stay, a + is written %2B. The
// case of the path stays too, against that specification's letter and as every scanner
// of Go has it, because two paths that differ in it are two modules.
func module(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	library := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" {
		// h1 is a digest over the digests of all files, which is none of CycloneDX's.
		library.Properties = []property{{"go:sum", m.Sum}}
	}
	return library
}
