// SPDX-License-Identifier: Apache-2.0

package facts

// Env holds the environment variables that change how a launch behaves. preflight reads only names
// on an allow-list, and none of these variables holds a secret.
type Env struct {
	// Vars lists the allow-listed variables of this session. On a node, the session is the
	// non-interactive ssh session. On the launching machine it is the shell in which the user typed
	// preflight.
	Vars []Setting `json:"vars" fact:"key=name"`
	// Withheld lists the names of variables that a launcher exports because of their prefix, such
	// as MLFLOW_TRACKING_TOKEN. preflight does not collect their values.
	Withheld []string `json:"withheld,omitempty" fact:"own"`
	// Tokens lists the tokens of services that programs find in this session. It never contains
	// their values.
	Tokens []Token `json:"tokens,omitempty" fact:"own"`
	// NCCL is the configuration that NCCL will see: environment first, then $NCCL_CONF_FILE or
	// ~/.nccl.conf, then /etc/nccl.conf (NCCL 2.23+).
	NCCL []Setting `json:"nccl" fact:"key=name"`
	// Files lists the NCCL configuration files that exist, in the same order.
	Files []ConfFile `json:"files" fact:"key=path"`
	// MPI lists the parameters in Open MPI's configuration files, by name without OMPI_MCA_. The
	// file in the home directory comes first and overrides the others.
	MPI []Setting `json:"mpi,omitempty" fact:"key=name"`
	// Topology lists the files that describe the machine to NCCL: the files that NCCL_TOPO_FILE and
	// NCCL_GRAPH_FILE name, and the default file that NCCL reads if NCCL_TOPO_FILE is not set. nil
	// means that the node did not report them.
	Topology []TopologyFile `json:"topology" fact:"key=path"`
	// ExportTrial is what the login shell did with the launch's exports. It is nil if the shell was not
	// asked or did not answer.
	ExportTrial *ExportTrial `json:"export_trial,omitempty" fact:"own"`
}

// ExportTrial is the answer of a login shell to the words that a launcher types, export NAME=VALUE.
type ExportTrial struct {
	Shell   string   `json:"shell"`             // path of the login shell
	Lost    []string `json:"lost"`              // names of the variables that a program started after these words does not get
	Message string   `json:"message,omitempty"` // what the shell printed on stderr, its first line
}

// Token is a token of a service, such as an API key.
type Token struct {
	Variable string `json:"variable"` // the variable that holds it, or that the file replaces
	From     string `json:"from"`     // "environment", or the path of the file
}

// TopologyFile is one topology file, parsed in the same way as NCCL parses it.
type TopologyFile struct {
	Path     string `json:"path"`     // absolute path
	Variable string `json:"variable"` // the variable that names the file, "" for the default file
	// Problem says why NCCL gets nothing from the file: "no such file or directory". Malformed says
	// where NCCL stops parsing, with the line: "line 1: …". Unread says why preflight could not
	// read the file.
	Problem   string `json:"problem,omitempty"`
	Malformed string `json:"malformed,omitempty"`
	Unread    string `json:"unread,omitempty"`
	Digest    string `json:"digest"` // SHA-256 in hex, "" if the file could not be read
	// GPUs and NICs list the devices in the file, by PCI address as the file spells it, in file
	// order.
	GPUs []string `json:"gpus,omitempty"`
	NICs []string `json:"nics,omitempty"`
}

// These are the variables that name topology files.
const (
	TopologyVariable = "NCCL_TOPO_FILE"
	GraphVariable    = "NCCL_GRAPH_FILE"
)

// Setting is one variable with its source.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source" fact:"own"` // "environment", "/etc/nccl.conf", "/root/.nccl.conf"
}

// ConfFile is one NCCL configuration file that exists.
type ConfFile struct {
	Path  string `json:"path"`
	Error string `json:"error,omitempty"` // "permission denied"
	Count int    `json:"count"`           // number of settings in the file
}

// These are the values of LaunchFile.Role for a path in the launch command.
const (
	RoleScript   = "script"   // the script that the ranks run
	RoleConfig   = "config"   // the DeepSpeed configuration
	RoleProgram  = "program"  // the program that is typed on every node, if given as a path
	RoleVenv     = "venv"     // the script that --venv_script makes the nodes' shells read first
	RoleArgument = "argument" // any other argument that looks like a path
)

