// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

// readPDSH asks pdsh which modules it can load, in the environment that DeepSpeed gives it. It also
// checks the directories whose permissions pdsh checks.
func readPDSH(ctx context.Context, path string) (*facts.PDSH, error) {
	pdsh := &facts.PDSH{Path: path}
	environ := append(os.Environ(), "PDSH_RCMD_TYPE=ssh", "LC_ALL=C")
	stdout, stderr, err := hostsys.Child{Path: path, Args: []string{"-V"}, Env: environ, Limit: machine.VersionLimit}.Run(ctx)
	pdsh.Version, pdsh.Modules = parsePDSHVersion(stdout)
	switch {
	case hostsys.Shortage(err) != "": // a shortage of the machine is not a fault of pdsh
		return nil, err
	case strings.TrimSpace(stderr) != "":
		pdsh.Problem = strings.TrimSpace(stderr)
	case err != nil:
		pdsh.Problem = hostsys.Complaint("", err)
	}
	pdsh.ModuleDir = moduleDir(path)
	if pdsh.ModuleDir != "" {
		pdsh.Insecure = insecureDirs(pdsh.ModuleDir, ownerOf(path))
	}
	return pdsh, nil
}

// parsePDSHVersion parses the output of `pdsh -V`:
//
//	pdsh-2.34 (+readline+debug)
//	rcmd modules: ssh,rsh,exec (default: rsh)
func parsePDSHVersion(output string) (version string, modules []string) {
	modules = []string{}
	version, _ = machine.After(output, "pdsh-")
	list, found := machine.After(output, "rcmd modules: ")
	if list = machine.FirstWord(list); found && list != "(none)" {
		modules = strings.Split(list, ",")
	}
	return machine.FirstWord(version), modules
}

// builtInDir matches the module directory that is compiled into pdsh.
var builtInDir = lazyregexp.New(`(/[\w./+-]+/pdsh)\x00`)

// moduleDir returns the directory from which this pdsh loads its modules. It is the path that is
// compiled into pdsh (on Debian the binary is pdsh.bin, behind a script). Without such a path, it
// is the usual directory next to pdsh. moduleDir returns "" if there is neither.
func moduleDir(path string) string {
	var candidates []string
	for _, program := range []string{path, path + ".bin"} {
		data, err := os.ReadFile(program)
		if err != nil {
			continue
		}
		for _, match := range builtInDir.FindAllSubmatch(data, -1) {
			candidates = append(candidates, string(match[1]))
		}
	}
	prefix := filepath.Dir(filepath.Dir(path))
	for _, lib := range append([]string{prefix + "/lib64", prefix + "/lib"}, machine.DefaultLibraryDirs...) {
		candidates = append(candidates, filepath.Join(lib, "pdsh"))
	}
	for _, dir := range candidates {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}

// ownerOf returns the owner of a file. If the file cannot be read, it returns root, which pdsh
// trusts.
func ownerOf(path string) uint32 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// insecureDirs returns the directories that pdsh refuses among dir and its parents. The rule is in
// src/pdsh/mod.c (2.34), _dir_permission_error. A directory must be owned by root, by the caller or
// by pdsh's owner, and may be world-writable only with the sticky bit. pdsh applies the same rule
// to single modules, and loads the other modules.
func insecureDirs(dir string, pdshOwner uint32) []string {
	var insecure []string
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // pdsh goes up with "..", so it checks the parents of the real path
	}
	for {
		if problem := whyInsecure(dir, pdshOwner); problem != "" {
			insecure = append(insecure, dir+" "+problem)
		}
		if dir == "/" {
			return insecure
		}
		dir = filepath.Dir(dir)
	}
}

func whyInsecure(dir string, pdshOwner uint32) string {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "is not there"
	}
	if err != nil {
		return machine.Reason(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	caller := uint32(os.Getuid())
	switch {
	case stat.Uid != 0 && stat.Uid != caller && stat.Uid != pdshOwner:
		return fmt.Sprintf("owner uid %d", stat.Uid)
	case stat.Mode&0o002 != 0 && stat.Mode&syscall.S_ISVTX == 0:
		return fmt.Sprintf("mode %04o", stat.Mode&0o7777)
	}
	return ""
}
