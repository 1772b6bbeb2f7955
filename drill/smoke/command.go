// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	_ "embed"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
)

// torchScript is the rank of the torch engine. preflight passes it on a command line, so it leaves
// no file.
//
//go:embed torch.py
var torchScript string

// command returns the command that starts the rank at a place, for the crew's engine. It adds the
// variables in more.
func (c Crew) command(p Place, more []facts.Setting) *exec.Cmd {
	var cmd *exec.Cmd
	if c.Engine == Direct {
		// The command is this program again, with the same name. Its rank takes the GPU of its
		// local rank among the GPUs that CUDA shows.
		cmd = exec.Command("/proc/self/exe", "agent", "smoke", strconv.Itoa(p.LocalRank), c.NCCL)
		cmd.Args[0] = os.Args[0]
	} else {
		cmd = exec.Command(c.Interpreter, "-B", "-c", torchScript, c.Accelerator)
	}
	cmd.Env = c.environment(os.Environ(), p, more)
	if info, err := os.Stat(c.WorkDir); err == nil && info.IsDir() {
		cmd.Dir = c.WorkDir // if the directory does not exist, the launch's ranks cannot enter it either, which other checks report
	}
	return cmd
}

// unset lists the variables that a rank must not inherit, or gets again with a new value:
//   - those of another process group (torch/distributed/rendezvous.py and
//     torch/distributed/elastic/agent/server/local_elastic_agent.py, 2.9.1);
//   - NCCL_COMM_ID makes all ranks call one address instead of the group's (NCCL, src/bootstrap.cc),
//     NCCL_COMM_BLOCKING overrides how the direct engine calls (src/init.cc), and NCCL_DEBUG_FILE
//     redirects the log into a file (src/debug.cc);
//   - those of this agent, as deliver.sh sets them.
var unset = []string{
	"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
	"ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT",
	"TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE",
	"NCCL_COMM_ID", "NCCL_COMM_BLOCKING", "NCCL_DEBUG_FILE",
	"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "LD_BIND_NOW",
}

// environment returns a rank's environment. It consists of the login's environment, the variables
// that the launcher sets, and two settings that make NCCL print at least warnings, and the result of
// its own test of the paths between GPUs. NCCL has this test since 2.31, as "NCCL DIAG …"; older
// releases do not read the variable. If a name is set twice, the last value counts.
func (c Crew) environment(login []string, p Place, more []facts.Setting) []string {
	env := append([]string{"NCCL_DEBUG=WARN", "NCCL_RUN_DIAGNOSTICS=1"}, login...)
	for _, setting := range slices.Concat(c.Env, more) {
		if setting.Value != "…" { // "…" stands for a value that was not collected
			env = append(env, setting.Name+"="+setting.Value)
		}
	}
	env = slices.DeleteFunc(env, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(unset, name)
	})
	// Without this, torch would leave a dump behind when a collective is late
	// (TORCH_FR_DUMP_TEMP_FILE, 2.9.1, before that TORCH_NCCL_DEBUG_INFO_TEMP_FILE).
	env = append(env, "LOCAL_RANK="+strconv.Itoa(p.LocalRank), "TORCH_NCCL_DUMP_ON_TIMEOUT=0")
	if p.Visible != "" {
		env = append(env, "CUDA_VISIBLE_DEVICES="+p.Visible)
	}
	return env
}
