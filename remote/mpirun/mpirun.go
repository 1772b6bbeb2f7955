// SPDX-License-Identifier: Apache-2.0

// Package mpirun reaches the nodes with the mpirun that a launch would use. Its daemons start like
// those of the ranks, over the same ssh or in the same Slurm job, and connect back to the launching
// machine in the same way. Every node has an mpirun of its own. No node then waits for another, and
// each failure has the messages of one mpirun.
//
// The package does not log in by itself, because it must find what stops mpirun, in the words of
// mpirun and its ssh. It does not allow root unless the launch does. It tells ssh to ask for no
// password.
package mpirun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"slices"
	"strings"
	"time"

	"preflight/hostfile"
	"preflight/internal/hostsys"
	"preflight/internal/text"
	"preflight/remote"
	"preflight/remote/engine"
)

// Name is this carrier's name in traces.
const Name = "mpirun"

// Carrier starts the agent with mpirun.
type Carrier struct {
	engine engine.Engine
	names  *hostsys.Names
	user   string
}

// patience is the time limit for mpirun to print its version.
const patience = 8 * time.Second

// New returns a Carrier for the mpirun in PATH. words are the options that the launch adds to its
// command. New fails if mpirun is not in PATH or is of an unknown implementation.
func New(words []string) (*Carrier, error) {
	program, err := exec.LookPath("mpirun")
	if err != nil {
		return nil, fmt.Errorf("it needs mpirun in PATH: %w", err)
	}
	version, complaint, err := hostsys.Child{Path: program, Args: []string{"--version"}, Limit: patience}.Run(context.Background())
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w: %s", program, err, text.Escape(firstLine(complaint)))
	}
	by := kindOf(version)
	if by == nil {
		return nil, fmt.Errorf("%s is neither Open MPI's mpirun nor Hydra (MPICH, Intel MPI): its version is %q", program, text.Escape(firstLine(version)))
	}
	c := &Carrier{names: hostsys.NewNames("")}
	if me, err := user.Current(); err == nil {
		c.user = me.Username
	}
	ways := by.daemonArgs(words)
	c.engine = engine.Engine{
		Name: Name,
		Program: func(node string, argv []string) *exec.Cmd {
			cmd := exec.Command(program, by.argv(node, ways, argv)...)
			cmd.Env = by.environ(os.Environ())
			return cmd
		},
		Sheds: ofRank, Explain: explain, Hangs: true,
		Silent: "a firewall of the launching machine may drop what mpirun's daemon sends from there",
	}
	return c, nil
}

// Files counts the files of one mpirun per node: its three streams, and the file that reports its
// end.
func (c *Carrier) Files(names []string) int { return 4 * len(names) }

// Close waits until every mpirun has ended.
func (c *Carrier) Close() error {
	c.engine.Close()
	return nil
}

// Dial only looks up the address to which the node's name resolves on the launching machine, if
// any. mpirun connects to the node when the command starts. Dial drops a user name before the host
// and leaves it to ssh's configuration, as with Open MPI's option.
func (c *Carrier) Dial(ctx context.Context, name string) (remote.Connection, *remote.Trace, error) {
	trace := &remote.Trace{Carrier: Name, User: c.user}
	host := hostfile.Bare(name)
	trace.Address = engine.Address(ctx, c.names, host)
	if err := ctx.Err(); err != nil {
		return nil, trace, &remote.Error{Host: name, Stage: remote.StageResolve, Cause: remote.Interrupted, Err: context.Cause(ctx)}
	}
	return c.engine.Connect(host), trace, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 200)]
}

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

// reason is a message of mpirun, its ssh or its daemons that says why the command does not start.
type reason struct {
	line  *regexp.Regexp
	cause remote.Cause
	hard  bool // after this message mpirun cannot succeed any more, even if it continues
}

// reasons lists the known messages, the most important first.
//
// Source: openssh-portable 9.2, sshconnect.c and ssh.c. open-mpi/ompi 4.1,
// orte/tools/orterun/help-orterun.txt (root), orte/mca/oob/tcp/help-oob-tcp.txt and
// oob_tcp_connection.c (version), orte/mca/errmgr/base/help-errmgr-base.txt (daemon),
// orte/mca/rmaps/base/help-orte-rmaps-base.txt (slots); PRRTE has the same texts. pmodels/mpich
// 4.0, src/pm/hydra/utils/sock/sock.c, pm/pmiserv/pmip.c. All except those about versions and slots
// were seen with Open MPI 4.1.4 and MPICH 4.0.2.
var reasons = []reason{
	{regexp.MustCompile(`has detected an attempt to run as root`), remote.RootRefused, true},
	{regexp.MustCompile(`^ssh: Could not resolve hostname `), remote.NameUnknown, true},
	{regexp.MustCompile(`^ssh: connect to host .*: Connection refused`), remote.Refused, true},
	{regexp.MustCompile(`^ssh: connect to host .*: (Connection|Operation) timed out`), remote.TimedOut, true},
	{regexp.MustCompile(`^ssh: connect to host .*: (No route to host|Network is unreachable)`), remote.NoRoute, true},
	{regexp.MustCompile(`^Connection timed out during banner exchange`), remote.Silent, true},
	{regexp.MustCompile(`^(kex_exchange_identification|ssh_exchange_identification): `), remote.ClosedBeforeBanner, true},
	{regexp.MustCompile(`REMOTE HOST IDENTIFICATION HAS CHANGED`), remote.HostKeyChanged, true},
	{regexp.MustCompile(`^Host key verification failed`), remote.HostKeyUnknown, true},
	{regexp.MustCompile(`^(\S+: )?Permission denied \([a-z,-]+\)\.`), remote.KeysRefused, true},
	{regexp.MustCompile(`account is currently not available|^Connection closed by .* port \d+`), remote.SessionRefused, true},
	{regexp.MustCompile(`(orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy): (command )?not found|(orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy): No such file or directory|(orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy): error while loading shared libraries`), remote.DaemonMissing, true},
	{regexp.MustCompile(`received different version from`), remote.DaemonOther, true},
	{regexp.MustCompile(`unable to connect to server .* at port|unable to connect from "`), remote.NoCallBack, true},
	{regexp.MustCompile(`A process or daemon was unable to complete a TCP connection`), remote.NoCallBack, true},
	{regexp.MustCompile(`lost communication with a remote daemon|lost connection to|terminated (badly|unexpectedly)`), remote.ConnectionLost, false},
	{regexp.MustCompile(`not enough slots available|unable to reliably start|not present in the allocation|execvp error|was unable to (launch|find|start)`), remote.MPIRunFailed, false},
}

// explain returns the failure that the messages show, nil for none. While mpirun is still running,
// only hard reasons count.
func explain(output string, came engine.State) *remote.Error {
	lines := strings.Split(output, "; ")
	for _, r := range reasons {
		if !r.hard && came == engine.Going {
			continue
		}
		for _, line := range lines {
			if r.line.MatchString(line) {
				return &remote.Error{Cause: r.cause, Err: errors.New(line)}
			}
		}
	}
	if output == "" || came == engine.Going {
		return nil
	}
	cause := remote.MPIRunFailed
	if came == engine.Broke { // some of the text may be the command's output
		cause = remote.ConnectionLost
	}
	return &remote.Error{Cause: cause, Err: errors.New(output)}
}
