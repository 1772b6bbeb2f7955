package main

import (
	"os"
	"path/filepath"
	"testing"

	"preflight/report/formats"

	"github.com/google/go-cmp/cmp"
)

func TestOutputs(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   []string // FORMAT PATH
	}{
		{Config{}, []string{"text -"}},
		{Config{Output: []string{""}}, []string{"text -"}},
		{Config{Output: []string{"-"}}, []string{"text -"}},
		{Config{Output: []string{"a.txt"}}, []string{"text a.txt"}},
		{Config{Output: []string{"./a=b.txt"}}, []string{"text ./a=b.txt"}},
		{Config{Output: []string{"a.b=c"}}, []string{"text a.b=c"}},
		{Config{Output: []string{"./json=b"}}, []string{"text ./json=b"}},
		{Config{Output: []string{"xml=b,json=a"}}, []string{"xml b", "json a", "text -"}}, // to be refused
		{Config{Output: []string{"json=a,pdf=b"}}, []string{"json a", "pdf b", "text -"}},
		{Config{Output: []string{"json=/dev/stdout"}}, []string{"json -"}},
		{Config{Output: []string{"a,b"}}, []string{"text a,b"}},
		{Config{Output: []string{"a.html", "b.HTM", "c.json", "d.xml", "e.md", "f.prom", "g.log"}}, []string{"html a.html", "html b.HTM", "json c.json", "junit d.xml", "markdown e.md", "prometheus f.prom", "text g.log"}},
		{Config{Output: []string{"a.b/c", "text=d.html"}}, []string{"text a.b/c", "text d.html"}},
		{Config{Output: []string{"a.html"}}, []string{"html a.html", "text -"}},
		{Config{Output: []string{"a.html", "b"}, Format: "junit"}, []string{"html a.html", "junit b"}},
		{Config{Output: []string{"markdown", "html=b"}}, []string{"text markdown", "html b"}}, // to be refused
		{Config{Output: []string{"a,json=b,c,junit=d=e"}}, []string{"text a", "json b,c", "junit d=e"}},
		{Config{Output: []string{"json=a", "junit=b"}}, []string{"json a", "junit b", "text -"}},
		{Config{Output: []string{"json=a"}, Format: "json"}, []string{"json a"}},
		{Config{Output: []string{"a"}, Format: "junit"}, []string{"junit a"}},
		{Config{Output: []string{"json=-", "junit=b"}}, []string{"json -", "junit b"}},
		{Config{GoodHosts: "g", BadHosts: "b", Output: []string{"json=j"}}, []string{"json j", "good-hosts g", "bad-hosts b", "text -"}},
	} {
		if c.config.Format == "" {
			c.config.Format = "text"
		}
		var got []string
		for _, o := range c.config.outputs() {
			got = append(got, o.format+" "+o.path)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("-o %q --format %s (-want +got):\n%s", c.config.Output, c.config.Format, diff)
		}
	}
}

// TestSaveKeepsWhatCameMeanwhile: a file that was not there before the run is as little
// ours as one that was.
func TestSaveKeepsWhatCameMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	o := output{said: "-o " + path, format: "text", path: path}
	if err := o.writable(nil, formats.Rendering); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := o.save([]byte("report")); err == nil {
		t.Error("it was overwritten without a word")
	}
	if kept, err := os.ReadFile(path); string(kept) != "mine" {
		t.Errorf("it holds %q (%v)", kept, err)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(files) > 0 {
		t.Errorf("left beside it: %q", files)
	}
}
