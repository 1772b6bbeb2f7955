// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"preflight/testhosts/gpus"
)

// TestRealGPU packs the test for a machine with a real GPU, as make gpu does, and runs it on a host
// with the stand-in for NVML, which has neither nvidia-smi nor torch with CUDA. The table must say
// what is right, and name what it could not do.
func TestRealGPU(t *testing.T) {
	cluster := raise(t, "realgpu")
	node := cluster.Nodes[0]
	plantOn(t, cluster, node.Name, driver(gpus.H100s(1)))
	dist := filepath.Join(sharedPrograms, "gpu")
	if out, err := exec.Command("make", "-C", "..", "gpu", "BIN="+filepath.Dir(binary(t)), "GPU="+dist).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	archive := dist + ".tar.gz"
	if info, err := os.Stat(archive); err != nil || info.Size() > 40<<20 {
		t.Errorf("the archive is too large: %v, %v", info, err)
	}
	if out, err := node.Run(t.Context(), "tar", "-C", "/root", "-xzf", archive); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	table, err := node.Run(t.Context(), "sh", "/root/gpu/run.sh")
	t.Logf("%v\n%s", err, table)
	for _, want := range []string{
		`facts +nvidia-smi -q -x +NOT RUN .*nothing to compare`,
		`healthy +gpu-driver-loads +pass +no finding expected +right`,
		`healthy +gpu-healthy +pass +no finding expected +right`,
		`healthy +gpu-mode +pass +no finding expected +right`,
		`launch +NCCL with one rank +NOT RUN .*cannot use the GPU`,
		`planted +another process on the GPU +NOT RUN`,
		`planted +compute mode prohibited +NOT RUN .*run with -settings as root`,
		`planted +lowered power limit +NOT RUN .*nvidia-smi`,
		`rehearse .*rehearsal`,
		`\d+ rows right, 0 WRONG, \d+ unsure, \d+ NOT RUN`,
	} {
		if !regexp.MustCompile(want).MatchString(table) {
			t.Errorf("the table has no line %q", want)
		}
	}
	if err != nil && !strings.Contains(table, "WRONG") {
		t.Error(err)
	}
}
