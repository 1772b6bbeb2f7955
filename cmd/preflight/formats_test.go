// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/report"
	"preflight/report/formats"
)

// TestANewFormat checks that a new format needs only a row in the table.
func TestANewFormat(t *testing.T) {
	formats.All = append(slices.Clip(formats.All), formats.Format{
		Name: "haiku", Is: "a poem", Endings: []string{"poem"}, Unread: true, AddedTo: "POEMS",
		Render: func(w io.Writer, r checks.Report, _ report.Style) error {
			_, err := io.WriteString(w, "autumn wind: "+string(r.Verdict)+"\n")
			return err
		},
	})
	t.Cleanup(func() { formats.All = formats.All[:len(formats.All)-1] })
	preflight := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		root := rootCommand()
		root.SetArgs(args)
		root.SetOut(&out)
		root.SetErr(&out)
		if err := root.Execute(); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return out.String()
	}
	for name, args := range map[string][]string{
		"help": {"help", "output"}, "the values of --format": {"__complete", "--format", ""}, "those of -o": {"__complete", "-o", "json=a,"},
		"the help of judge": {"judge", "--help"},
	} {
		if !strings.Contains(preflight(args...), "haiku") {
			t.Errorf("%s lacks it", name)
		}
	}
	if undocumented := undocumentedFormats(t); !slices.Equal(undocumented, []string{"haiku"}) {
		t.Errorf("not missed in the documentation: %q", undocumented)
	}
	dir := t.TempDir()
	run := filepath.Join(dir, "run.json")
	if err := os.WriteFile(run, recordedRun, 0o644); err != nil {
		t.Fatal(err)
	}
	byName, byEnding := filepath.Join(dir, "named"), filepath.Join(dir, "a.poem")
	if o := outputs.Of("text", "-o", []string{byEnding})[0]; o.Format != "haiku" {
		t.Errorf("%s would be %s", byEnding, o.Format)
	}
	t.Setenv("POEMS", filepath.Join(dir, "poems"))
	judge := func(flags ...string) error {
		root := rootCommand()
		root.SetArgs(append([]string{"judge", run, "-q"}, flags...))
		return root.Execute()
	}
	const poem = "autumn wind: fail\n"
	for range 2 { // the second time it overwrites the files of the first
		if err := judge("-o", "haiku="+byName, "-o", byEnding, "-o", os.Getenv("POEMS"), "--format", "haiku"); err != exitCode(exitFail) {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	for _, path := range []string{byName, byEnding, os.Getenv("POEMS")} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got[path] = string(text)
	}
	if diff := cmp.Diff(map[string]string{byName: poem, byEnding: poem, os.Getenv("POEMS"): poem + "\n\n" + poem}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFormatsAreDocumented checks that docs/ci.md names every format and the extension of its
// files.
func TestFormatsAreDocumented(t *testing.T) {
	if undocumented := undocumentedFormats(t); undocumented != nil {
		t.Errorf("docs/ci.md lacks %q", undocumented)
	}
}

func undocumentedFormats(t *testing.T) (missing []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range formats.All {
		named := strings.Contains(string(text), "`"+f.Name+"`") || strings.Contains(string(text), "`--"+f.Name)
		ending := len(f.Endings) == 0 || strings.Contains(string(text), "`."+f.Endings[0]+"`")
		if !named || !ending {
			missing = append(missing, f.Name)
		}
	}
	return missing
}
