// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
)

func TestMaskConfig(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing secret", `{"train_batch_size": 8, "zero_optimization": {"stage": 3}}`, ""},
		{"a key", `{"wandb": {"api_key": "hunter2", "team": "us"}}`, `{"wandb": {"api_key": "…", "team": "us"}}`},
		{"in any spelling", `{"WANDB_API_KEY": "hunter2", "accessKey": "hunter2", "hfToken":"hunter2", "db-password" : "hunter2", "authtoken": "hunter2"}`,
			`{"WANDB_API_KEY": "…", "accessKey": "…", "hfToken":"…", "db-password" : "…", "authtoken": "…"}`},
		{"words that only look alike", `{"prescale_gradients": true, "keys": ["a"], "max_tokens": 5, "tokenizer": "x", "monkey": "x", "bypass": "x", "fp16": {"secretary": "x"}}`, ""},
		{"escapes", `{"api_key": "hun\"ter2\\", "a": "b"}`, `{"api_key": "…", "a": "b"}`},
		{"numbers are secrets too, and words of JSON are none", `{"pass": 1234, "token": null, "key": true}`, `{"pass": "…", "token": null, "key": true}`},
		{"lists", `{"api_key": ["hunter2", "hunter3"], "a": ["b"]}`, `{"api_key": ["…", "…"], "a": ["b"]}`},
		{"lists under a longer name", `{"token_list": ["hunter2"], "key_of": {"a": "b"}}`, `{"token_list": ["…"], "key_of": {"a": "b"}}`},
		{"all below credentials", `{"credentials": {"user": "me", "more": {"pin": 7, "x": ["y"]}}, "a": "b"}`, `{"credentials": {"user": "…", "more": {"pin": "…", "x": ["…"]}}, "a": "b"}`},
		{"DeepSpeed's schedule by tokens is readable", `{"layer_token_lr_schedule": {"type": "linear", "steps": 5}}`, ""},
		{"an address", `{"uri": "https://me:hunter2@host/x", "other": "ssh://host:22/me@x"}`, `{"uri": "https://…@host/x", "other": "ssh://host:22/me@x"}`},
		{"a token for an address", `{"uri": "https://ghp_hunter2@host/x"}`, `{"uri": "https://…@host/x"}`},
		{"plurals", `{"api_keys": ["hunter2", "hunter3"], "max_tokens": 5}`, `{"api_keys": ["…", "…"], "max_tokens": 5}`},
		{"headers and hooks", `{"authorization": "Bearer hunter2", "webhooks": {"slack": "https://host/hunter2"}}`, `{"authorization": "…", "webhooks": {"slack": "…"}}`},
		{"blanks, and keys that are there twice", "\r\n{ \"a\" : 1,\n\"a\":\t[ ] }\n", ""},
	}
	for _, tt := range tests {
		want := tt.want
		if want == "" {
			want = tt.text
		}
		if diff := cmp.Diff(want, maskConfig(tt.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// FuzzMaskConfig checks that a secret is removed, whatever surrounds it, and that the text stays
// JSON.
func FuzzMaskConfig(f *testing.F) {
	f.Add(`{"a": ["# x", {"b": "//"}, null], "c:": "\\\""}`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) || strings.Contains(text, "hunter2") {
			return
		}
		text = `{"access_token": "hunter2", "a": ` + text + `, "api_keys": ["hunter2"], "b": {"pass": "hunter2"}}`
		if masked := maskConfig(text); strings.Contains(masked, "hunter2") || !json.Valid([]byte(masked)) {
			t.Errorf("%q came from %q", masked, text)
		}
	})
}

func TestConfigText(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"small":     {`{"key": "x"}`, `{"key": "x"}`},
		"too large": {strings.Repeat(" ", configSize+1), ""},
		"no text":   {"\xff", ""},
	} {
		path := filepath.Join(t.TempDir(), "ds.json")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := configText(path); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if got := configText(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("of no file: %q", got)
	}
}

// TestReadConfigs checks that preflight itself reads JSON. The launch's own interpreter must read
// everything else.
func TestReadConfigs(t *testing.T) {
	o := machine.Options{Interpreter: filepath.Join(t.TempDir(), "python")}
	for _, test := range []struct {
		name, text, prints, want string
		hjson                    *facts.Hjson
	}{
		{"JSON", `{"key": 1}`, "", `{"key": "…"}`, nil},
		{"Hjson", "key: 1", `{"text": "{\"key\": 1}"}`, `{"key": "…"}`, &facts.Hjson{}},
		{"Hjson, and what sitecustomize prints", "key: 1", "hello\n" + `{"text": "{}"}`, "{}", &facts.Hjson{}},
		{"refused", "{", `{"refused": "ValueError: no"}`, "", &facts.Hjson{Refused: "ValueError: no"}},
		{"no hjson", "{", `{"unknown": "No module named 'hjson'"}`, "", &facts.Hjson{Unknown: o.Interpreter + ": No module named 'hjson'"}},
		{"no answer", "{", "", "", &facts.Hjson{Unknown: o.Interpreter + ": it did not print what preflight asked for"}},
	} {
		script := "#!/bin/sh\ncat <<'EOF'\n" + test.prints + "\nEOF\n"
		if err := os.WriteFile(o.Interpreter, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		files := []facts.File{{Text: test.text}}
		readConfigs(t.Context(), o, files)
		if diff := cmp.Diff([]facts.File{{Text: test.want, Hjson: test.hjson}}, files); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	o.Interpreter = "no-such-python"
	if _, hjson := readHjson(t.Context(), o, "/ds.json"); !strings.Contains(hjson.Unknown, "not found") {
		t.Errorf("without an interpreter: %+v", hjson)
	}
}

// TestReadHjson runs a real interpreter with a module named hjson that reads only JSON.
func TestReadHjson(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PYTHONPATH", dir)
	path := filepath.Join(dir, "ds.json")
	for _, test := range []struct{ hjson, config, text, refused, unknown string }{
		{"from json import load", `{"b": 1, "a": [null, "é"]}`, `{"b": 1, "a": [null, "\u00e9"]}`, "", ""},
		{"from json import load", `{"a": 1, "b": 2, "b": 3, "a": 4}`, "", "ValueError: Duplicate keys in DeepSpeed config: ['a', 'b']", ""},
		{"from json import load", `{`, "", "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)", ""},
		{"raise ImportError('no hjson')", `{`, "", "", "python3: no hjson"},
	} {
		for name, text := range map[string]string{"hjson.py": test.hjson + "\n", "ds.json": test.config} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text, hjson := readHjson(t.Context(), machine.Options{}, path)
		if want := (facts.Hjson{Refused: test.refused, Unknown: test.unknown}); text != test.text || *hjson != want {
			t.Errorf("%s: %s, %+v", test.config, text, hjson)
		}
	}
}
