// SPDX-License-Identifier: Apache-2.0

package facts

// Env is the part of the environment that changes how a launch behaves. Only
// allow-listed names are read; nothing secret is among them.
type Env struct {
	// Vars are the allow-listed variables of this session: a node's non-interactive
	// one by ssh, on the launching machine the one preflight was typed in.
	Vars []Setting `json:"vars" fact:"key=name"`
	// Withheld are names that a launcher exports by how they begin and whose values
	// are not collected: MLFLOW_TRACKING_TOKEN.
	Withheld []string `json:"withheld,omitempty" fact:"own"`
	// NCCL is the configuration NCCL will see: environment first, then
	// $NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf (NCCL 2.23+).
	NCCL []Setting `json:"nccl" fact:"key=name"`
	// Files are the NCCL configuration files that exist, in that order.
	Files []ConfFile `json:"files" fact:"key=path"`
	// Topology are the files by which NCCL is told what the machine looks like: those that
	// NCCL_TOPO_FILE and NCCL_GRAPH_FILE name, and the one that NCCL reads without the first if
	// it is there. nil is not told.
	Topology []TopologyFile `json:"topology" fact:"key=path"`
}

// TopologyFile is one of them, read as NCCL reads it.
type TopologyFile struct {
	Path     string `json:"path"`     // absolute
	Variable string `json:"variable"` // that names it, "" where none does
	// Problem is why NCCL gets nothing from it: "no such file or directory". Malformed is where
	// NCCL stops at what it reads, with the line: "line 1: …". Unread is why nobody knows.
	Problem   string `json:"problem,omitempty"`
	Malformed string `json:"malformed,omitempty"`
	Unread    string `json:"unread,omitempty"`
	Digest    string `json:"digest"` // SHA-256 in hex; "" for one that could not be read
	// GPUs and NICs are what it says there is, by PCI address as it spells them, in its order.
	GPUs []string `json:"gpus,omitempty"`
	NICs []string `json:"nics,omitempty"`
}

// The variables that name them.
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
	Count int    `json:"count"`           // settings in it
}

// What a path of the launch command is to the launch, the values of
// LaunchFile.Role.
const (
	RoleScript   = "script"   // what the ranks run
	RoleConfig   = "config"   // the DeepSpeed configuration
	RoleProgram  = "program"  // what is typed on every node, by its path
	RoleVenv     = "venv"     // what --venv_script has the nodes' shells read first
	RoleArgument = "argument" // any other argument that looks like a path
)

// What a directory of the launch command is to its ranks, the values of LaunchFile.Role and
// Place.Role.
const (
	RoleIndexCache = "index-cache" // where rank 0 leaves the indices of the data that all read
	RoleTokenized  = "tokenized"   // data made ready once, by rank 0
	RoleCheckpoint = "checkpoint"  // what the ranks go on from
	RoleResume     = "resume"      // what they go on from if it is there
	RoleOutput     = "output"      // where they leave their checkpoints
)

// LaunchFile is a path that the launch command names.
type LaunchFile struct {
	Path string `json:"path"` // absolute
	Role string `json:"role"`
}

// Files is what the launch will open by path.
type Files struct {
	WorkDir WorkDir `json:"workdir"`
	// Files are the paths asked for, in that order.
	Files []File `json:"files" fact:"key=path"`
	// Sources is the python next to the script: what it imports by name.
	Sources *Sources `json:"sources,omitempty"` // nil when no script was named or found
	// Repository is the git work tree that the script lies in, nil for none.
	Repository *Repository `json:"repository,omitempty"`
	// Models are those that were asked for, in the cache of the Hub.
	Models []Model `json:"models,omitempty" fact:"key=name"`
	// Daemon is what the launcher starts here, nil where nobody asked.
	Daemon *Daemon `json:"daemon,omitempty" fact:"own"`
}

