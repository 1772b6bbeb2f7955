// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestParseSSHVersion(t *testing.T) {
	tests := map[string]string{
		"OpenSSH_9.2p1 Debian-2+deb12u3, OpenSSL 3.0.11 19 Sep 2023\r\n": "OpenSSH_9.2p1",
		"OpenSSH_8.7p1, OpenSSL 3.0.7 1 Nov 2022\n":                      "OpenSSH_8.7p1",
		"Dropbear v2022.83\n":                                            "Dropbear",
		"":                                                               "",
	}
	for banner, want := range tests {
		if got := parseSSHVersion(banner); got != want {
			t.Errorf("parseSSHVersion(%q) = %q, want %q", banner, got, want)
		}
	}
}

// TestParseMPIRun parses the output of Debian's openmpi-bin 4.1.4 and mpich 4.0.2, of Intel's
// impi-rt 2021.18 and of a wrapper.
func TestParseMPIRun(t *testing.T) {
	for _, c := range []struct{ output, version, options string }{
		{"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", "Open MPI 4.1.4", facts.OptionsOpenMPI},
		{"mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", "Open MPI 4.1.4", facts.OptionsOpenMPI},
		{"HYDRA build details:\n    Version:                                 4.0.2\n    Release Date:                            Thu Apr  7 12:34:45 CDT 2022\n", "Hydra 4.0.2", facts.OptionsHydra},
		{"Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: b44796a)\nCopyright 2003-2026, Intel Corporation.\n", "Intel MPI 2021.18.1", facts.OptionsHydra},
		{"the site's own mpirun\nVersion: 1\n", "the site's own mpirun", ""},
		{"", "", ""},
	} {
		if diff := cmp.Diff(&facts.MPIRun{Version: c.version, Options: c.options}, parseMPIRun(c.output)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", c.output, diff)
		}
	}
}

// TestMPIDaemon parses two outputs of ompi_info. One is from Debian's openmpi-bin 4.1.4, and the
// other from an Open MPI that was built with its own directories.
func TestMPIDaemon(t *testing.T) {
	for built, want := range map[string]string{
		"path:prefix:/usr\nconfig:user:buildd\nmpirun:prefix_by_default:no\n":      "orted",
		"path:prefix:/opt/openmpi\nconfig:user:me\nmpirun:prefix_by_default:yes\n": "/opt/openmpi/bin/orted",
		"path:prefix:/usr\n": "", "": "",
	} {
		if got := parseDaemon(built); got != want {
			t.Errorf("%q: %q, want %q", built, got, want)
		}
	}
	programs := map[string]string{"mpirun": "/opt/mpich/bin/mpirun", "ompi_info": "/nonexistent/ompi_info"}
	for version, want := range map[string]string{"Hydra 4.0.2": "/opt/mpich/bin/hydra_pmi_proxy", "Intel MPI 2021.18.1": "", "Open MPI 5.0.3": "", "Open MPI 4.1.4": "", "": ""} {
		if got := mpiDaemon(t.Context(), version, programs); got != want {
			t.Errorf("%q starts %q, want %q", version, got, want)
		}
	}
}

