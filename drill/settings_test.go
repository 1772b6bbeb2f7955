// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUnwritten checks that options are added only for an ssh that would accept an unknown key.
// Such an ssh must not store the key.
func TestUnwritten(t *testing.T) {
	devNull := []string{"-o", "UserKnownHostsFile=/dev/null /root/.ssh/known_hosts /etc/other"}
	for checking, want := range map[string][]string{"accept-new": devNull, "false": devNull, "off": devNull, "ask": nil, "true": nil, "": nil} {
		settings := sshSettings{values: map[string]string{"stricthostkeychecking": checking, "userknownhostsfile": "/root/.ssh/known_hosts /etc/other"}}
		if diff := cmp.Diff(want, settings.unwritten()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", checking, diff)
		}
	}
}

// TestQuickExchange checks that only the place of X25519 changes, and only if ssh would prefer the
// hybrid that takes long.
func TestQuickExchange(t *testing.T) {
	tests := map[string]string{
		"sntrup761x25519-sha512@openssh.com,curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256": "curve25519-sha256,sntrup761x25519-sha512@openssh.com,curve25519-sha256@libssh.org,ecdh-sha2-nistp256",
		"sntrup761x25519-sha512,ecdh-sha2-nistp256,curve25519-sha256":                                          "curve25519-sha256,sntrup761x25519-sha512,ecdh-sha2-nistp256",
		"mlkem768x25519-sha256,sntrup761x25519-sha512,curve25519-sha256":                                       "",
		"ecdh-sha2-nistp256,sntrup761x25519-sha512,curve25519-sha256":                                          "",
		"curve25519-sha256,sntrup761x25519-sha512":                                                             "",
		"sntrup761x25519-sha512@openssh.com":                                                                   "",
		"diffie-hellman-group14-sha1":                                                                          "",
		"":                                                                                                     "",
	}
	for offered, want := range tests {
		got := sshSettings{values: map[string]string{"kexalgorithms": offered}}.quickExchange()
		if joined := strings.TrimPrefix(strings.Join(got, " "), "-o KexAlgorithms="); joined != want {
			t.Errorf("%s: %q, want %q", offered, joined, want)
		}
	}
}

// TestSharedSettings makes the real ssh read configurations, and checks whether settings are known
// to be the same for every host.
func TestSharedSettings(t *testing.T) {
	tests := []struct {
		name, config, included string
		want                   bool
	}{
		{"nothing", "", "", true},
		{"for every host", "KexAlgorithms ecdh-sha2-nistp256\nHost *\nUser me\nMatch all\nUser me\n", "", true},
		{"as the crypto policies of Red Hat", "Match final all\nInclude INCLUDED\n", "KexAlgorithms ecdh-sha2-nistp256\n", true},
		{"other settings for some hosts", "Host w3\nHostKeyAlgorithms ssh-ed25519\nHostName x\n", "", true},
		{"for some hosts", " host w3\n\tkexalgorithms=ecdh-sha2-nistp256\n", "", false},
		{"with another separator", "Host=w3\n\"KexAlgorithms\" ecdh-sha2-nistp256\n", "", false},
		{"for some users", "Match user me\nKexAlgorithms ecdh-sha2-nistp256\n", "", false},
		{"in a file for some hosts", "Host w3\nInclude INCLUDED\n", "KexAlgorithms ecdh-sha2-nistp256\n", false},
		{"not for some hosts", "Host * !w3\nKexAlgorithms ecdh-sha2-nistp256\n", "", false},
		{"an error", "Host w3\nNonsense yes\nHost *\nNonsense yes\n", "", false},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		included, config := filepath.Join(dir, "included"), filepath.Join(dir, "config")
		for path, content := range map[string]string{included: tt.included, config: strings.ReplaceAll(tt.config, "INCLUDED", included)} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		settings := askSSH(t.Context(), "/usr/bin/ssh", "-F", config, "-p", "2222", "w1")
		if got := settings.areShared("kexalgorithms"); got != tt.want {
			t.Errorf("%s: %t, want %t: %+v", tt.name, got, tt.want, settings.files)
		}
		if settings.values != nil && settings.values["port"] != "2222" {
			t.Errorf("%s: port %s: the arguments are not read", tt.name, settings.values["port"])
		}
	}
}
