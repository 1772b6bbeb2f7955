// SPDX-License-Identifier: Apache-2.0

package facts

// Env is the part of the environment that changes how a launch behaves. preflight reads only names
// on an allow-list, none of which holds a secret.
type Env struct {
	// Vars are the allow-listed variables of this session. On a node that is the non-interactive
	// ssh session, on the launching machine the shell in which preflight was typed.
	Vars []Setting `json:"vars" fact:"key=name"`
	// Withheld lists the names that a launcher exports because of their prefix and whose values
	// preflight does not collect, such as MLFLOW_TRACKING_TOKEN.
	Withheld []string `json:"withheld,omitempty" fact:"own"`
	// NCCL is the configuration NCCL will see: environment first, then
	// $NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf (NCCL 2.23+).
	NCCL []Setting `json:"nccl" fact:"key=name"`
	// Files are the NCCL configuration files that exist, in the same order.
	Files []ConfFile `json:"files" fact:"key=path"`
	// Topology are the files that describe the machine to NCCL: those named by NCCL_TOPO_FILE and
	// NCCL_GRAPH_FILE, and the default file that NCCL reads if NCCL_TOPO_FILE is not set. nil means
	// that they were not reported.
	Topology []TopologyFile `json:"topology" fact:"key=path"`
}

// TopologyFile is one topology file, read as NCCL reads it.
type TopologyFile struct {
	Path     string `json:"path"`     // absolute
	Variable string `json:"variable"` // the variable that names it, "" for the default file
	// Problem is why NCCL gets nothing from it: "no such file or directory". Malformed is where
	// NCCL stops parsing, with the line: "line 1: …". Unread is why preflight could not read it.
	Problem   string `json:"problem,omitempty"`
	Malformed string `json:"malformed,omitempty"`
	Unread    string `json:"unread,omitempty"`
	Digest    string `json:"digest"` // SHA-256 in hex, "" if it could not be read
	// GPUs and NICs are the devices it lists, by PCI address as written, in file order.
	GPUs []string `json:"gpus,omitempty"`
	NICs []string `json:"nics,omitempty"`
}

// These variables name topology files.
const (
	TopologyVariable = "NCCL_TOPO_FILE"
	GraphVariable    = "NCCL_GRAPH_FILE"
)

// Setting is one variable and where it comes from.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source" fact:"own"` // "environment", "/etc/nccl.conf", "/root/.nccl.conf"
}

// ConfFile is one NCCL configuration file that exists.
type ConfFile struct {
	Path  string `json:"path"`
	Error string `json:"error,omitempty"` // "permission denied"
	Count int    `json:"count"`           // number of settings in it
}

// These are the roles of a path in the launch command, the values of LaunchFile.Role.
const (
	RoleScript   = "script"   // what the ranks run
	RoleConfig   = "config"   // the DeepSpeed configuration
	RoleProgram  = "program"  // what is typed on every node, if given as a path
	RoleVenv     = "venv"     // the script that --venv_script makes the nodes' shells read first
	RoleArgument = "argument" // any other argument that looks like a path
)

// These are the roles of a directory in the launch command, values of LaunchFile.Role and
// Place.Role.
const (
	RoleIndexCache = "index-cache" // where rank 0 writes the data indices that all ranks read
	RoleTokenized  = "tokenized"   // data tokenized once, by rank 0
	RoleCheckpoint = "checkpoint"  // the checkpoint that the ranks start from
	RoleResume     = "resume"      // the checkpoint that they start from if it exists
	RoleOutput     = "output"      // where the ranks write their checkpoints
)

// LaunchFile is a path that the launch command names.
type LaunchFile struct {
	Path string `json:"path"` // absolute
	Role string `json:"role"`
}

// Files is what the launch will open by path.
type Files struct {
	WorkDir WorkDir `json:"workdir"`
	// Files are the requested paths, in the order of the request.
	Files []File `json:"files" fact:"key=path"`
	// Sources is the Python code next to the script, which the script imports by name.
	Sources *Sources `json:"sources,omitempty"` // nil if no script was named or found
	// Repository is the git work tree that contains the script, nil for none.
	Repository *Repository `json:"repository,omitempty"`
	// Models are the requested models, as found in the Hub's cache.
	Models []Model `json:"models,omitempty" fact:"key=name"`
	// Daemon is the program that the launcher starts here, nil if it was not requested.
	Daemon *Daemon `json:"daemon,omitempty" fact:"own"`
}

