package machine

import (
	"testing"
)

func TestParsePasswd(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\nml:x:1000:1000::/home/ml:\nml2:x:1000:1000::/home/b:/bin/zsh\nshort:x:7\n"
	for uid, want := range map[int]Account{
		0:    {"root", "/root", "/bin/bash"},
		1000: {"ml", "/home/ml", "/bin/sh"},
		7:    {},
		42:   {},
	} {
		if got, found := parsePasswd(passwd, uid); got != want || found != (want != Account{}) {
			t.Errorf("uid %d is %+v (%v), want %+v", uid, got, found, want)
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
