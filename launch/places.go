// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"path"
	"slices"
	"strings"

	"preflight/facts"
)

// kept lists the options that tell a script where its ranks leave files for other ranks.
//
// Source: NVIDIA/Megatron-LM 002398e7, megatron/training/arguments.py; modelscope/ms-swift before
// 3.6, --packing_cache (issue 4462); hiyouga/LLaMA-Factory ff6d4d12, hparams/data_args.py;
// huggingface/transformers 4.57, training_args.py.
var kept = []struct {
	role    string
	options []string
}{
	{facts.RoleIndexCache, []string{"data_cache_path", "packing_cache"}},
	{facts.RoleTokenized, []string{"tokenized_path"}},
	{facts.RoleCheckpoint, []string{"resume_from_checkpoint"}},
	{facts.RoleResume, nil},
	{facts.RoleOutput, []string{"output_dir"}},
}

// megatrons maps roles to options that have these roles in Megatron but may mean anything in other
// scripts. If the --load directory does not exist, Megatron starts from scratch unless it was told
// to exit (megatron/training/checkpointing.py, _load_base_checkpoint).
var megatrons = map[string]string{facts.RoleResume: "load", facts.RoleOutput: "save"}

// PlacesNamed returns the directories in which ranks leave files for other ranks, as the command
// and its configuration name them. Each role occurs once. The paths are absolute if WorkDir is
// absolute.
func PlacesNamed(o Options) (places []facts.LaunchFile) {
	settings := o.settings()
	for _, k := range kept {
		named, isTold := lastOf(settings, k.options...)
		if !isTold && isMegatron(settings) {
			if named, _ = lastOf(settings, megatrons[k.role]); k.role == facts.RoleIndexCache {
				named = megatronCache(settings)
			}
		}
		if len(named) == 1 && isPlace(named[0]) {
			dir, role := named[0], k.role
			if _, mustBe := lastOf(settings, "exit_on_missing_checkpoint"); role == facts.RoleResume && mustBe {
				role = facts.RoleCheckpoint
			}
			if !path.IsAbs(dir) {
				dir = path.Join(o.WorkDir, dir)
			}
			places = append(places, facts.LaunchFile{Path: path.Clean(dir), Role: role})
		}
	}
	return places
}

// outputsNamed returns the directories that options with customary names say results go to. The
// names mean nothing certain, so a rehearsal tries only those directories that exist on a node.
func outputsNamed(settings []setting) (directories []string) {
	for _, name := range []string{"output", "output_path", "out_dir", "outdir", "save_dir", "save_path", "checkpoint_dir", "ckpt_dir"} {
		if named, _ := lastOf(settings, name); len(named) == 1 && isPlace(named[0]) {
			directories = append(directories, named[0])
		}
	}
	return directories
}

// isPlace reports whether a value names a directory. "true" does not: it makes the Trainer of
// transformers resume from the last checkpoint in its output directory.
func isPlace(value string) bool {
	isWord := slices.Contains([]string{"", "true", "false", "none", "null", "latest", "auto"}, strings.ToLower(value))
	isFile := slices.Contains(fileEndings, strings.ToLower(path.Ext(value)))
	return !isWord && !isFile && !strings.ContainsAny(value, "*?[]{}$`<>|\"':,; \n\t") && !strings.HasPrefix(value, "~")
}

// isMegatron reports whether the settings contain two options without which Megatron does not
// start.
func isMegatron(settings []setting) bool {
	_, hasBatch := lastOf(settings, "micro_batch_size")
	_, hasLength := lastOf(settings, "seq_length")
	return hasBatch && hasLength
}

// savesOnEachNode reports whether the first rank of every node writes files that otherwise only
// rank 0 writes. DeepSpeed calls this use_node_local_storage.
//
// Source: huggingface/transformers 4.57, training_args.py, save_on_each_node.
func (o Options) savesOnEachNode() bool {
	said, isTold := lastOf(o.settings(), "save_on_each_node")
	return isTold && (len(said) == 0 || slices.Contains([]string{"true", "1", "yes"}, strings.ToLower(said[0])))
}

// megatronCache returns the default directory in which Megatron's rank 0 keeps the indices of its
// data, which is next to the first data set.
//
// Source: NVIDIA/Megatron-LM 002398e7, megatron/core/datasets/gpt_dataset.py,
// _build_document_sample_shuffle_indices.
func megatronCache(settings []setting) []string {
	words, _ := lastOf(settings, "data_path", "train_data_path")
	for _, word := range words {
		if isPlace(word) && !isNumbers.MatchString(word) { // a number is the share of the next data set
			return []string{path.Join(word, "cache")}
		}
	}
	return nil
}