// ModelNamed is a model or data set that the launch command names by its Hugging Face Hub name.
type ModelNamed struct {
	Name     string `json:"name"`     // Qwen/Qwen3-4B
	Revision string `json:"revision"` // a branch, a tag or a commit: main
	DataSet  bool   `json:"data_set"`
	// CacheDir is the cache directory given in the command, "" to use the environment's.
	CacheDir string `json:"cache_dir"`
}

// Model is what the Hub's cache has of a model, or the datasets library's cache of a data set.
type Model struct {
	ModelNamed
	Cache string `json:"cache" fact:"own"` // the directory that was searched
	// Local reports whether the working directory has a directory of this name, which is used
	// instead.
	Local bool `json:"local"`
	// Commit is the commit of the revision in the cache, "" if the cache has none. For a data set
	// it lists all prepared versions.
	Commit string `json:"commit"`
	// Files is a digest of the names and contents of that commit's files. "" if there are none, and
	// for data sets.
	Files   string `json:"files"`
	Problem string `json:"problem,omitempty"` // why it could not be read
}

// Daemon is the launcher's program that starts the ranks of a node.
type Daemon struct {
	Asked string `json:"asked"` // a name to look up in PATH, or a path
	Path  string `json:"path"`  // where it is, "" if not found
	// Unloadable is the loader's message if it cannot load the program's libraries, "" if it can.
	Unloadable string `json:"unloadable"`
}

// WorkDir is the directory to which the launcher changes.
type WorkDir struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	// Problem is why an existing path cannot be entered: "permission denied", "is a file". "" if it
	// can.
	Problem string `json:"problem,omitempty"`
}

// File is one path and what exists there.
type File struct {
	LaunchFile
	Exists bool   `json:"exists"`            // false only if proven absent, true if it could not be read
	Kind   string `json:"kind,omitempty"`    // file, directory, other
	Size   int64  `json:"size" unit:"bytes"` // of a file
	Digest string `json:"digest,omitempty"`  // SHA-256 in hex; "" for anything but a file, and for files too large to read
	// Code is the digest of a script without comments and blank lines: the part that Python
	// executes.
	Code    string `json:"code,omitempty"`
	Exec    bool   `json:"exec"`              // executable for this user
	Problem string `json:"problem,omitempty"` // why it cannot be read: "permission denied"
	// Imports are the packages that a script imports at its top level, sorted; empty if the script
	// was not read.
	Imports []string `json:"imports,omitempty"`
	// Needs are those of Imports that Python searches in its usual places, in the order of the
	// script. It stops at a line that may change the search path or end the script, and at an
	// import of a module next to the script, which may do so too.
	Needs []string `json:"needs,omitempty"`
	// Text is the DeepSpeed configuration as JSON, on the launching machine only. It is the file
	// itself, or what DeepSpeed reads from a file that is not JSON. Values that may be secret are
	// replaced by "…".
	Text string `json:"text,omitempty" fact:"own"`
	// Hjson is set if that file is not JSON. It has the reason if Text is empty.
	Hjson *Hjson `json:"hjson,omitempty" fact:"own"`
	// MakesGloo reports whether a script, on the launching machine only, asks for a gloo group by
	// name: new_group(backend="gloo"), "cpu:gloo,cuda:nccl".
	MakesGloo bool `json:"makes_gloo,omitempty" fact:"own"`
}

// Hjson is the result of reading a DeepSpeed configuration with hjson in the launch's interpreter.
type Hjson struct {
	Refused string `json:"refused,omitempty"` // the exception, as Python prints it: "ValueError: Duplicate keys in …"
	Unknown string `json:"unknown,omitempty"` // why it could not read it: "/opt/conda/bin/python: No module named 'hjson'"
}

// Sources is the Python code below the script's directory.
type Sources struct {
	Root   string `json:"root"`
	Digest string `json:"digest"` // over names and contents of all files, SHA-256 in hex
	Count  int    `json:"count"`
	// Files maps each path below Root to its digest, shortened to 12 digits. Empty if there are too
	// many files.
	Files map[string]string `json:"files,omitempty" fact:"own"`
	// Shared is set if the directory is not a project (a home, /tmp, /). Then only the files
	// directly in it are compared.
	Shared bool `json:"shared,omitempty"`
	// Problem is what was left out: "more than 2000 files", "permission denied".
	Problem string `json:"problem,omitempty"`
}

