// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/base64"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/internal/secret"
)

const maxFiles = 32

// FilesNamed is what the launch will open by path as far as its command tells:
// the script, the DeepSpeed configuration, and arguments of the script that look
// like paths. All are absolute if WorkDir is; there are at most 32, none of them
// twice.
//
// A module is looked for where python looks first, below the working directory.
// Since it may as well be an installed one, its candidates have the role of
// arguments, which need not exist.
func FilesNamed(o Options) []facts.LaunchFile {
	var files []facts.LaunchFile
	add := func(name, role string) {
		if !path.IsAbs(name) {
			name = path.Join(o.WorkDir, name)
		}
		name = path.Clean(name)
		isNamed := func(f facts.LaunchFile) bool { return f.Path == name }
		if len(files) < maxFiles && !slices.ContainsFunc(files, isNamed) {
			files = append(files, facts.LaunchFile{Path: name, Role: role})
		}
	}
	switch {
	case o.Script == "":
	case o.Module:
		below := strings.ReplaceAll(o.Script, ".", "/")
		add(below+".py", facts.RoleArgument)
		add(below+"/__main__.py", facts.RoleArgument)
	case o.NoPython && !strings.Contains(o.Script, "/"): // it is looked up in PATH, and may be meant otherwise
		add(o.Script, facts.RoleArgument)
	default:
		add(o.Script, facts.RoleScript)
	}
	if o.TypedAs != "" {
		add(o.TypedAs, facts.RoleProgram)
	}
	if o.VenvScript != "" {
		add(o.VenvScript, facts.RoleVenv)
	}
	configs, others := namedByArguments(secret.Arguments(o.Arguments))
	if o.ConfigFile != "" {
		configs = append(configs, o.ConfigFile)
	}
	for _, config := range configs {
		add(config, facts.RoleConfig)
	}
	for _, other := range append(others, o.Reads...) {
		if looksLikePath(other) {
			add(other, facts.RoleArgument)
		}
	}
	return files
}

// configOptions are what scripts call the DeepSpeed configuration: DeepSpeed's
// own add_config_arguments and what others made of it.
var configOptions = []string{"deepspeed_config", "ds_config", "deepspeed_config_file"}

// switchOrConfig is a switch to DeepSpeed's add_config_arguments, and takes the
// configuration in the Trainer of transformers.
const switchOrConfig = "deepspeed"

func namedByArguments(arguments []string) (configs, others []string) {
	for _, s := range settingsIn(arguments) {
		values := s.values
		if len(values) > 0 && (slices.Contains(configOptions, s.name) || s.name == switchOrConfig && (s.pair || strings.HasSuffix(strings.ToLower(values[0]), ".json"))) {
			if values[0] != "" && !isJSON(values[0]) {
				configs = append(configs, values[0])
			}
			values = values[1:]
		}
		for _, value := range values {
			if looksLikePath(value) {
				others = append(others, value)
			}
		}
	}
	return configs, others
}

// isJSON is whether a configuration is given by its text, as it is or in Base64.
//
// Source: deepspeed/runtime/config.py, DeepSpeedConfig, 0.9.5 to 0.19.8.
func isJSON(value string) bool {
	if strings.HasPrefix(strings.TrimSpace(value), "{") {
		return true
	}
	text, err := base64.URLEncoding.DecodeString(value)
	return err == nil && json.Valid(text)
}

var (
	// isKey is what stands before the "=" of an option or of a setting, as in
	// --data=x and data.path=x.
	isKey = regexp.MustCompile(`^[\w.+-]+$`)
	// isNumbers is a date or a fraction.
	isNumbers = regexp.MustCompile(`^[0-9/.-]+$`)
	// hubName is a name on a hub: organisation/model.
	hubName = regexp.MustCompile(`^[\w.-]+/[\w.-]+$`)
)

// fileEndings are those of the files that scripts are given.
var fileEndings = strings.Fields(`.json .jsonl .hjson .yaml .yml .py .toml .txt .cfg .ini .conf .env .sh .model .csv .tsv .parquet .arrow .bin .idx
	.pt .pth .ckpt .safetensors .npy .npz .pkl .h5 .gz .zst .tar .md .jinja .tiktoken .bpe`)

// looksLikePath is a guess. What is a pattern, a text, an address or somebody's
// home directory names no file by itself.
func looksLikePath(word string) bool {
	if strings.ContainsAny(word, "*?[]{}$`<>|\"'\n\t") || strings.HasPrefix(word, "~") {
		return false
	}
	if strings.HasPrefix(word, "/") || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../") {
		return true
	}
	switch {
	case strings.ContainsAny(word, " :,;"), isNumbers.MatchString(word):
		return false
	case slices.Contains(fileEndings, strings.ToLower(path.Ext(word))):
		return true
	}
	return strings.Contains(word, "/") && !hubName.MatchString(word)
}
