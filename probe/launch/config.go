// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/secret"
	"preflight/probe/machine"
)

// configSize is the largest configuration whose text is reported, in bytes.
const configSize = 256 << 10

// configText returns the unchanged text of a DeepSpeed configuration. It returns "" if the file is
// too large to be a configuration, or is not text.
func configText(path string) string {
	text, err := readOrdinary(path, configSize+1)
	if err != nil || len(text) > configSize || !utf8.Valid(text) {
		return ""
	}
	return string(text)
}

// readConfigs replaces every configuration by its JSON, without possible secrets. The launch's own
// interpreter reads the configurations that are not JSON.
func readConfigs(ctx context.Context, o machine.Options, files []facts.File) {
	for i := range files {
		file := &files[i]
		if file.Text != "" && !json.Valid([]byte(file.Text)) {
			file.Text, file.Hjson = readHjson(ctx, o, o.At(file.Path))
		}
		file.Text = maskConfig(file.Text)
	}
}

// askHjson reads a file in the same way as DeepSpeed. Its answer is the last line that it prints,
// because sitecustomize may also print lines.
//
// Source: deepspeed/runtime/config.py, DeepSpeedConfig.__init__; config_utils.py,
// dict_raise_error_on_duplicate_keys.
const askHjson = `import json, sys
answer = {}
try:
    import hjson
    def once(pairs):
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError("Duplicate keys in DeepSpeed config: %s" % [name for name in found if names.count(name) > 1])
        return found
    try:
        answer["text"] = json.dumps(hjson.load(open(sys.argv[1]), object_pairs_hook=once))
    except Exception as error:
        kind = type(error)
        answer["refused"] = "%s%s: %s" % ("" if kind.__module__ == "builtins" else kind.__module__ + ".", kind.__name__, error)
except ImportError as error:
    answer["unknown"] = str(error)
print("\n" + json.dumps(answer))
`

// readHjson makes the launch's interpreter read a file, and returns the content as JSON.
func readHjson(ctx context.Context, o machine.Options, path string) (text string, hjson *facts.Hjson) {
	python := cmp.Or(o.Interpreter, "python3")
	stdout, stderr, err := hostsys.Child{Path: python, Args: []string{"-B", "-c", askHjson, path}, Limit: readLimit}.Run(ctx)
	var answer struct{ Text, Refused, Unknown string }
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if json.Unmarshal([]byte(lines[len(lines)-1]), &answer) != nil {
		answer.Unknown = hostsys.Complaint(stderr, cmp.Or(err, errors.New("it did not print what preflight asked for")))
	}
	if answer.Unknown != "" {
		answer.Unknown = python + ": " + answer.Unknown
	}
	return answer.Text, &facts.Hjson{Refused: secret.Hide(answer.Refused), Unknown: answer.Unknown}
}

// maskConfig replaces possible secrets in a JSON text by "…". These are the values below a key that
// suggests a secret, and secrets inside strings. Everything else stays unchanged, because checks
// search the text for duplicate keys.
func maskConfig(text string) string {
	m := &configMasker{text: text, decoder: json.NewDecoder(strings.NewReader(text))}
	m.decoder.UseNumber()
	m.value(false, false)
	return m.out.String() + text[m.at:]
}

// configMasker copies a JSON text token by token.
type configMasker struct {
	text    string
	decoder *json.Decoder
	at      int64 // the text is copied up to this offset
	out     strings.Builder
}

// value copies the next value. A list below a key that suggests a secret is a list of secrets. An
// object below such a key is a secret only if the key allows nothing else.
func (m *configMasker) value(isSecret, whole bool) {
	switch m.next(isSecret || whole) {
	case json.Delim('{'):
		for m.decoder.More() {
			name, _ := m.next(false).(string)
			m.value(whole || secret.Named(name), whole || secret.NamedThroughout(name))
		}
		m.next(false)
	case json.Delim('['):
		for m.decoder.More() {
			m.value(isSecret || whole, isSecret || whole)
		}
		m.next(false)
	}
}

// next copies the next token. If the token is a secret, it copies only the text before the token. A
// number can be a secret too.
func (m *configMasker) next(isSecret bool) json.Token {
	token, _ := m.decoder.Token()
	copied := m.text[m.at:m.decoder.InputOffset()]
	m.at = m.decoder.InputOffset()
	literal := strings.TrimLeft(copied, " \t\r\n,:")
	m.out.WriteString(strings.TrimSuffix(copied, literal))
	_, isText := token.(string)
	_, isNumber := token.(json.Number)
	if isSecret && (isText || isNumber) {
		literal = `"` + secret.Hidden + `"`
	}
	m.out.Write(secret.HideJSON([]byte(literal)))
	return token
}