// These are the values of LaunchFile.Role and Place.Role for a directory in the launch command.
const (
	RoleIndexCache = "index-cache" // where rank 0 writes the data indices that all ranks read
	RoleTokenized  = "tokenized"   // data that rank 0 tokenizes once
	RoleCheckpoint = "checkpoint"  // the checkpoint that the ranks start from
	RoleResume     = "resume"      // the checkpoint that the ranks start from if it exists
	RoleOutput     = "output"      // where the ranks write their checkpoints
	// RoleShared begins the role of a directory that the policy says all nodes share. A number
	// follows.
	RoleShared = "shared-"
)

// LaunchFile is a path that the launch command names.
type LaunchFile struct {
	Path string `json:"path"` // absolute path
	Role string `json:"role"`
}

// Files holds everything that the launch will open by path.
type Files struct {
	WorkDir WorkDir `json:"workdir"`
	// Files lists the requested paths, in the order of the request.
	Files []File `json:"files" fact:"key=path"`
	// Sources is the Python code next to the script, which the script imports by name.
	Sources *Sources `json:"sources,omitempty"` // nil if no script was named or found
	// Repository is the git work tree that contains the script, nil if there is none.
	Repository *Repository `json:"repository,omitempty"`
	// Models lists the requested models, as they are in the Hub's cache.
	Models []Model `json:"models,omitempty" fact:"key=name"`
	// Daemon is the program that the launcher starts on this node, nil if it was not requested.
	Daemon *Daemon `json:"daemon,omitempty" fact:"own"`
}

// ModelNamed is a model or data set that the launch command names by its Hugging Face Hub name.
type ModelNamed struct {
	Name     string `json:"name"`     // such as Qwen/Qwen3-4B
	Revision string `json:"revision"` // a branch, a tag or a commit, such as main
	DataSet  bool   `json:"data_set"`
	// CacheDir is the cache directory given in the command. "" means that the environment
	// determines the cache directory.
	CacheDir string `json:"cache_dir"`
}

// Model says what the Hub's cache contains of a model. For a data set, it says what the cache of
// the datasets library contains.
type Model struct {
	ModelNamed
	Cache string `json:"cache" fact:"own"` // the cache directory that was searched
	// Local reports whether the working directory contains a directory of this name. That directory
	// is used and the cache is not.
	Local bool `json:"local"`
	// Commit is the commit of the revision in the cache, "" if the cache has none. For a data set,
	// Commit lists all prepared versions.
	Commit string `json:"commit"`
	// Files is a digest of the names and contents of the files in that commit. It is "" if there
	// are no files, and for data sets.
	Files   string `json:"files"`
	Problem string `json:"problem,omitempty"` // why the cache could not be read
}

// Daemon is the launcher's program that starts the ranks of a node.
type Daemon struct {
	Asked string `json:"asked"` // the requested program: a name to look up in PATH, or a path
	Path  string `json:"path"`  // the path of the program, "" if not found
	// Unloadable is the loader's message if the loader cannot load the program's libraries,
	// otherwise "".
	Unloadable string `json:"unloadable"`
}

// WorkDir is the directory to which the launcher changes.
type WorkDir struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	// Problem says why the launcher cannot enter an existing path: "permission denied", "is a
	// file". It is "" if the launcher can.
	Problem string `json:"problem,omitempty"`
}

// These are the values of File.Compiles.
const (
	CompilesAlways    = "always"
	CompilesSometimes = "sometimes"
)

