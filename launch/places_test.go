// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/launch/dsconfig"
)

func TestPlacesNamed(t *testing.T) {
	const megatron = "--micro-batch-size 1 --seq-length 4096 "
	for _, c := range []struct{ name, configured, words, want string }{
		{"nothing", "", "--lr 1 data", ""},
		{"a trainer's", "", "--output_dir out --resume_from_checkpoint=out/checkpoint-50 --data d", "checkpoint /w/out/checkpoint-50, output /w/out"},
		{"resumes from the last", "", "--output_dir /out --resume_from_checkpoint True", "output /out"},
		{"a file", "", "--output_dir out.json --resume_from_checkpoint model.pt", ""},
		{"no path by itself", "", "--output_dir ~/out --tokenized_path s3://b/x", ""},
		{"configured", "--output_dir=saves/qwen --tokenized_path=tok", "", "tokenized /w/tok, output /w/saves/qwen"},
		{"the argument wins", "--output_dir=a", "sft.yaml output_dir=b", "output /w/b"},
		{"Megatron's words elsewhere", "", "--load a --save b --data-path c", ""},
		{"Megatron's", "", megatron + "--load a --save b --data-cache-path /idx", "index-cache /idx, resume /w/a, output /w/b"},
		{"Megatron's that must be there", "", megatron + "--load a --exit-on-missing-checkpoint --data-cache-path /idx", "index-cache /idx, checkpoint /w/a"},
		{"beside its data", "", megatron + "--data-path 0.3 /data/a_text 0.7 /data/b_text --split 99,1,0", "index-cache /data/a_text/cache"},
		{"made-up data", "", megatron + "--mock-data", ""},
	} {
		configured, err := SplitWords(c.configured)
		if err != nil {
			t.Fatal(err)
		}
		words, err := SplitWords(c.words)
		if err != nil {
			t.Fatal(err)
		}
		got := PlacesNamed(Options{WorkDir: "/w", Configured: configured, Arguments: words})
		if diff := cmp.Diff(c.want, named(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestNodeLocal checks whether every node keeps complete checkpoints, because of a setting of the
// script or of DeepSpeed.
func TestNodeLocal(t *testing.T) {
	local := &dsconfig.File{Path: "ds.json", JSON: `{"train_batch_size": 1, "checkpoint": {"use_node_local_storage": true}}`}
	for _, c := range []struct {
		options Options
		want    bool
	}{
		{Options{Arguments: []string{"--output_dir", "out"}}, false},
		{Options{Arguments: []string{"--save_on_each_node", "--lr", "1"}}, true},
		{Options{Arguments: []string{"--save_on_each_node", "False"}}, false},
		{Options{Configured: []string{"--save_on_each_node=true"}}, true},
		{Options{Config: local}, true},
	} {
		c.options.Hosts = hosts(8, 8)
		p, err := Predict(c.options, nil)
		if err != nil || p.NodeLocal != c.want {
			t.Errorf("%v: node local %t (%v), want %t", c.options.Arguments, p.NodeLocal, err, c.want)
		}
	}
}
