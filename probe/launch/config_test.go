// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		{"a key where a value should be", `{"a": "key": "hunter2"}`, `{"a": "key": "…"}`},
		{"a value like a key, and like a comment", "uri: https://host/x\napi_key: https://host/x", "uri: https://host/x\napi_key: \"…\""},
		{"all below credentials", `{"credentials": {"user": "me", "more": {"pin": 7, "x": ["y"]}}, "a": "b"}`, `{"credentials": {"user": "…", "more": {"pin": "…", "x": ["…"]}}, "a": "b"}`},
		{"DeepSpeed's schedule by tokens is readable", `{"layer_token_lr_schedule": {"type": "linear", "steps": 5}}`, ""},
		{"an address", `{"uri": "https://me:hunter2@host/x", "other": "ssh://host:22/me@x"}`, `{"uri": "https://…@host/x", "other": "ssh://host:22/me@x"}`},
		{"a token for an address", `{"uri": "https://ghp_hunter2@host/x"}`, `{"uri": "https://…@host/x"}`},
		{"plurals", `{"api_keys": ["hunter2", "hunter3"], "max_tokens": 5}`, `{"api_keys": ["…", "…"], "max_tokens": 5}`},
		{"headers and hooks", `{"authorization": "Bearer hunter2", "webhooks": {"slack": "https://host/hunter2"}}`, `{"authorization": "…", "webhooks": {"slack": "…"}}`},
		{"comments", "{\n# hunter2\n\"a\": 1, // hunter2\n/* hunter2\nhunter2 */ \"b\": 2 }\n#", "{\n#…\n\"a\": 1, //…\n/*…\n*/ \"b\": 2 }\n#…"},
		{"no comment", `{"a": "# x", "b": "// x"}`, ""},
		{"Hjson", "{\n  api_key: hunter2, and more\n  stage: 3\n  name: some text\n  token: '''\n  hunter2\n  '''\n  'secret': 'hunter2'\n}\n",
			"{\n  api_key: \"…\"\n  stage: 3\n  name: some text\n  token: '''…'''\n  'secret': '…'\n}\n"},
		{"Hjson without braces", "api_key: hunter2\nstage : 3", "api_key: \"…\"\nstage : 3"},
		{"a mistake stays", "{\"a\": 1,}\n{\"b\" 2", ""},
		{"a mistake that swallows a key", `{"a": None, "api_key": "hunter2"}`, `{"a": "…"`},
		{"a string without an end", "{\"a\": \"x, api_key: hunter2\n, \"b\": 3}", "{\"a\": \"…\"\n, \"b\": 3}"},
		{"a secret without an end", "{\"key\": \"hunter2\n, \"b\": 3}", "{\"key\": \"…\"\n, \"b\": 3}"},
		{"too many brackets", `]}]{"key": "hunter2"`, `]}]{"key": "…"`},
		{"no configuration", "\x00:;'\"\\", "\x00:;'\"\\"},
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

// Whatever the text, masking ends, and keeps its lines. Whatever stands beside a
// secret, the secret goes.
func FuzzMaskConfig(f *testing.F) {
	f.Add("{\"a\": [1, '''x\n'''], b: /* \n */ c # d\n}")
	f.Add(`{"a": ["# x", {"b": "//"}, null], "c:": "\\\""}`)
	f.Fuzz(func(t *testing.T, text string) {
		masked := maskConfig(text)
		if lines := strings.Count(masked, "\n"); lines > strings.Count(text, "\n") {
			t.Errorf("%q has more lines than %q", masked, text)
		}
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
		"small":     {`{"key": "x"}`, `{"key": "…"}`},
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
