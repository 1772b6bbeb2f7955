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

// torchScript is the rank of the torch engine. It travels on a command line, and leaves no file.
//
//go:embed torch.py
var torchScript string

// command is what runs as a rank at a place, by the engine of the crew, with variables beside its own.
func (c Crew) command(p Place, more []facts.Setting) *exec.Cmd {
	var cmd *exec.Cmd
	if c.Engine == Direct {
		// This program anew, called as we were. Of the GPUs that CUDA shows it, it takes the one of its local rank.
		cmd = exec.Command("/proc/self/exe", "agent", "smoke", strconv.Itoa(p.LocalRank), c.NCCL)
		cmd.Args[0] = os.Args[0]
	} else {
		cmd = exec.Command(c.Interpreter, "-B", "-c", torchScript, c.Accelerator)
	}
	cmd.Env = c.environment(os.Environ(), p, more)
	if info, err := os.Stat(c.WorkDir); err == nil && info.IsDir() {
		cmd.Dir = c.WorkDir // where there is none, the ranks do not come to it either, which others say
	}
	return cmd
}

// unset are the variables that a rank does without, whoever sets them, or that it is given anew:
//   - of a group that is not ours (torch/distributed/rendezvous.py and
//     torch/distributed/elastic/agent/server/local_elastic_agent.py, 2.9.1);
//   - NCCL_COMM_ID has all ranks call one address instead of where they meet (NCCL, src/bootstrap.cc),
//     NCCL_COMM_BLOCKING overrides how the direct engine calls (src/init.cc), and NCCL_DEBUG_FILE
//     takes the log away from us, into a file (src/debug.cc);
//   - of this agent, as deliver.sh sets them.
var unset = []string{
	"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
	"ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT",
	"TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE",
	"NCCL_COMM_ID", "NCCL_COMM_BLOCKING", "NCCL_DEBUG_FILE",
	"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "LD_BIND_NOW",
}

// environment is what a rank starts with: what a login has and what the launcher sets, and of
// NCCL at least what it warns of. Of two settings of a name the last one counts.
func (c Crew) environment(login []string, p Place, more []facts.Setting) []string {
	env := append([]string{"NCCL_DEBUG=WARN"}, login...)
	for _, setting := range slices.Concat(c.Env, more) {
		if setting.Value != "…" { // not collected
			env = append(env, setting.Name+"="+setting.Value)
		}
	}
	env = slices.DeleteFunc(env, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(unset, name)
	})
	// What torch writes when a collective is late would stay (TORCH_FR_DUMP_TEMP_FILE, 2.9.1,
	// before that TORCH_NCCL_DEBUG_INFO_TEMP_FILE).
	env = append(env, "LOCAL_RANK="+strconv.Itoa(p.LocalRank), "TORCH_NCCL_DUMP_ON_TIMEOUT=0")
	if p.Visible != "" {
		env = append(env, "CUDA_VISIBLE_DEVICES="+p.Visible)
	}
	return env
}
