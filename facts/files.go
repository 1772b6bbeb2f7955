package facts

// What a path of the launch command is to the launch, the values of
// LaunchFile.Role.
const (
	RoleScript   = "script"   // what the ranks run
	RoleConfig   = "config"   // the DeepSpeed configuration
	RoleVenv     = "venv"     // what --venv_script has the nodes' shells read first
	RoleArgument = "argument" // any other argument that looks like a path
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
	Exists  bool   `json:"exists"`            // false only where nothing is, true where that could not be seen
	Kind    string `json:"kind,omitempty"`    // file, directory, other
	Size    int64  `json:"size" unit:"bytes"` // of a file
	Digest  string `json:"digest,omitempty"`  // SHA-256 in hex; "" for what is no file, or too large to read
	Exec    bool   `json:"exec"`              // executable for us
	Problem string `json:"problem,omitempty"` // why it cannot be read: "permission denied"
	// Text is the file itself, of a DeepSpeed configuration on the launching
	// machine only. Values that may be secret are replaced by "…".
	Text string `json:"text,omitempty" fact:"own"`
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
