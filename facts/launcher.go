package facts

// Launcher is what the launching machine has to start a launch with.
type Launcher struct {
	SSHPath    string `json:"ssh_path"`    // "" when there is no ssh client
	SSHVersion string `json:"ssh_version"` // "OpenSSH_9.2p1", "" when it does not say
	PDSH       *PDSH  `json:"pdsh"`        // nil when pdsh is not in PATH
	// Backends lists which of the other launchers' programs are in PATH, by
	// program name: ompi_info, mpirun, mpiname, sinfo, srun.
	Backends map[string]string `json:"backends"`
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

// EnvFile is one .deepspeed_env.
type EnvFile struct {
	Path  string   `json:"path"`
	Lines []string `json:"lines"` // values of names outside the allow-list are replaced by "…"
	Error string   `json:"error,omitempty"`
}
