// SPDX-License-Identifier: Apache-2.0

package mpirun

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// kind is an implementation of mpirun.
type kind struct {
	version *regexp.Regexp // matches the beginning of the output of mpirun --version
	// daemonOptions maps the launch's options that say how daemons start and call back to the
	// number of words that follow each option. All other options concern the ranks.
	daemonOptions map[string]int
	// parameters matches the names of parameters that say how daemons start. Such a parameter is
	// given by an option with a name and a value.
	parameters *regexp.Regexp
	argv       func(node string, ways, argv []string) []string
	sshWords   []string // variables with options for ssh
}

// kinds lists the implementations that preflight supports.
//
// They were tested with Open MPI 4.1.4 and MPICH 4.0.2. Both pass their standard input to rank 0.
// Open MPI ends within 0.1 s after ssh reports that a node cannot be reached. Hydra reports why ssh
// failed and then waits forever.
var kinds = []kind{
	{
		version:       regexp.MustCompile(`^\S+ \((?:Open MPI|OpenRTE|PRRTE)\)`),
		daemonOptions: map[string]int{"--mca": 2, "-mca": 2, "--prtemca": 2, "--prefix": 1, "-prefix": 1, "--allow-run-as-root": 0, "-allow-run-as-root": 0, "--tmpdir": 1},
		parameters:    regexp.MustCompile(`^(plm|oob|orte|prte|routed|ras|rml)_`),
		argv:          openMPI,
	},
	{
		version:       regexp.MustCompile(`^(HYDRA build details:|Intel\(R\) MPI Library)`),
		daemonOptions: map[string]int{"-launcher": 1, "-launcher-exec": 1, "-bootstrap": 1, "-bootstrap-exec": 1, "-iface": 1, "-rmk": 1, "-localhost": 1},
		argv:          hydra,
		sshWords:      []string{"HYDRA_LAUNCHER_EXTRA_ARGS", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"},
	},
}

// kindOf returns the kind of mpirun that prints this version text, nil if it is unknown.
func kindOf(output string) *kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.version.MatchString(strings.TrimSpace(output)) })
	if i < 0 {
		return nil
	}
	return &kinds[i]
}

// daemonArgs returns the options of a launch that say how daemons start.
func (k *kind) daemonArgs(words []string) (kept []string) {
	for i := 0; i < len(words); i++ {
		follow, way := k.daemonOptions[words[i]]
		if !way || i+follow >= len(words) {
			continue
		}
		if follow < 2 || k.parameters.MatchString(words[i+1]) {
			kept = append(kept, words[i:i+follow+1]...)
		}
		i += follow
	}
	return kept
}

// asksNothing makes ssh ask no questions. It also limits how long ssh waits for an absent machine
// to the time that preflight waits.
const asksNothing = "-o BatchMode=yes -o ConnectTimeout=5"

// ofRank lists the variables in which Open MPI describes a rank and preflight's job.
var ofRank = []string{
	"OMPI_APP_CTX_NUM_PROCS", "OMPI_COMMAND", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
	"OMPI_COMM_WORLD_NODE_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_FILE_LOCATION", "OMPI_FIRST_RANKS",
	"OMPI_MCA_ess", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_ess_base_num_procs", "OMPI_MCA_ess_base_vpid", "OMPI_MCA_initial_wdir",
	"OMPI_MCA_orte_app_num", "OMPI_MCA_orte_ess_node_rank", "OMPI_MCA_orte_ess_num_procs", "OMPI_MCA_orte_hnp_uri",
	"OMPI_MCA_orte_jobfam_session_dir", "OMPI_MCA_orte_local_daemon_uri", "OMPI_MCA_orte_node_regex", "OMPI_MCA_orte_num_nodes",
	"OMPI_MCA_orte_parent_uri", "OMPI_MCA_orte_precondition_transports", "OMPI_MCA_orte_top_session_dir", "OMPI_NUM_APP_CTX",
	"OMPI_UNIVERSE_SIZE",
}

// openMPI returns the arguments for Open MPI's mpirun that run argv on a node.
func openMPI(node string, ways, argv []string) []string {
	ssh := "plm_rsh_args"
	words := []string{}
	more := os.Getenv("OMPI_MCA_" + ssh)
	for i := 0; i < len(ways); i++ {
		if i+2 < len(ways) && ways[i+1] == ssh {
			more = ways[i+2]
			i += 2
			continue
		}
		words = append(words, ways[i])
	}
	words = append(words, "--mca", ssh, strings.TrimSpace(more+" "+asksNothing), "--bind-to", "none") // without --bind-to none, the single rank would get only one core
	return slices.Concat(words, []string{"--host", node + ":1", "-n", "1", "--wdir", "/"}, argv)
}

// hydra returns the arguments for Hydra's mpirun that run argv on a node.
func hydra(node string, ways, argv []string) []string {
	return slices.Concat(ways, []string{"-hosts", node, "-n", "1", "-wdir", "/"}, argv)
}

// environ returns the environment of an mpirun. In a Slurm job, mpirun starts its daemons with srun
// and therefore must not get ssh's options.
func (k *kind) environ(env []string) []string {
	if slices.ContainsFunc(env, func(s string) bool { return strings.HasPrefix(s, "SLURM_JOB_ID=") }) {
		return env
	}
	for _, name := range k.sshWords {
		env = append(env, name+"="+strings.TrimSpace(os.Getenv(name)+" "+asksNothing))
	}
	return env
}
