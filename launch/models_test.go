// SPDX-License-Identifier: Apache-2.0

package launch

import "testing"

func TestModelsNamed(t *testing.T) {
	for _, c := range []struct{ script, words, want string }{
		{"train.py", "--lr 1", ""},
		{"train.py", "--model_name_or_path Qwen/Qwen3-4B --lr 1", "Qwen/Qwen3-4B main"},
		{"train.py", "--model-name-or-path=Qwen/Qwen3-4B --model_revision v2", "Qwen/Qwen3-4B v2"},
		{"train.py", "--model ./Qwen/Qwen3-4B", ""},
		{"train.py", "--model /models/qwen", ""},
		{"train.py", "--model gpt2", ""}, // a word that may be anything
		{"train.py", "--model Qwen/Qwen3-4B --cache_dir /hub", ""},
		{"swift.cli.sft", "--model Qwen/Qwen3-4B", ""},
		{"swift.cli.sft", "--model Qwen/Qwen3-4B --use_hf true", "Qwen/Qwen3-4B main"},
	} {
		words, err := SplitWords(c.words)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, model := range ModelsNamed(Options{Script: c.script, Arguments: words}) {
			got += model.Name + " " + model.Revision
		}
		if got != c.want {
			t.Errorf("%s %s names %q, want %q", c.script, c.words, got, c.want)
		}
	}
}
