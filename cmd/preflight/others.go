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

// keptFromOthers refuses a configuration file that nobody has named and that others than the
// user and root may write, or put another one in place of: it says which program runs on
// every node, and what a fix is.
func keptFromOthers(file string) error {
	for _, path := range []string{file, filepath.Dir(file)} {
		info, err := os.Stat(path)
		if err != nil {
			return nil // whoever reads it says so
		}
		if why := writers(info); why != "" {
			return usage.WithHint(fmt.Errorf("refused policy file %s: %s %s, and the file can run commands on the nodes", file, path, why),
				"if you trust it, name it: --config %s; otherwise take it from the others: chown %s %s; chmod go-w %s", file, strconv.Itoa(os.Geteuid()), path, path)
		}
	}
	return nil
}

// writers says who but us and root may write a file, or make files in a directory; "" for nobody.
func writers(info fs.FileInfo) string {
	mode := info.Mode()
	if info.IsDir() && mode&fs.ModeSticky != 0 {
		mode &^= 0o022 // theirs are told by their owner
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

// isOurAlone is whether a group is the user's own, which has their name, as distributions make them.
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
