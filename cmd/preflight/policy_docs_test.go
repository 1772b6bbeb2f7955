// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"preflight/checks/agreement"
	"preflight/checks/knownbad"
)

// TestPolicyDocs checks that the examples in docs/policy.md are valid policies, and that the page
// has every setting, section, key and severity.
func TestPolicyDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 5 {
		t.Errorf("%d examples are found", len(blocks))
	}
	for _, block := range blocks {
		path := t.TempDir() + "/preflight.yaml"
		if err := os.WriteFile(path, []byte(block[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		root := rootCommand()
		if err := root.ParseFlags([]string{"--config", path}); err != nil {
			t.Fatal(err)
		}
		config, err := readConfig(root, typedLaunch{})
		if err == nil {
			_, err = config.policy()
		}
		if err != nil {
			t.Errorf("%v in\n%s", err, block[1])
		}
	}
	prose := regexp.MustCompile("(?ms)^```yaml\n.*?^```$").ReplaceAllString(string(page), "")
	for _, s := range settings(rootCommand()) {
		if !strings.Contains(prose, "`"+s.key+"`") {
			t.Errorf("the setting %s is not there", s.key)
		}
	}
	for _, topic := range agreement.TopicNames() {
		if !strings.Contains(prose, "`"+topic+"`") {
			t.Errorf("the topic %s is not there", topic)
		}
	}
	for word := range knownbad.Words {
		if !strings.Contains(prose, "`"+word+"`") {
			t.Errorf("the word %s is not there", word)
		}
	}
	for _, key := range []string{"expect", "groups", "severity", "waivers", "fact", "is", "nodes", "fix", "check", "reason", "owner", "until", "known_bad", "id", "when", "says", "cure", "source"} {
		if !regexp.MustCompile(`(?m)^[ -]*` + key + `:`).Match(page) {
			t.Errorf("no example has the key %s", key)
		}
	}
}
