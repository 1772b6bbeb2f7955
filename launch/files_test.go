// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

func TestFilesNamed(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		words   string // the script's arguments
		want    string
	}{
		{"script", Options{Script: "src/../train.py"}, "", "script /w/train.py"},
		{"absolute", Options{Script: "/opt/train.py"}, "", "script /opt/train.py"},
		{"no command", Options{}, "", ""},
		{"module", Options{Script: "pkg.train", Module: true}, "", "argument /w/pkg/train.py, argument /w/pkg/train/__main__.py"},
		{"program", Options{Script: "./run.sh", NoPython: true}, "", "script /w/run.sh"},
		{"program in PATH", Options{Script: "bash", NoPython: true}, "run.sh", "argument /w/bash, argument /w/run.sh"},
		{"accelerate's", Options{ConfigFile: "ds.json"}, "", "config /w/ds.json"},

		{"switch and configuration", Options{}, "--deepspeed --deepspeed_config ds.json", "config /w/ds.json"},
		{"of a trainer", Options{}, "--deepspeed ds.json --lr 1", "config /w/ds.json"},
		{"joined", Options{}, "--deepspeed=conf/ds --deepspeed-config=/c/ds.json", "config /w/conf/ds, config /c/ds.json"},
		{"switch before a word", Options{}, "--deepspeed train", ""},
		{"switch before an option", Options{}, "--deepspeed_config --lr", ""},
		{"base64", Options{}, "--deepspeed_config eyJ0cmFpbl9iYXRjaF9zaXplIjogOH0=", ""},
		{"text", Options{}, `--deepspeed '{"train_batch_size": 8}.json'`, ""},
		{"other name", Options{}, "--ds_config ds.json", "config /w/ds.json"},
		{"configuration also an argument", Options{}, "ds.json --ds-config ds.json", "config /w/ds.json"},

		{"paths", Options{}, "--data /data/x --out ./out --up ../y --cfg=conf/a/b data.path=/z", "argument /data/x, argument /w/out, argument /y, argument /w/conf/a/b, argument /z"},
		{"endings", Options{}, "a.JSONL --t=tok.model --n 1.5 b.unknown", "argument /w/a.JSONL, argument /w/tok.model"},
		{"no paths", Options{}, "--model meta/llama-7b --url https://h/x.json --s3 s3://b/x.json --glob data/*.json --home ~/x.json --day 2024/01/02 --ratio 1/2/3 --host h:80/x/y", ""},
		{"sentences", Options{}, `--prompt 'either/or a/b c.txt' --tag 'a, b.txt' 'set x=/y'`, ""},
		{"hub names with an ending", Options{}, "org/data.json ./org/model", "argument /w/org/data.json, argument /w/org/model"},
		{"twice", Options{Script: "train.py"}, "train.py ./train.py", "script /w/train.py"},
	} {
		t.Run(c.name, func(t *testing.T) {
			words, err := SplitWords(c.words)
			if err != nil {
				t.Fatal(err)
			}
			c.options.WorkDir, c.options.Arguments = "/w", words
			if diff := cmp.Diff(c.want, named(FilesNamed(c.options))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func named(files []facts.LaunchFile) string {
	var all []string
	for _, file := range files {
		all = append(all, file.Role+" "+file.Path)
	}
	return strings.Join(all, ", ")
}

// TestFilesNamedAtMost: if a command names many files, only some are returned, and the
// configuration is one of them.
func TestFilesNamedAtMost(t *testing.T) {
	o := Options{WorkDir: "/w", Script: "train.py"}
	for i := range 40 {
		o.Arguments = append(o.Arguments, fmt.Sprintf("%d.txt", i))
	}
	o.Arguments = append(o.Arguments, "--deepspeed_config", "ds.json")
	files := FilesNamed(o)
	if len(files) != 32 || files[1].Role != facts.RoleConfig || files[31].Path != "/w/29.txt" {
		t.Errorf("%d files: %s", len(files), named(files))
	}
}