// File is one path with what exists there.
type File struct {
	LaunchFile
	Exists bool   `json:"exists"`            // false only if the path is proven absent; true if it could not be read
	Kind   string `json:"kind,omitempty"`    // file, directory or other
	Size   int64  `json:"size" unit:"bytes"` // size of a file
	Digest string `json:"digest,omitempty"`  // SHA-256 in hex; "" for anything but a file, and for files too large to read
	// Code is a digest of a script without comments and blank lines. It covers only the part that
	// Python executes.
	Code string `json:"code,omitempty"`
	Exec bool   `json:"exec"` // this user may execute the file
	// Empty is set for a directory without entries, such as a mount point on which nothing is
	// mounted.
	Empty   bool   `json:"empty,omitempty" fact:"own"`
	Problem string `json:"problem,omitempty"` // why the file cannot be read: "permission denied"
	// Imports lists the packages that a script imports at its top level, sorted. It is empty if the
	// script was not read.
	Imports []string `json:"imports,omitempty"`
	// Needs lists the packages of Imports that Python searches in its usual places, in the order of
	// the script. The list stops at a line that may change the search path or end the script. It
	// also stops at an import of a module next to the script, because that module may do the same.
	Needs []string `json:"needs,omitempty"`
	// Unset lists the variables that a script reads as os.environ["NAME"] and that are not set in
	// this session, sorted by name.
	Unset []Unset `json:"unset,omitempty" fact:"own"`
	// Workers is the number of worker processes that a script asks a DataLoader for: a number, or
	// WorkersAsTold if the script computes it, or "" if it asks for none.
	Workers string `json:"workers,omitempty"`
	// Saves reports whether a script contains a call that saves a checkpoint: torch.save,
	// save_pretrained and their like.
	Saves bool `json:"saves,omitempty"`
	// WritesNothing reports whether a script contains no code that writes files, as far as its text
	// shows.
	WritesNothing bool `json:"writes_nothing,omitempty"`
	// Text is the DeepSpeed configuration as JSON, on the launching machine only. It is the content
	// of the file, or what DeepSpeed reads from a file that is not JSON. Values that may be secret
	// are replaced by "…".
	Text string `json:"text,omitempty" fact:"own"`
	// Hjson is set if the configuration file is not JSON. If Text is empty, Hjson has the reason.
	Hjson *Hjson `json:"hjson,omitempty" fact:"own"`
	// MakesGloo reports whether a script asks for a gloo group by name: new_group(backend="gloo"),
	// "cpu:gloo,cuda:nccl". It is set only on the launching machine.
	MakesGloo bool `json:"makes_gloo,omitempty" fact:"own"`
	// Compiles says whether a script, or a module next to it that it imports, compiles code while it
	// runs: always, sometimes (after a condition), or "" if it is not known to. It is set only on
	// the launching machine.
	Compiles string `json:"compiles,omitempty" fact:"own"`
}

// WorkersAsTold is the value of File.Workers for a script that computes the number.
const WorkersAsTold = "as told"

// Unset is a variable that a script reads and that is not set.
type Unset struct {
	Name string `json:"name"`
	// Always is set if every run of the script reads the variable, because the line is at the top
	// level of the script.
	Always bool `json:"always"`
}

// Hjson is the result of reading a DeepSpeed configuration with hjson in the launch's interpreter.
type Hjson struct {
	Refused string `json:"refused,omitempty"` // the exception as Python prints it: "ValueError: Duplicate keys in …"
	Unknown string `json:"unknown,omitempty"` // why hjson could not read the file: "/opt/conda/bin/python: No module named 'hjson'"
}

// Sources is the Python code below the script's directory.
type Sources struct {
	Root   string `json:"root"`
	Digest string `json:"digest"` // digest of the names and contents of all files, SHA-256 in hex
	Count  int    `json:"count"`
	// Files maps each path below Root to the digest of its file, shortened to 12 digits. It is
	// empty if there are too many files.
	Files map[string]string `json:"files,omitempty" fact:"own"`
	// Shared is set if the directory is not a project (a home directory, /tmp, /). In that case
	// only the files directly in the directory are compared.
	Shared bool `json:"shared,omitempty"`
	// Problem says what was left out: "more than 2000 files", "permission denied".
	Problem string `json:"problem,omitempty"`
}

// Repository is a git work tree.
type Repository struct {
	Root   string `json:"root"`
	Commit string `json:"commit"` // 40 hex digits, "" before the first commit
	Branch string `json:"branch"` // "" if HEAD is detached
	// Dirty is how many tracked files differ from the commit, nil if preflight could not run git.
	Dirty *int `json:"dirty"`
}