func TestParseShebang(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{"virtual environment", "#!/opt/venv/bin/python\nimport sys\n", "/opt/venv/bin/python"},
		{"with an option", "#! /usr/bin/python3.11 -sP\n", "/usr/bin/python3.11"},
		{"env", "#!/usr/bin/env python3\n", "python3"},
		{"env with options", "#!/usr/bin/env -S PYTHONPATH=/x python3 -u\n", "python3"},
		{"long path, by pip", "#!/bin/sh\n'''exec' \"/very long/bin/python3\" \"$0\" \"$@\"\n' '''\n", "/very long/bin/python3"},
		{"long path, by uv", "#!/bin/sh\n'''exec' '/very long/bin/python3' \"$0\" \"$@\"\n", "/very long/bin/python3"},
		{"long path, without quotes", "#!/bin/sh\n'''exec' /long/bin/python3.10 \"$0\" \"$@\"\n", "/long/bin/python3.10"},
		{"relocatable, by uv", "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n", ""},
		{"pyenv's shim", "#!/usr/bin/env bash\nset -e\n", ""},
		{"a shell script", "#!/bin/sh\nexec /opt/run \"$@\"\n", ""},
		{"pypy", "#!/opt/pypy/bin/pypy3\n", "/opt/pypy/bin/pypy3"},
		{"no end of line", "#!/usr/bin/python3", "/usr/bin/python3"},
		{"nothing behind the mark", "#!\n", ""},
		{"a program", "\x7fELF\x02\x01", ""},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		if got := parseShebang(bufio.NewReader(strings.NewReader(tt.script))); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestMaskLines(t *testing.T) {
	text := strings.Join([]string{
		"NCCL_DEBUG=INFO",
		"export NCCL_IB_HCA = mlx5_0",
		"HF_TOKEN=hunter2",
		"MY_URL=https://me:hunter2@host/?a=b",
		"MY_PASSWORD=hunter$2 is 50%n",
		"",
		"# NCCL_DEBUG=hunter2",
		"# hunter2",
		"hunter2",
		"=hunter2\rNCCL_DEBUG=WARN",
	}, "\r\n")
	want := []string{
		"NCCL_DEBUG=INFO",
		"export NCCL_IB_HCA = mlx5_0",
		"HF_TOKEN=…",
		"MY_URL=…?…",
		"MY_PASSWORD=…$… … …%n", // "$" and "%n", on which a shell and pdsh would act, are kept
		"",
		"#…=…",
		"#…",
		"…",
		"=…",
		"NCCL_DEBUG=WARN",
	}
	if diff := cmp.Diff(want, maskLines(text)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEnvFiles(t *testing.T) {
	root := probetest.Plant(t, `
-- home/me/.deepspeed_env --
NCCL_DEBUG=INFO
-- home/me/mine --
A=1
-- abs/mine --
NCCL_ALGO=Ring
-- home/me/.mydir/.deepspeed_env --
`)
	work := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, work, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, work, ".deepspeed_env"), []byte("NCCL_DEBUG=WARN\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", "/home/me")
	home := facts.EnvFile{Path: "/home/me/.deepspeed_env", Lines: []string{"NCCL_DEBUG=INFO"}}
	const unset = "(unset)"
	tests := []struct {
		dsEnvFile string
		want      []facts.EnvFile
	}{
		{unset, []facts.EnvFile{home, {Path: filepath.Join(work, ".deepspeed_env"), Lines: []string{"NCCL_DEBUG=WARN"}}}},
		{"mine", []facts.EnvFile{{Path: "/home/me/mine", Lines: []string{"A=…"}}}},
		{"/abs/mine", []facts.EnvFile{{Path: "/abs/mine", Lines: []string{"NCCL_ALGO=Ring"}}}},
		{"~/mine", []facts.EnvFile{}}, // "~" is not expanded
		{"", []facts.EnvFile{}},       // an empty name stands for the directories themselves
		{"dir", []facts.EnvFile{}},    // a directory is not a file
	}
	for _, tt := range tests {
		t.Setenv("DS_ENV_FILE", tt.dsEnvFile)
		if tt.dsEnvFile == unset {
			_ = os.Unsetenv("DS_ENV_FILE") // Setenv restores it
		}
		if diff := cmp.Diff(tt.want, envFiles(machine.Options{Root: root, WorkDir: work})); diff != "" {
			t.Errorf("DS_ENV_FILE=%q: (-want +got)\n%s", tt.dsEnvFile, diff)
		}
	}
}

func TestEnvFileInTheHomeDirectoryIsReadOnce(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".deepspeed_env"), []byte("NCCL_DEBUG=INFO"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("DS_ENV_FILE", ".deepspeed_env")
	if got := envFiles(machine.Options{WorkDir: home}); len(got) != 1 {
		t.Errorf("%d files, want 1: %+v", len(got), got)
	}
}

func TestCollectLauncher(t *testing.T) {
	bin := t.TempDir()
	for name, body := range map[string]string{
		"ssh":       "#!/bin/sh\necho 'OpenSSH_9.9p1, OpenSSL 3.2.2' >&2\n",
		"pdsh":      "#!/bin/sh\n[ \"$PDSH_RCMD_TYPE\" = ssh ] || exit 9\necho 'pdsh-2.34 (+readline)'\necho 'rcmd modules: ssh,exec (default: rsh)'\n",
		"srun":      "#!/bin/sh\n",
		"deepspeed": "#!/usr/bin/env python3\n",
		"python3":   "#!/bin/sh\n",
	} {
		probetest.Program(t, filepath.Join(bin, name), body)
	}
	t.Setenv("PATH", bin)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("DS_ENV_FILE", ".deepspeed_env")
	got, err := CollectLauncher(t.Context(), machine.Options{WorkDir: t.TempDir(), Launchers: []string{"mpirun", "srun"}})
	if err != nil {
		t.Fatal(err)
	}
	want := &facts.Launcher{
		SSHPath:     filepath.Join(bin, "ssh"),
		SSHVersion:  "OpenSSH_9.9p1",
		PDSH:        &facts.PDSH{Path: filepath.Join(bin, "pdsh"), Version: "2.34", Modules: []string{"ssh", "exec"}, ModuleDir: got.PDSH.ModuleDir},
		Backends:    map[string]string{"srun": filepath.Join(bin, "srun")},
		DeepSpeed:   filepath.Join(bin, "deepspeed"),
		Interpreter: filepath.Join(bin, "python3"),
		EnvFiles:    []facts.EnvFile{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	t.Setenv("PATH", t.TempDir())
	bare, err := CollectLauncher(t.Context(), machine.Options{WorkDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&facts.Launcher{Backends: map[string]string{}, EnvFiles: []facts.EnvFile{}}, bare); diff != "" {
		t.Errorf("a machine without anything: (-want +got)\n%s", diff)
	}
}

// TestProgramsAreAskedSideBySide uses programs that wait for each other's output, so they must run
// at the same time.
func TestProgramsAreAskedSideBySide(t *testing.T) {
	bin := t.TempDir()
	for name, body := range map[string]string{
		"ssh":    "#!/bin/sh\n: >\"$0.pdsh\"\n: <\"$0.mpirun\"\necho 'OpenSSH_9.9p1, OpenSSL 3.2.2' >&2\n",
		"pdsh":   "#!/bin/sh\n: <\"${0%pdsh}ssh.pdsh\"\necho 'pdsh-2.34 (+readline)'\n",
		"mpirun": "#!/bin/sh\n: >\"${0%mpirun}ssh.mpirun\"\necho 'mpirun (Open MPI) 4.1.4'\n",
	} {
		probetest.Program(t, filepath.Join(bin, name), body)
	}
	for _, pipe := range []string{"ssh.pdsh", "ssh.mpirun"} {
		if err := syscall.Mkfifo(filepath.Join(bin, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	got, err := CollectLauncher(t.Context(), machine.Options{WorkDir: t.TempDir(), Launchers: []string{"mpirun"}})
	if err != nil {
		t.Fatal(err)
	}
	if got.SSHVersion != "OpenSSH_9.9p1" || got.PDSH.Version != "2.34" || got.MPIRun.Version != "Open MPI 4.1.4" {
		t.Errorf("ssh %q, pdsh %q and mpirun %q: one was to end before another began", got.SSHVersion, got.PDSH.Version, got.MPIRun.Version)
	}
}

// TestDaemonOfMPIRun checks that ompi_info runs only for launches that mpirun starts.
func TestDaemonOfMPIRun(t *testing.T) {
	bin := t.TempDir()
	for name, body := range map[string]string{
		"mpirun":    "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n",
		"ompi_info": "#!/bin/sh\n: >\"$0.asked\"\necho mpirun:prefix_by_default:no\n",
	} {
		probetest.Program(t, filepath.Join(bin, name), body)
	}
	t.Setenv("PATH", bin)
	for byMPIRun, daemon := range map[bool]string{false: "", true: "orted"} {
		asked := filepath.Join(bin, "ompi_info.asked")
		_ = os.Remove(asked)
		got, err := CollectLauncher(t.Context(), machine.Options{WorkDir: t.TempDir(), Launchers: []string{"mpirun", "ompi_info"}, ByMPIRun: byMPIRun})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(asked); got.MPIRun.Daemon != daemon || (err == nil) != byMPIRun {
			t.Errorf("started by mpirun %t: it starts %q on the nodes, want %q; ompi_info asked: %t", byMPIRun, got.MPIRun.Daemon, daemon, err == nil)
		}
	}
}

// TestLaunchProgram checks the program at the start of a launch command, and the Python that runs
// it.
func TestLaunchProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "venv", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	venv := filepath.Join(dir, "venv", "bin")
	probetest.Program(t, filepath.Join(venv, "python3.11"), "#!/bin/sh\n")
	probetest.Program(t, filepath.Join(venv, "torchrun"), "#!/opt/venv/bin/python3\n")
	probetest.Program(t, filepath.Join(venv, "deepspeed"), "#!/bin/bash\n")
	for _, name := range []string{"python", "python3"} {
		if err := os.Symlink("python3.11", filepath.Join(venv, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", venv)
	t.Chdir(dir)
	for name, want := range map[string][2]string{
		"torchrun":          {venv + "/torchrun", "/opt/venv/bin/python3"},
		"./venv/bin/python": {venv + "/python", venv + "/python"},
		venv + "/python3":   {venv + "/python3", venv + "/python3"},
		"python":            {venv + "/python", venv + "/python"}, // a link is not resolved, because it determines the environment
		"deepspeed":         {venv + "/deepspeed", ""},
		"accelerate":        {"", ""},
		"./deepspeed":       {"", ""},
	} {
		if path, interpreter := launchProgram(name); path != want[0] || interpreter != want[1] {
			t.Errorf("%s: %q run by %q, want %q", name, path, interpreter, want)
		}
	}
	launcher, err := CollectLauncher(t.Context(), machine.Options{Program: "torchrun", WorkDir: dir})
	if err != nil || launcher.DeepSpeed != venv+"/torchrun" {
		t.Errorf("%+v, %v", launcher, err)
	}
}

func pdshOf(t *testing.T, path string) *facts.PDSH {
	t.Helper()
	pdsh, err := readPDSH(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return pdsh
}

func TestPDSHOfThisMachine(t *testing.T) {
	got := pdshOf(t, "/usr/bin/pdsh")
	if got.Version == "" || !strings.Contains(strings.Join(got.Modules, " "), "ssh") || got.Problem != "" {
		t.Errorf("%+v", got)
	}
	if !strings.HasSuffix(got.ModuleDir, "/pdsh") || got.Insecure != nil {
		t.Errorf("module directory %q, insecure %v", got.ModuleDir, got.Insecure)
	}
}

// TestPDSHThatRefuses uses the messages of pdsh 2.34 for a module directory of mode 0777.
func TestPDSHThatRefuses(t *testing.T) {
	path := probetest.Script(t, "pdsh", `cat >&2 <<'END'
pdsh@head: module path "/usr/lib/x86_64-linux-gnu/pdsh" insecure.
pdsh@head: "/usr/lib/x86_64-linux-gnu/pdsh": World writable and sticky bit is not set
pdsh@head: Couldn't load any pdsh modules
END
exit 1`)
	got := pdshOf(t, path)
	if len(got.Modules) != 0 || !strings.HasPrefix(got.Problem, `pdsh@head: module path`) || !strings.Contains(got.Problem, "World writable") {
		t.Errorf("%+v", got)
	}
	silent := pdshOf(t, probetest.Script(t, "pdsh", "exit 3"))
	if silent.Problem != "ended with exit status 3 and said nothing" {
		t.Errorf("problem %q", silent.Problem)
	}
}

func TestParsePDSHVersion(t *testing.T) {
	tests := []struct {
		output, version string
		modules         []string
	}{
		{"pdsh-2.34 (+readline+debug)\nrcmd modules: ssh,rsh,exec (default: rsh)\nmisc modules: genders\n", "2.34", []string{"ssh", "rsh", "exec"}},
		{"pdsh-2.35\nrcmd modules: (none)\n", "2.35", []string{}},
		{"", "", []string{}},
	}
	for _, tt := range tests {
		version, modules := parsePDSHVersion(tt.output)
		if diff := cmp.Diff(tt.modules, modules); version != tt.version || diff != "" {
			t.Errorf("%q: version %q, want %q (-want +got)\n%s", tt.output, version, tt.version, diff)
		}
	}
}

func TestModuleDirComesFromTheProgram(t *testing.T) {
	modules := filepath.Join(t.TempDir(), "lib", "pdsh")
	if err := os.MkdirAll(modules, 0o755); err != nil {
		t.Fatal(err)
	}
	path := probetest.Script(t, "pdsh", "exec pdsh.bin") // a script in front of pdsh.bin, as on Debian
	if err := os.WriteFile(path+".bin", []byte("ELF\x00/gone/lib/pdsh\x00"+modules+"\x00rest"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := moduleDir(path); got != modules {
		t.Errorf("%q, want %q", got, modules)
	}
}

func TestInsecureDirs(t *testing.T) {
	top := t.TempDir()
	modules := filepath.Join(top, "lib", "pdsh")
	if err := os.MkdirAll(modules, 0o755); err != nil {
		t.Fatal(err)
	}
	mode := func(dir string, mode os.FileMode) {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := insecureDirs(modules, 0); got != nil {
		t.Errorf("nothing is wrong, and yet %v", got)
	}
	mode(modules, 0o775) // pdsh accepts a group-writable directory
	mode(filepath.Join(top, "lib"), 0o777|os.ModeSticky)
	if got := insecureDirs(modules, 0); got != nil {
		t.Errorf("nothing pdsh minds is wrong, and yet %v", got)
	}
	mode(filepath.Join(top, "lib"), 0o777)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(modules, link); err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(top, "lib") + " mode 0777"}
	if diff := cmp.Diff(want, insecureDirs(link, 0)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestInsecureOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: giving a directory away needs root")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 4321, -1); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{dir + " owner uid 4321"}, insecureDirs(dir, 0)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := insecureDirs(dir, 4321); got != nil {
		t.Errorf("pdsh trusts its own owner, and yet %v", got)
	}
}
