// SPDX-License-Identifier: Apache-2.0

// Package machine is what every collector of the probe looks with: where the roots
// are, small kernel files, mounts, the way to a PCI device, the order in which the
// loader finds libraries, and work that may hang. It refuses to know any section.
package machine

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"preflight/facts"
)

// Options says what to look at and where the roots are. What is alike for all
// nodes of a fleet travels as JSON. The zero value is the machine itself, nothing asked.
type Options struct {
	Root        string   `json:"-"`                     // prefix of /proc, /sys, /dev, /etc; "" is the real one
	Names       []string `json:"-"`                     // hostfile names to resolve
	Hosts       int      `json:"-"`                     // how many the hostfile has, of which Names may be a share
	Master      string   `json:"master,omitempty"`      // name or address of the master, when one is given
	CallBack    string   `json:"call_back,omitempty"`   // name of the launching machine that its launcher tells the nodes to call
	Daemon      string   `json:"daemon,omitempty"`      // program that the launcher starts on the nodes, a path or a name in PATH
	MasterPort  int      `json:"master_port,omitempty"` // 0 when unknown
	Interpreter string   `json:"interpreter,omitempty"` // python to ask; "" is python3 by PATH
	Program     string   `json:"-"`                     // what the launch command begins with; "" is deepspeed
	Launchers   []string `json:"-"`                     // programs of launchers other than pdsh to look for in PATH
	ByMPIRun    bool     `json:"-"`                     // mpirun starts the launch, and is asked what it starts on the nodes
	// Files are the paths that the launch command names, and Head is whether to
	// bring the text of a configuration too, which only the launching machine must.
	Files []facts.LaunchFile `json:"files,omitempty"`
	Head  bool               `json:"-"`
	// Models are those that the launch command names as the Hub does.
	Models []facts.ModelNamed `json:"models,omitempty"`
	// Places are directories that the launch names, by role (offload-param, output), to be
	// looked at with the disk.
	Places map[string]string `json:"places,omitempty"`
	// Exports are what the launch sets of the variables that are heeded, Ops what it will
	// have DeepSpeed compile, and Modules what it imports and files may take the name of.
	Exports  map[string]string `json:"exports,omitempty"`
	Ops      []string          `json:"ops,omitempty"`
	Modules  []string          `json:"modules,omitempty"`
	WorkDir  string            `json:"workdir,omitempty"` // where the launch runs
	Peers    map[string]string `json:"-"`                 // hostfile name → IP address to ask a route for
	Deadline time.Duration     `json:"-"`                 // for all sections together; 0 is DefaultDeadline

	mounts func() ([]*procfs.MountInfo, error) // of Together
}

// At is where an absolute path of the machine lies below the root.
func (o Options) At(path string) string {
	return filepath.Join("/", o.Root, path)
}

// Without is the machine's path of a file below the root: at turned around.
func (o Options) Without(path string) string {
	return filepath.Join("/", strings.TrimPrefix(path, strings.TrimSuffix(o.At("/"), "/")))
}

// Account is what a line of /etc/passwd says of a user.
type Account struct {
	Name, Home, Shell string
}

// Session is who we are. An account that a directory service knows and
// /etc/passwd does not is told by sshd, which asked the service and sets these
// variables by its answer (OpenSSH, session.c, do_setup_env).
func Session(o Options) Account {
	who := passwdEntry(o, os.Getuid())
	return Account{
		Name:  cmp.Or(who.Name, os.Getenv("USER"), os.Getenv("LOGNAME"), strconv.Itoa(os.Getuid())),
		Home:  cmp.Or(who.Home, os.Getenv("HOME")),
		Shell: cmp.Or(who.Shell, os.Getenv("SHELL")),
	}
}

// Owner is the name of a user, or the number when /etc/passwd does not know it.
func Owner(o Options, uid int) string {
	return cmp.Or(passwdEntry(o, uid).Name, strconv.Itoa(uid))
}

// passwdEntry is the first account with the user id, as getpwuid has it; zero for
// none. No shell means /bin/sh (passwd(5)).
func passwdEntry(o Options, uid int) Account {
	text, _ := os.ReadFile(o.At("/etc/passwd")) // none, where it cannot be read
	for row := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(row), ":")
		if len(fields) == 7 && fields[2] == strconv.Itoa(uid) {
			return Account{Name: fields[0], Home: fields[5], Shell: cmp.Or(fields[6], "/bin/sh")}
		}
	}
	return Account{}
}

// LaunchDirectory is where the ranks will run: the working directory or, since
// DeepSpeed does not stop when its cd fails, where this session started.
func LaunchDirectory(workDir string) (string, error) {
	if info, err := os.Stat(workDir); err == nil && info.IsDir() {
		return filepath.Abs(workDir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("own working directory: %w", err)
	}
	return dir, nil
}

// ScriptDirectory is where python looks for the script's neighbours: sys.path[0]
// is the directory of the file itself, not of a link to it. "" when no script is
// named or found.
func ScriptDirectory(o Options) string {
	for _, named := range o.Files {
		if named.Role != facts.RoleScript {
			continue
		}
		real, err := filepath.EvalSymlinks(o.At(named.Path))
		if err != nil {
			return ""
		}
		if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() {
			return ""
		}
		return filepath.Dir(o.Without(real))
	}
	return ""
}

// TorchExtensions is where torch keeps what it compiles (get_default_build_root,
// and torch/_appdirs.py for the cache directory), for a process with these variables in workDir.
func TorchExtensions(getenv func(string) string, workDir, home string) string {
	if named := getenv("TORCH_EXTENSIONS_DIR"); named != "" {
		if !filepath.IsAbs(named) {
			named = filepath.Join(workDir, named)
		}
		return named
	}
	cache := cmp.Or(getenv("XDG_CACHE_HOME"), filepath.Join(cmp.Or(getenv("HOME"), home), ".cache"))
	return filepath.Join(cache, "torch_extensions")
}

// Heeded are the variables that say what the ranks will use and where they write. What
// the launch exports of them holds, whatever this session has.
var Heeded = []string{
	"CUDA_HOME", "CUDA_PATH", "CXX", "HF_DATASETS_CACHE", "HF_HOME", "HF_HUB_CACHE", "HOME", "LD_LIBRARY_PATH", facts.GraphVariable, facts.TopologyVariable, "PATH", "PYTHONPATH", "PYTHONSAFEPATH",
	"TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "TRITON_HOME", "XDG_CACHE_HOME",
}

// LookupEnv is a variable as the ranks will have it.
func (o Options) LookupEnv(name string) (value string, set bool) {
	if value, set = o.Exports[name]; set {
		return value, true
	}
	return os.LookupEnv(name)
}

// Getenv is a variable as the ranks will have it, "" for none.
func (o Options) Getenv(name string) string {
	value, _ := o.LookupEnv(name)
	return value
}

// LookPath is the program that the ranks will find by its name.
func (o Options) LookPath(name string) (string, error) {
	path, set := o.Exports["PATH"]
	if !set || strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(cmp.Or(dir, "."), name)); err == nil {
			return found, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}