// Launcher describes the launching machine's programs and files for starting a launch.
type Launcher struct {
	SSHPath    string `json:"ssh_path"`    // "" if there is no ssh client
	SSHVersion string `json:"ssh_version"` // "OpenSSH_9.2p1", "" if unknown
	PDSH       *PDSH  `json:"pdsh"`        // nil if pdsh is not in PATH
	// Backends maps the other launchers' programs that are in PATH to their versions or paths:
	// ompi_info, mpirun, mpiname, sinfo, srun.
	Backends map[string]string `json:"backends"`
	// MPIRun identifies the mpirun in Backends, nil if there is none.
	MPIRun *MPIRun `json:"mpirun"`
	// DeepSpeed is the path of the launcher script in PATH, or of the program at the start of the
	// launch command. Interpreter is the Python that the script's first line names. Both are "" if
	// there is no such script.
	DeepSpeed   string `json:"deepspeed"`
	Interpreter string `json:"interpreter"`
	// EnvFiles lists the .deepspeed_env files that DeepSpeed will apply, in order. A later file
	// overrides the files before it.
	EnvFiles []EnvFile `json:"env_files"`
}

// PDSH is the pdsh of the launching machine.
type PDSH struct {
	Path    string   `json:"path"`
	Version string   `json:"version"` // "2.34"
	Modules []string `json:"modules"` // rcmd modules that pdsh can load: ssh, rsh, exec
	// Problem says how pdsh failed to list its modules: the error that it printed, or how it ended.
	Problem string `json:"problem,omitempty"`
	// ModuleDir is the directory of the modules. Insecure lists the directories on the path to
	// ModuleDir that pdsh refuses, each with the reason ("/usr/lib mode 0777").
	ModuleDir string   `json:"module_dir"`
	Insecure  []string `json:"insecure,omitempty"`
}

// MPIRun is an mpirun. Its own output identifies it, because every MPI calls its launcher mpirun.
type MPIRun struct {
	Version string `json:"version"` // "Open MPI 4.1.4", or the first line of output of an unknown MPI
	Options string `json:"options"` // the set of options that mpirun accepts: OptionsOpenMPI, OptionsHydra, "" if unknown
	// Daemon is the program that mpirun starts on every other node: a name to look up in the node's
	// PATH, or a path. It is "" if it is unknown, and if mpirun does not start the launch.
	Daemon string `json:"daemon,omitempty"`
}

// These are the sets of options that an mpirun may accept.
const (
	OptionsOpenMPI = "Open MPI"
	OptionsHydra   = "Hydra" // the process manager of MPICH, MVAPICH and Intel MPI
)

// EnvFile is one .deepspeed_env file.
type EnvFile struct {
	Path  string   `json:"path"`
	Lines []string `json:"lines"` // values of variables that are not on the allow-list are replaced by "…"
	Error string   `json:"error,omitempty"`
}

// Rehearsal is a run of the launcher's own program over all nodes, as DeepSpeed will run it, with
// an echo in place of the training. Only the launching machine has it.
type Rehearsal struct {
	Command  []string `json:"command"`
	ExitCode int      `json:"exit_code"`
	Seconds  float64  `json:"seconds" fact:"volatile" unit:"s"`
	// Problem says why the rehearsal did not finish: the program was not found, or was killed at
	// its time limit.
	Problem string `json:"problem,omitempty"`
	// Nodes lists the nodes that took part, in rank order. All nodes that were reached take part. A
	// node's own rank is its position in this list.
	Nodes []RehearsalNode `json:"nodes"`
	// Complaints lists the lines on standard error that name no node.
	Complaints []string `json:"complaints,omitempty"`
}

// RehearsalNode holds the output that came back from one node.
type RehearsalNode struct {
	Node string `json:"node"` // as the hostfile spells it
	// Ranks lists the node ranks that answered under this name. If all is well, it contains only
	// the node's own rank. It is empty if the node did not answer.
	Ranks  []int    `json:"ranks"`
	Noise  []string `json:"noise,omitempty"`  // lines on standard output other than the echo
	Errors []string `json:"errors,omitempty"` // lines on standard error that name the node
}
