// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/procfs"

	"preflight/internal/lazyregexp"
)

// Mounts returns the mount table of this process in mount order, with unescaped names. The caller
// must not change the table.
func Mounts(o Options) ([]*procfs.MountInfo, error) {
	if o.mounts != nil {
		return o.mounts()
	}
	return readMounts(o)
}

// Together returns options for collectors that run at the same time. With them, the mount table is
// read once for all collectors; half of the collectors need it.
func (o Options) Together() Options {
	o.mounts = sync.OnceValues(func() ([]*procfs.MountInfo, error) { return readMounts(o) })
	return o
}

func readMounts(o Options) ([]*procfs.MountInfo, error) {
	proc, err := procfs.NewFS(o.At("/proc"))
	if err != nil {
		return nil, err
	}
	table, err := proc.GetMounts()
	if err != nil {
		return nil, err
	}
	for _, m := range table {
		m.MountPoint, m.Root, m.Source = unescape(m.MountPoint), unescape(m.Root), unescape(m.Source)
	}
	return table, nil
}

// MountOf returns the mount of an absolute path without symbolic links. It returns the deepest
// mount. If there are several at one mount point, it returns the last, which hides the others. It
// returns nil if the table has no root.
func MountOf(table []*procfs.MountInfo, path string) *procfs.MountInfo {
	var deepest *procfs.MountInfo
	for _, m := range table {
		if Below(path, m.MountPoint) && (deepest == nil || len(m.MountPoint) >= len(deepest.MountPoint)) {
			deepest = m
		}
	}
	return deepest
}

// Below reports whether path is dir or is below dir.
func Below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// Has reports whether the mount or its file system has an option.
func Has(m *procfs.MountInfo, option string) bool {
	_, onMount := m.Options[option]
	_, onSuper := m.SuperOptions[option]
	return onMount || onSuper
}

// unescape replaces the kernel's octal codes, such as \040, for space, tab, newline, backslash and
// hash (fs/proc_namespace.c, show_mountinfo).
func unescape(name string) string {
	if !strings.Contains(name, `\`) {
		return name
	}
	return octal.ReplaceAllStringFunc(name, func(code string) string {
		char, _ := strconv.ParseUint(code[1:], 8, 8) // the expression guarantees octal digits
		return string([]byte{byte(char)})
	})
}

var octal = lazyregexp.New(`\\[0-3][0-7]{2}`)