// Repository is a git work tree.
type Repository struct {
	Root   string `json:"root"`
	Commit string `json:"commit"` // 40 hex digits, "" before the first one
	Branch string `json:"branch"` // "" when detached
	// Dirty is how many tracked files differ from the commit, nil if git could not be run.
	Dirty *int `json:"dirty"`
}

// Launcher is what the launching machine has for starting a launch.
type Launcher struct {
	SSHPath    string `json:"ssh_path"`    // "" without an ssh client
	SSHVersion string `json:"ssh_version"` // "OpenSSH_9.2p1", "" if unknown
	PDSH       *PDSH  `json:"pdsh"`        // nil if pdsh is not in PATH
	// Backends lists the other launchers' programs that are in PATH, by program name: ompi_info,
	// mpirun, mpiname, sinfo, srun.
	Backends map[string]string `json:"backends"`
	// MPIRun identifies the mpirun among them, nil if there is none.
	MPIRun *MPIRun `json:"mpirun"`
	// DeepSpeed is the launcher script in PATH, or the program at the start of the launch command.
	// Interpreter is the Python that its first line names. Both are "" if there is none.
	DeepSpeed   string `json:"deepspeed"`
	Interpreter string `json:"interpreter"`
	// EnvFiles are the .deepspeed_env files that DeepSpeed will apply, in order; later ones win.
	EnvFiles []EnvFile `json:"env_files"`
}

// PDSH is the pdsh of the launching machine.
type PDSH struct {
	Path    string   `json:"path"`
	Version string   `json:"version"` // "2.34"
	Modules []string `json:"modules"` // rcmd modules it can load: ssh, rsh, exec
	// Problem is pdsh's error when it was asked for its modules, or how it ended.
	Problem string `json:"problem,omitempty"`
	// ModuleDir is where the modules are. Insecure lists the directories on the path to ModuleDir
	// that pdsh refuses, each with the reason ("/usr/lib mode 0777").
	ModuleDir string   `json:"module_dir"`
	Insecure  []string `json:"insecure,omitempty"`
}

// MPIRun is an mpirun, identified by its own output, because every MPI calls its launcher mpirun.
type MPIRun struct {
	Version string `json:"version"` // "Open MPI 4.1.4", or the first line of output of an unknown MPI
	Options string `json:"options"` // the options it accepts: OptionsOpenMPI, OptionsHydra, "" if unknown
	// Daemon is the program that it starts on every other node: a name to look up in PATH there, or
	// a path. "" if unknown, and if it does not start the launch.
	Daemon string `json:"daemon,omitempty"`
}

// These are the sets of options that an mpirun may accept.
const (
	OptionsOpenMPI = "Open MPI"
	OptionsHydra   = "Hydra" // the process manager of MPICH, MVAPICH and Intel MPI
)

// EnvFile is one .deepspeed_env.
type EnvFile struct {
	Path  string   `json:"path"`
	Lines []string `json:"lines"` // values of names outside the allow-list are replaced by "…"
	Error string   `json:"error,omitempty"`
}

// Rehearsal is a run of the launcher's own program over all nodes, as DeepSpeed will run it, with
// an echo in place of the training. Only the launching machine has it.
type Rehearsal struct {
	Command  []string `json:"command"`
	ExitCode int      `json:"exit_code"`
	Seconds  float64  `json:"seconds" fact:"volatile" unit:"s"`
	// Problem is why it did not finish: not found, or killed at its time limit.
	Problem string `json:"problem,omitempty"`
	// Nodes are the nodes that took part, in rank order: all that were reached. A node's own rank
	// is its position here.
	Nodes []RehearsalNode `json:"nodes"`
	// Complaints are lines on standard error that name no node.
	Complaints []string `json:"complaints,omitempty"`
}

// RehearsalNode is the output that came back from one node.
type RehearsalNode struct {
	Node string `json:"node"` // as the hostfile spells it
	// Ranks are the node ranks that answered under this name. If all is well that is one, its own;
	// empty if the node did not answer.
	Ranks  []int    `json:"ranks"`
	Noise  []string `json:"noise,omitempty"`  // other lines on standard output
	Errors []string `json:"errors,omitempty"` // lines on standard error that name it
}
