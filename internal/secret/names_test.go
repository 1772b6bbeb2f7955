// SPDX-License-Identifier: Apache-2.0

package secret

import "testing"

func TestNamed(t *testing.T) {
	for name, want := range map[string]struct{ secret, throughout bool }{
		"api_key":              {true, true},
		"WANDB_API_KEY":        {true, true},
		"wandbApiKey":          {true, true},
		"--hf-token":           {true, true},
		"authtoken":            {true, true},
		"credentials":          {true, true},
		"authorization":        {true, true},
		"proxy-Authorization":  {true, true},
		"auth":                 {true, true},
		"bearer":               {true, true},
		"slack_webhook":        {true, true},
		"api_keys":             {true, true},
		"accessTokens":         {true, true},
		"apikeys":              {true, true},
		"wandb.api_key":        {true, true},
		"key_of":               {true, false},
		"token_list":           {true, false},
		"api_keys_file":        {true, false},
		"webhook_url":          {true, false},
		"keys":                 {},
		"max_tokens":           {},
		"access":               {},
		"api":                  {},
		"tokenizer":            {},
		"monkey":               {},
		"bypass":               {},
		"author":               {},
		"secretary":            {},
		"train_batch_size":     {},
		"prescale_gradients":   {},
		"special_tokens_count": {},
		"":                     {},
		"-":                    {},
	} {
		if got := Named(name); got != want.secret {
			t.Errorf("Named(%q) = %t", name, got)
		}
		if got := NamedThroughout(name); got != want.throughout {
			t.Errorf("NamedThroughout(%q) = %t", name, got)
		}
	}
}

func TestHideUsers(t *testing.T) {
	for text, want := range map[string]string{
		"https://me:hunter2@host/x, ssh://me@host": "https://…@host/x, ssh://…@host",
		"https://ghp_hunter2@host/x":               "https://…@host/x",
		"ssh://host:22/me@x":                       "ssh://host:22/me@x",
		"me@host // a b@c":                         "me@host // a b@c",
	} {
		if got := HideUsers(text); got != want {
			t.Errorf("HideUsers(%q) = %q, want %q", text, got, want)
		}
	}
}
