// SPDX-License-Identifier: Apache-2.0

// Package machine has what every collector of the probe needs: the roots of the file system, small
// kernel files, mounts, the way to a PCI device, the loader's search order, and work that may hang.
// The package does not know any section.
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

// Options says what to examine and where the roots are. The options that are the same for all nodes
// are sent as JSON. The zero value means the real machine, with nothing requested.
type Options struct {
	Root           string   `json:"-"`                     // prefix of /proc, /sys, /dev, /etc; "" stands for the real machine
	Names          []string `json:"-"`                     // hostfile names to resolve
	Hosts          int      `json:"-"`                     // number of names in the hostfile; Names may hold only a part of them
	AddressCommand string   `json:"-"`                     // command that the launch runs in this node's login shell, "" for none
	Publishes      bool     `json:"publishes,omitempty"`   // the nodes tell each other their names
	Master         string   `json:"master,omitempty"`      // name or address of the master, if one is set
	CallBack       string   `json:"call_back,omitempty"`   // name of the launching machine that the launcher gives nodes to call back
	Daemon         string   `json:"daemon,omitempty"`      // program that the launcher starts on the nodes, a path or a name in PATH
	MasterPort     int      `json:"master_port,omitempty"` // 0 if unknown
	Interpreter    string   `json:"interpreter,omitempty"` // Python to use; "" is python3 in PATH
	Program        string   `json:"-"`                     // start of the launch command; "" is deepspeed
	Launchers      []string `json:"-"`                     // programs of launchers other than pdsh, to search for in PATH
	ByMPIRun       bool     `json:"-"`                     // mpirun starts the launch; find out what it starts on the nodes
	// Files lists the paths that the launch command names. Head is set on the launching machine,
	// where the files section also reports the text of a configuration.
	Files []facts.LaunchFile `json:"files,omitempty"`
	Head  bool               `json:"-"`
	// Models lists the models that the launch command names by their Hub names.
	Models []facts.ModelNamed `json:"models,omitempty"`
	// Places maps roles (offload-param, output) to directories that the launch names. The disk
	// section reports these directories.
	Places map[string]string `json:"places,omitempty"`
	// Exports holds the launch's values of the variables in Heeded, and of Python's own variables. Ops lists what DeepSpeed will
	// compile. Modules lists the modules that the launch imports and that files may hide.
	Exports map[string]string `json:"exports,omitempty"`
	Ops     []string          `json:"ops,omitempty"`
	// TriedExports lists the names of the variables that the launcher exports in the login shell of a
	// node. It is empty if no login shell gets the exports.
	TriedExports []string          `json:"tried_exports,omitempty"`
	Modules      []string          `json:"modules,omitempty"`
	Imports      []string          `json:"imports,omitempty"` // modules that the launch imports and that the nodes import to see whether they can
	WorkDir      string            `json:"workdir,omitempty"` // directory in which the launch runs
	Peers        map[string]string `json:"-"`                 // hostfile name → IP address; the probe reports the route to each address
	Deadline     time.Duration     `json:"-"`                 // time limit for all sections together; 0 stands for DefaultDeadline

	mounts func() ([]*procfs.MountInfo, error) // Together sets this function
}

// At returns the location, below the root, of an absolute path of the machine.
func (o Options) At(path string) string {
	return filepath.Join("/", o.Root, path)
}

// Without returns the machine's path of a file below the root. It is the inverse of At.
func (o Options) Without(path string) string {
	return filepath.Join("/", strings.TrimPrefix(path, strings.TrimSuffix(o.At("/"), "/")))
}

// Account is a user's entry in /etc/passwd.
type Account struct {
	Name, Home, Shell string
}

// Session returns the account of the current user. If /etc/passwd does not have the account, a
// directory service may have it. In that case the values come from variables that sshd sets from
// the service's answer (OpenSSH, session.c, do_setup_env).
func Session(o Options) Account {
	who := passwdEntry(o, os.Getuid())
	return Account{
		Name:  cmp.Or(who.Name, os.Getenv("USER"), os.Getenv("LOGNAME"), strconv.Itoa(os.Getuid())),
		Home:  cmp.Or(who.Home, os.Getenv("HOME")),
		Shell: cmp.Or(who.Shell, os.Getenv("SHELL")),
	}
}

// Owner returns the name of a user. If /etc/passwd does not have the user, it returns the user ID.
func Owner(o Options, uid int) string {
	return cmp.Or(passwdEntry(o, uid).Name, strconv.Itoa(uid))
}

// passwdEntry returns the first account with the user ID, like getpwuid. It returns the zero value
// if there is none. An entry without a shell means /bin/sh (passwd(5)).
func passwdEntry(o Options, uid int) Account {
	text, _ := os.ReadFile(o.At("/etc/passwd")) // without this file there are no accounts
	for row := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(row), ":")
		if len(fields) == 7 && fields[2] == strconv.Itoa(uid) {
			return Account{Name: fields[0], Home: fields[5], Shell: cmp.Or(fields[6], "/bin/sh")}
		}
	}
	return Account{}
}

// LaunchDirectory returns where the ranks will run. That is the working directory. If DeepSpeed's
// cd to that directory fails, DeepSpeed continues where this session started, and LaunchDirectory
// returns that place.
func LaunchDirectory(workDir string) (string, error) {
	// The dot needs the permission to enter the directory, as a program that starts there does.
	if _, err := os.Stat(workDir + "/."); workDir != "" && err == nil {
		return filepath.Abs(workDir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("own working directory: %w", err)
	}
	return dir, nil
}

// ScriptDirectory returns the directory in which Python searches for modules next to the script.
// sys.path[0] is the directory of the file itself, not of a link to the file. The result is "" if
// no script is named or found.
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

// TorchExtensions returns where torch keeps what it compiles, for a process with these variables in
// workDir. The rules are in get_default_build_root, and in torch/_appdirs.py for the cache
// directory.
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

// Heeded lists the variables that determine what the ranks will use and where they write. If the
// launch exports one of them, its value overrides this session's value.
var Heeded = []string{
	"CUDA_HOME", "CUDA_PATH", "CXX", "HF_DATASETS_CACHE", "HF_HOME", "HF_HUB_CACHE", "HOME", "LD_LIBRARY_PATH", facts.GraphVariable, facts.TopologyVariable, "PATH", "PYTHONPATH", "PYTHONSAFEPATH",
	"TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "TRITON_HOME", "XDG_CACHE_HOME",
}

// LookupEnv returns the value of a variable in the environment that the ranks will have.
func (o Options) LookupEnv(name string) (value string, set bool) {
	if value, set = o.Exports[name]; set {
		return value, true
	}
	return os.LookupEnv(name)
}

// Getenv returns the value of a variable in the environment that the ranks will have, "" if it is
// not set.
func (o Options) Getenv(name string) string {
	value, _ := o.LookupEnv(name)
	return value
}

// LookPath returns the path of the program that the ranks will find by this name.
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
