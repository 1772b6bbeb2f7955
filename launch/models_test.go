// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strings"
	"testing"
)

func TestModelsNamed(t *testing.T) {
	for _, c := range []struct{ script, words, want string }{
		{"train.py", "--lr 1", ""},
		{"train.py", "--model_name_or_path Qwen/Qwen3-4B --lr 1", "Qwen/Qwen3-4B main"},
		{"train.py", "--model-name-or-path=Qwen/Qwen3-4B --model_revision v2", "Qwen/Qwen3-4B v2"},
		{"train.py", "--model ./Qwen/Qwen3-4B", ""},
		{"train.py", "--model /models/qwen", ""},
		{"train.py", "--model gpt2", ""}, // the word may be something other than a model
		{"train.py", "--model Qwen/Qwen3-4B --cache_dir /hub", "Qwen/Qwen3-4B main in /hub"},
		{"train.py", "--model Qwen/Qwen3-4B --cache_dir hub --dataset_name HuggingFaceH4/ultrachat_200k", "Qwen/Qwen3-4B main in /job/hub, data set HuggingFaceH4/ultrachat_200k main in /job/hub"},
		{"train.py", "--dataset_name ./data/mine --train_file data/train.json", ""},
		{"train.py", "--dataset_name wikitext", ""}, // the word may be something other than a data set
		{"axolotl.cli.train", "--datasets mhenrichsen/alpaca_2k_test json /data/x mhenrichsen/alpaca_2k_test", "data set mhenrichsen/alpaca_2k_test main"},
		{"llamafactory.launcher", "--dataset identity,org/data --dataset_dir data", ""}, // LLaMA-Factory's own list has these names
		{"llamafactory.launcher", "--dataset identity,org/data --dataset_dir ONLINE", "data set org/data main"},
		{"swift.cli.sft", "--dataset_name org/data", ""},
		{"swift.cli.sft", "--model Qwen/Qwen3-4B", ""},
		{"swift.cli.sft", "--model Qwen/Qwen3-4B --use_hf true", "Qwen/Qwen3-4B main"},
	} {
		words, err := SplitWords(c.words)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, model := range ModelsNamed(Options{Script: c.script, Arguments: words, WorkDir: "/job"}) {
			text := model.Name + " " + model.Revision
			if model.DataSet {
				text = "data set " + text
			}
			if model.CacheDir != "" {
				text += " in " + model.CacheDir
			}
			all = append(all, text)
		}
		if got := strings.Join(all, ", "); got != c.want {
			t.Errorf("%s %s names %q, want %q", c.script, c.words, got, c.want)
		}
	}
}
