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

// FilesNamed returns the files that the launch will open, as far as its command shows them: the
// script, the DeepSpeed configuration, and script arguments that look like paths. All paths are
// absolute if WorkDir is. There are at most 32, without duplicates.
//
// A module is searched below the working directory, where python searches first. It may also be an
// installed module. The possible files of a module therefore have the role of arguments, which need
// not exist.
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
	case o.NoPython && !strings.Contains(o.Script, "/"): // looked up in PATH, where it may be a different file
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

// configOptions lists the options with which scripts name the DeepSpeed configuration: the options
// of DeepSpeed's add_config_arguments and variants of them.
var configOptions = []string{"deepspeed_config", "ds_config", "deepspeed_config_file"}

// switchOrConfig is an option with two meanings. In DeepSpeed's add_config_arguments it is a switch
// without a value. In the Trainer of transformers it takes the configuration.
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

var (
	// inputOption matches the names of options that tell a script which data to read, and
	// outputOption those of them that tell it where to write.
	inputOption  = regexp.MustCompile(`(?i)(^|[_.])(data(set)?s?(path|dir|file|root)?|train_(files?|path)|valid(ation)?|corpus|vocab|tokenizer|inputs?|merges?|manifest)($|[_.])`)
	outputOption = regexp.MustCompile(`(?i)(^|[_.])(out|output|outputs|save|log|logs|result|results|cache|export|tokenized)($|[_.])`)
)

// Reads reports whether an option gives a file to the script as data to read, as far as the
// option's name tells.
func (p Prediction) Reads(file facts.LaunchFile) bool {
	return file.Role == facts.RoleArgument && slices.ContainsFunc(settingsIn(p.Arguments), func(s setting) bool {
		return inputOption.MatchString(s.name) && !outputOption.MatchString(s.name) && slices.ContainsFunc(s.values, func(value string) bool {
			return value == file.Path || path.Join(p.WorkDir, value) == file.Path
		})
	})
}

// isJSON reports whether a value is the configuration itself, as text or in Base64.
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
	// isKey matches the text before the "=" of an option or a setting, as in --data=x and
	// data.path=x.
	isKey = regexp.MustCompile(`^[\w.+-]+$`)
	// isNumbers matches a date or a fraction.
	isNumbers = regexp.MustCompile(`^[0-9/.-]+$`)
	// hubName matches a name on the Hugging Face Hub: organisation/model.
	hubName = regexp.MustCompile(`^[\w.-]+/[\w.-]+$`)
)

// fileEndings are the extensions of files that scripts take as arguments.
var fileEndings = strings.Fields(`.json .jsonl .hjson .yaml .yml .py .toml .txt .cfg .ini .conf .env .sh .model .csv .tsv .parquet .arrow .bin .idx
	.pt .pth .ckpt .safetensors .npy .npz .pkl .h5 .gz .zst .tar .md .jinja .tiktoken .bpe`)

// looksLikePath guesses whether a word is a path. Patterns, prose, addresses and home directories
// (~) do not count.
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