// ModelNamed is a model, or a data set, that the launch command names as the Hub of Hugging Face does.
type ModelNamed struct {
	Name     string `json:"name"`     // Qwen/Qwen3-4B
	Revision string `json:"revision"` // a branch, a tag or a commit: main
	DataSet  bool   `json:"data_set"`
	// CacheDir is the directory that the command has it cached in, "" for where the environment says.
	CacheDir string `json:"cache_dir"`
}

// Model is what the cache of the Hub has of a model, or that of datasets of a data set.
type Model struct {
	ModelNamed
	Cache string `json:"cache" fact:"own"` // the directory that was looked into
	// Local is whether a directory of the working directory has the name, which is taken instead.
	Local bool `json:"local"`
	// Commit is what the revision is there, "" where the cache has none; of a data set all that were prepared.
	Commit string `json:"commit"`
	// Files is a digest of which files of that commit are there, and of what is in them; "" for none,
	// and of a data set.
	Files   string `json:"files"`
	Problem string `json:"problem,omitempty"` // why it could not be read
}

// Daemon is the program of a launcher that starts the ranks of a node.
type Daemon struct {
	Asked string `json:"asked"` // a name to be found in PATH, or a path
	Path  string `json:"path"`  // where it is, "" for nowhere
	// Unloadable is what the loader says of its libraries where it does not load them.
	Unloadable string `json:"unloadable"`
}

// WorkDir is the directory that the launcher changes to.
type WorkDir struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
	// Problem says why it cannot be entered although something is there:
	// "permission denied", "is a file"; "" when it can.
	Problem string `json:"problem,omitempty"`
}

// File is one path and what is there.
type File struct {
	LaunchFile
	Exists bool   `json:"exists"`            // false only where nothing is, true where that could not be seen
	Kind   string `json:"kind,omitempty"`    // file, directory, other
	Size   int64  `json:"size" unit:"bytes"` // of a file
	Digest string `json:"digest,omitempty"`  // SHA-256 in hex; "" for what is no file, or too large to read
	// Code is the digest of a script without comments and blank lines: what is read of it.
	Code    string `json:"code,omitempty"`
	Exec    bool   `json:"exec"`              // executable for us
	Problem string `json:"problem,omitempty"` // why it cannot be read: "permission denied"
	// Imports are the packages that a script names at its top level, sorted; none where
	// it was not read.
	Imports []string `json:"imports,omitempty"`
	// Needs are those of Imports, in the order of the script, that python looks for where it
	// always does: no line before them changes where, or ends the script, and none imports a
	// module beside the script, which may.
	Needs []string `json:"needs,omitempty"`
	// Text is the JSON of a DeepSpeed configuration, on the launching machine only: the file itself, or what
	// DeepSpeed reads in a file that is no JSON. Values that may be secret are replaced by "…".
	Text string `json:"text,omitempty" fact:"own"`
	// Hjson is set where that file is no JSON, and tells why there is no Text of it.
	Hjson *Hjson `json:"hjson,omitempty" fact:"own"`
	// MakesGloo is whether a script, on the launching machine only, asks for a group of
	// gloo by name: new_group(backend="gloo"), "cpu:gloo,cuda:nccl".
	MakesGloo bool `json:"makes_gloo,omitempty" fact:"own"`
}

// Hjson is what the launch's interpreter says of a DeepSpeed configuration that it reads with hjson.
type Hjson struct {
	Refused string `json:"refused,omitempty"` // the exception, as Python prints it: "ValueError: Duplicate keys in …"
	Unknown string `json:"unknown,omitempty"` // why it could not read it: "/opt/conda/bin/python: No module named 'hjson'"
}

// Sources is the python below the directory of the script.
type Sources struct {
	Root   string `json:"root"`
	Digest string `json:"digest"` // over names and contents of all files, SHA-256 in hex
	Count  int    `json:"count"`
	// Files is each one's digest, shortened to 12 digits, by its path below Root;
	// empty where there are too many to tell.
	Files map[string]string `json:"files,omitempty" fact:"own"`
	// Shared says that the directory is nobody's project (a home, /tmp, /): only
	// the files right in it were compared.
	Shared bool `json:"shared,omitempty"`
	// Problem says what was left out: "more than 2000 files", "permission denied".
	Problem string `json:"problem,omitempty"`
}

