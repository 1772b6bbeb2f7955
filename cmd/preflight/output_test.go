// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"preflight/checks"
)

// TestWriteEnvIsWhole checks that a reader sees the complete old file or the complete new file,
// even if it reads while preflight writes.
func TestWriteEnvIsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".deepspeed_env")
	const before = "NCCL_SOCKET_IFNAME=eth0\n"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	config := Config{WriteEnv: path}
	if err := config.writeEnv(checks.Advice{Env: []checks.AdvisedEnv{{Name: "NCCL_SOCKET_IFNAME", Value: "ib0"}}}); err != nil {
		t.Fatal(err)
	}
	if read, err := io.ReadAll(reader); string(read) != before {
		t.Errorf("a reader of the old file has %q (%v)", read, err)
	}
	if now, err := os.ReadFile(path); string(now) != "NCCL_SOCKET_IFNAME=ib0\n" {
		t.Errorf("it holds %q (%v)", now, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is not kept: %v (%v)", info.Mode(), err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("left beside it: %v", files)
	}
}
