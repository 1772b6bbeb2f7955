// SPDX-License-Identifier: Apache-2.0

package mpirun

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// kind is whose mpirun it is.
type kind struct {
	version *regexp.Regexp // what mpirun --version begins with
	// ways are the options of a launch that say how its daemons start and call back, by how
	// many words follow; the rest is about its ranks.
	ways map[string]int
	// parameters are those of an option with a name and a value that do.
	parameters *regexp.Regexp
	argv       func(node string, ways, argv []string) []string
	sshWords   []string // variables of words that ssh gets, "" for none
}

// kinds are what we know.
//
// Open MPI 4.1.4 and MPICH 4.0.2 are what this was tried with. Both hand their standard input
// to rank 0. Open MPI ends within 0.1 s of ssh's word that a node cannot be reached. Hydra says why
// ssh failed and then waits for ever.
var kinds = []kind{
	{
		version:    regexp.MustCompile(`^\S+ \((?:Open MPI|OpenRTE|PRRTE)\)`),
		ways:       map[string]int{"--mca": 2, "-mca": 2, "--prtemca": 2, "--prefix": 1, "-prefix": 1, "--allow-run-as-root": 0, "-allow-run-as-root": 0, "--tmpdir": 1},
		parameters: regexp.MustCompile(`^(plm|oob|orte|prte|routed|ras|rml)_`),
		argv:       openMPI,
	},
	{
		version:  regexp.MustCompile(`^(HYDRA build details:|Intel\(R\) MPI Library)`),
		ways:     map[string]int{"-launcher": 1, "-launcher-exec": 1, "-bootstrap": 1, "-bootstrap-exec": 1, "-iface": 1, "-rmk": 1, "-localhost": 1},
		argv:     hydra,
		sshWords: []string{"HYDRA_LAUNCHER_EXTRA_ARGS", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"},
	},
}

// kindOf is the one whose mpirun says this of itself, nil for none.
func kindOf(said string) *kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.version.MatchString(strings.TrimSpace(said)) })
	if i < 0 {
		return nil
	}
	return &kinds[i]
}

// kept are those of a launch's words that say how daemons start.
func (k *kind) kept(words []string) (kept []string) {
	for i := 0; i < len(words); i++ {
		follow, way := k.ways[words[i]]
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

// asksNothing has ssh ask nobody for anything, and wait no longer for a machine that is not
// there than we do.
const asksNothing = "-o BatchMode=yes -o ConnectTimeout=5"

// ofRank is what Open MPI tells a rank of itself and of our job.
var ofRank = []string{
	"OMPI_APP_CTX_NUM_PROCS", "OMPI_COMMAND", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
	"OMPI_COMM_WORLD_NODE_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_FILE_LOCATION", "OMPI_FIRST_RANKS",
	"OMPI_MCA_ess", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_ess_base_num_procs", "OMPI_MCA_ess_base_vpid", "OMPI_MCA_initial_wdir",
	"OMPI_MCA_orte_app_num", "OMPI_MCA_orte_ess_node_rank", "OMPI_MCA_orte_ess_num_procs", "OMPI_MCA_orte_hnp_uri",
	"OMPI_MCA_orte_jobfam_session_dir", "OMPI_MCA_orte_local_daemon_uri", "OMPI_MCA_orte_node_regex", "OMPI_MCA_orte_num_nodes",
	"OMPI_MCA_orte_parent_uri", "OMPI_MCA_orte_precondition_transports", "OMPI_MCA_orte_top_session_dir", "OMPI_NUM_APP_CTX",
	"OMPI_UNIVERSE_SIZE",
}

// openMPI is the arguments of an Open MPI's mpirun that runs argv on a node.
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
	words = append(words, "--mca", ssh, strings.TrimSpace(more+" "+asksNothing), "--bind-to", "none") // one rank alone would get one core
	return slices.Concat(words, []string{"--host", node + ":1", "-n", "1", "--wdir", "/"}, argv)
}

// hydra is the arguments of a Hydra's mpirun that runs argv on a node.
func hydra(node string, ways, argv []string) []string {
	return slices.Concat(ways, []string{"-hosts", node, "-n", "1", "-wdir", "/"}, argv)
}

// environ is the environment of an mpirun. In a Slurm job the words would be srun's.
func (k *kind) environ(env []string) []string {
	if slices.ContainsFunc(env, func(s string) bool { return strings.HasPrefix(s, "SLURM_JOB_ID=") }) {
		return env
	}
	for _, name := range k.sshWords {
		env = append(env, name+"="+strings.TrimSpace(os.Getenv(name)+" "+asksNothing))
	}
	return env
}
