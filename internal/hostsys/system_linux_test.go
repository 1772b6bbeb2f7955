// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEachMapped(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "maps"), []byte(`7f00-7f01 rw-s 00000000 00:17 42                         /dev/shm/nccl-a
7f00-7f01 rw-s 00000000 00:17 43                         /dev/shm/a (deleted)
7f00-7f01 rw-p 00000000 00:00 0
7f00-7f01 rw-p 00000000 00:00 0                          [heap]
7f00-7f01 rw-p 00000000 08:01 44                         /usr/lib/libc.so.6
7f00-7f01 rw-s 00000000 00:17 x                          /dev/shm/a
`), 0o600); err != nil {
		t.Fatal(err)
	}
	var found []uint64
	if err := EachMapped(dir, unix.Mkdev(0, 0x17), func(inode uint64) { found = append(found, inode) }); err != nil || !slices.Equal(found, []uint64{42, 43}) {
		t.Errorf("%v, %v", found, err)
	}
	if err := EachMapped(filepath.Join(dir, "none"), 0, nil); !os.IsNotExist(err) {
		t.Errorf("of no process: %v", err)
	}
}
