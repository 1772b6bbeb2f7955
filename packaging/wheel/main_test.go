// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestPythonVersion tests order and spelling against PEP 440, so that pip keeps the name.
func TestPythonVersion(t *testing.T) {
	for release, want := range map[string]string{
		"v1.2.0":                  "1.2.0",
		"v1.2.0-rc1":              "1.2.0rc1",
		"v1.2.0-beta.2":           "1.2.0b2",
		"v1.2.0-rc1-5-gabcdef0":   "1.2.0rc1.post5+gabcdef0",
		"v1.2.0-5-gabcdef0-dirty": "1.2.0.post5+gabcdef0.dirty",
		"v1.2.0-dirty":            "1.2.0+dirty",
		"v0.1.0-dev-5-gabcdef0":   "0.1.0.dev5+gabcdef0",
		"v0.1.0-dev":              "0.1.0.dev0",
		"7d1250ea":                "0+7d1250ea",
		"7d1250ea-dirty":          "0+7d1250ea.dirty",
	} {
		if got := pythonVersion(release); got != want {
			t.Errorf("%s is %s, want %s", release, got, want)
		}
	}
}
