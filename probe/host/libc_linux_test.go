// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"testing"

	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestParseLoader(t *testing.T) {
	for _, test := range []struct{ name, constants, want string }{
		{"ld-linux-x86-64.so.2", "x\x00ld.so (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36.\nCopyright", "glibc 2.36"},
		{"ld-linux-aarch64.so.1", "ld.so (GNU libc) development release version 2.41.9000.\n", "glibc 2.41.9000"},
		{"ld-linux-x86-64.so.2", "nothing here", ""},
		{"ld-musl-x86_64.so.1", "\x00127.0.0.1\x00/etc/hosts\x001.2.4\x00", "musl 1.2.4"},
		{"ld-musl-aarch64.so.1", "\x001.2.5-git-12-gdeadbeef\x00", "musl 1.2.5"},
		{"ld-musl-x86_64.so.1", "\x0011.22.33\x00", ""},
		{"ld-linux-x86-64.so.2", "", ""},
	} {
		if got := parseLoader(test.name, []byte(test.constants)); got != test.want {
			t.Errorf("parseLoader(%s, %q) = %q, want %q", test.name, test.constants, got, test.want)
		}
	}
}

func TestLibcByTheNameOfAnOldLoader(t *testing.T) {
	loader := machine.LoaderOf("/bin/sh")
	if loader == "" {
		t.Skip("SKIPPED: /bin/sh of this machine is static, so there is no loader to stand in for")
	}
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	o := probetest.Write(t, machine.Options{}, map[string]string{"/bin/sh": string(shell), filepath.Dir(loader) + "/ld-2.28.so": "not read"})
	if err := os.Symlink("ld-2.28.so", o.At(loader)); err != nil {
		t.Fatal(err)
	}
	if got := libc(o); got != "glibc 2.28" {
		t.Errorf("libc is %q, want glibc 2.28", got)
	}
}

func TestLibcWithoutAShell(t *testing.T) {
	if got := libc(probetest.Write(t, machine.Options{}, map[string]string{"/bin/sh": "#!/bin/busybox\n"})); got != "" {
		t.Errorf("libc is %q", got)
	}
}
