// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"preflight/cmd/preflight/internal/usage"
)

// refuseWritableByOthers returns an error if users other than this user and root can write or
// replace a configuration file that the user did not name. The file decides which programs run on
// every node.
func refuseWritableByOthers(file string) error {
	for _, path := range []string{file, filepath.Dir(file)} {
		info, err := os.Stat(path)
		if err != nil {
			return nil // reading it will report the error
		}
		if why := writers(info); why != "" {
			return usage.WithHint(fmt.Errorf("refused policy file %s: %s %s, and the file can run commands on the nodes", file, path, why),
				"if you trust it, name it: --config %s; otherwise take it from the others: chown %s %s; chmod go-w %s", file, strconv.Itoa(os.Geteuid()), path, path)
		}
	}
	return nil
}

// writers describes who else, apart from this user and root, can write a file or create files in a
// directory. It returns "" if no other user can.
func writers(info fs.FileInfo) string {
	mode := info.Mode()
	if info.IsDir() && mode&fs.ModeSticky != 0 {
		mode &^= 0o022 // in a sticky directory, only the owner can replace a file, and the owner is checked
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return ""
	case is.Uid != 0 && int(is.Uid) != os.Geteuid() && !(os.Geteuid() == 0 && strconv.Itoa(int(is.Uid)) == os.Getenv("SUDO_UID")):
		return fmt.Sprintf("belongs to user %d", is.Uid)
	case mode&0o002 != 0:
		return "is writable by everybody"
	case mode&0o020 != 0 && is.Gid != 0 && !isOurAlone(is.Gid):
		return fmt.Sprintf("is writable by group %d", is.Gid)
	}
	return ""
}

// isOurAlone reports whether a group is the user's private group, which distributions name after
// the user.
func isOurAlone(gid uint32) bool {
	if int(gid) != os.Getegid() {
		return false
	}
	group, err := user.LookupGroupId(strconv.Itoa(int(gid)))
	us, unknown := user.Current()
	if err != nil || unknown != nil {
		return int(gid) == os.Geteuid()
	}
	return group.Name == us.Username
}
