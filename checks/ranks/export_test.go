// SPDX-License-Identifier: Apache-2.0

package ranks

import (
	"os/exec"
	"strings"
	"testing"

	"preflight/checks/fix"
	"preflight/launch"
	"preflight/testhosts/sandbox"
)

// TestExportable checks which values are accepted for each variable.
func TestExportable(t *testing.T) {
	for line, want := range map[string]bool{
		"NCCL_SOCKET_IFNAME=eth0": true, "NCCL_SOCKET_IFNAME=^docker,lo": true, "NCCL_SOCKET_IFNAME==ens3,enp4s0f0np0": true, "NCCL_SOCKET_IFNAME=^=br-1a2b3c4d5e6f": true,
		"NCCL_SOCKET_IFNAME=bond0.100": true, "NCCL_SOCKET_IFNAME=": false, "NCCL_SOCKET_IFNAME=eth0,": false, "NCCL_SOCKET_IFNAME=eth0 eth1": false, "NCCL_SOCKET_IFNAME=a234567890123456": false,
		"GLOO_SOCKET_IFNAME=eth0,eth1": true, "GLOO_SOCKET_IFNAME==eth0": false, "GLOO_SOCKET_IFNAME=^lo": false,
		"NCCL_IB_HCA==mlx5_0:1,mlx5_1": true, "NCCL_IB_HCA=^bnxt_re0": true, "NCCL_IB_HCA=mlx5_0:x": false,
		"NCCL_IB_GID_INDEX=3": true, "NCCL_IB_GID_INDEX=-1;x": false, "MASTER_ADDR=fe80::1": true, "MASTER_ADDR=-oProxyCommand": false, "MASTER_PORT=29500": true, "MASTER_PORT=1e5": false,
		"PATH=/opt/conda/bin:/usr/bin": true, "PATH=.:/usr/bin": false, "CUDA_HOME=/usr/local/cuda-12.4": true, "CUDA_HOME=cuda": false,
		"NCCL_DEBUG_SUBSYS=INIT,NET": true, "NCCL_ALGO=^Ring": true, "NCCL_TOPO_FILE=/a b": false, "X=%h": false, "a b=1": false, "=1": false,
	} {
		name, value, _ := strings.Cut(line, "=")
		if got := Exportable(name, value); got != want {
			t.Errorf("Exportable(%s) is %v, want %v", line, got, want)
		}
	}
}

// TestNothingOfAnExportRuns exports the accepted values in the way that DeepSpeed does: unquoted
// and in double quotes.
func TestNothingOfAnExportRuns(t *testing.T) {
	var script strings.Builder
	var lines sandbox.Lines
	for _, name := range []string{"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "MASTER_ADDR", "MASTER_PORT", "CUDA_HOME", "PATH", "NCCL_DEBUG", "LD_PRELOAD", "x$(touch${IFS}pwned)"} {
		for _, before := range []string{"", "eth0", "=", "/", "1", "%h"} {
			for _, class := range sandbox.Classes {
				value := class.In(before)
				if Exportable(name, value) {
					t.Errorf("%s may be set to %q", name, value)
					script.WriteString("export " + name + "=" + value + "; export " + name + "=\"" + value + "\"; ")
				}
				for _, program := range []string{launch.ProgramDeepSpeed, launch.ProgramTorchrun} {
					line, isCommand := ExportLine(launch.Prediction{Program: program, Launcher: "pdsh"}, name, value).Addressed(fix.Audience{IsRoot: func(string) bool { return true }})
					if isCommand {
						lines.Add(class.Name, line)
					}
				}
			}
		}
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", "touch() { echo ran; }; "+script.String())
	if out, err := shell.Output(); err != nil || len(out) > 0 {
		t.Errorf("%s %v", out, err)
	}
	lines.Paste(t)
}