// Repository is a git work tree.
type Repository struct {
	Root   string `json:"root"`
	Commit string `json:"commit"` // 40 hex digits, "" before the first one
	Branch string `json:"branch"` // "" when detached
	// Dirty is how many tracked files differ from the commit, nil when git could
	// not be asked.
	Dirty *int `json:"dirty"`
}

// Launcher is what the launching machine has to start a launch with.
type Launcher struct {
	SSHPath    string `json:"ssh_path"`    // "" when there is no ssh client
	SSHVersion string `json:"ssh_version"` // "OpenSSH_9.2p1", "" when it does not say
	PDSH       *PDSH  `json:"pdsh"`        // nil when pdsh is not in PATH
	// Backends lists which of the other launchers' programs are in PATH, by
	// program name: ompi_info, mpirun, mpiname, sinfo, srun.
	Backends map[string]string `json:"backends"`
	// MPIRun is whose the mpirun among them is, nil where there is none.
	MPIRun *MPIRun `json:"mpirun"`
	// DeepSpeed is the launcher script in PATH, or the program the launch command
	// begins with, and Interpreter the python its first line names; both "" when
	// there is none.
	DeepSpeed   string `json:"deepspeed"`
	Interpreter string `json:"interpreter"`
	// EnvFiles are the .deepspeed_env files DeepSpeed will apply, in order;
	// the later one wins.
	EnvFiles []EnvFile `json:"env_files"`
}

// PDSH is the pdsh of the launching machine.
type PDSH struct {
	Path    string   `json:"path"`
	Version string   `json:"version"` // "2.34"
	Modules []string `json:"modules"` // rcmd modules it can load: ssh, rsh, exec
	// Problem is what pdsh complained of when it was asked for its modules, or
	// how it ended.
	Problem string `json:"problem,omitempty"`
	// ModuleDir and Insecure: the directories on the way to the modules that
	// pdsh refuses, each with the reason ("/usr/lib mode 0777").
	ModuleDir string   `json:"module_dir"`
	Insecure  []string `json:"insecure,omitempty"`
}

// MPIRun is an mpirun by what it says of itself: that of every MPI has this name.
type MPIRun struct {
	Version string `json:"version"` // "Open MPI 4.1.4", or the first line of what is said by an MPI that nobody here knows
	Options string `json:"options"` // whose it takes: OptionsOpenMPI, OptionsHydra, "" where that is not known
	// Daemon is what it starts on every other node: a name to be found in PATH there, or a
	// path; "" where that is not known, and where it does not start the launch.
	Daemon string `json:"daemon,omitempty"`
}

// The options that an mpirun takes.
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

// Rehearsal is the launcher's own program run over all nodes as DeepSpeed will
// run it, with an echo in place of the training. It is the launching machine's.
type Rehearsal struct {
	Command  []string `json:"command"`
	ExitCode int      `json:"exit_code"`
	Seconds  float64  `json:"seconds" fact:"volatile" unit:"s"`
	// Problem says why it did not run to its end: not found, killed at its limit.
	Problem string `json:"problem,omitempty"`
	// Nodes are those that were asked, in rank order: all that were reached. The
	// rank that is a node's own is its position here.
	Nodes []RehearsalNode `json:"nodes"`
	// Complaints are lines on standard error that name no node.
	Complaints []string `json:"complaints,omitempty"`
}

// RehearsalNode is what came back from one node.
type RehearsalNode struct {
	Node string `json:"node"` // as the hostfile spells it
	// Ranks are the node ranks that answered under this name: one, its own, when
	// all is well; none when the node did not answer.
	Ranks  []int    `json:"ranks"`
	Noise  []string `json:"noise,omitempty"`  // other lines on standard output
	Errors []string `json:"errors,omitempty"` // lines on standard error that name it
}
