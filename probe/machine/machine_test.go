// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"testing"
)

func TestPasswdEntry(t *testing.T) {
	o := Options{Root: t.TempDir()}
	const passwd = "root:x:0:0:root:/root:/bin/bash\nml:x:1000:1000::/home/ml:\nml2:x:1000:1000::/home/b:/bin/zsh\nshort:x:7\n"
	if err := os.Mkdir(o.At("/etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.At("/etc/passwd"), []byte(passwd), 0o644); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[int]Account{
		0:    {"root", "/root", "/bin/bash"},
		1000: {"ml", "/home/ml", "/bin/sh"},
		7:    {},
		42:   {},
	} {
		if got := passwdEntry(o, uid); got != want {
			t.Errorf("uid %d is %+v, want %+v", uid, got, want)
		}
	}
}

func TestSessionOfAnAccountThatOnlyADirectoryKnows(t *testing.T) {
	t.Setenv("USER", "ldapuser")
	t.Setenv("HOME", "/nfs/ldapuser")
	t.Setenv("SHELL", "/bin/tcsh")
	want := Account{"ldapuser", "/nfs/ldapuser", "/bin/tcsh"}
	if got := Session(Options{Root: t.TempDir()}); got != want {
		t.Errorf("session is %+v, want %+v", got, want)
	}
}
