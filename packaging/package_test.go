// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	commit  = "1700000000" // a second in November 2023
	release = "v1.2.0-rc1-5-gabcdef0"
)

// other is the supported architecture that this machine does not have.
var other = map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]

// maintainer contains characters that would break a careless substitution.
const maintainer = `R&D \1 <gpu/ops@example.org>`

// packed runs package.sh in a new directory and under a umask, and returns the directory. To save
// time it packs small files: a program that calls the real binary, a small program for the other
// architecture, and plain text for macOS.
func packed(t *testing.T, binary, umask string) string {
	t.Helper()
	dist := t.TempDir()
	dynamic, err1 := os.ReadFile(binary + "-dynamic")
	static, err2 := os.ReadFile(binary + "-static")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"preflight-darwin-" + runtime.GOARCH: []byte("for a laptop\n"), "preflight-linux-" + runtime.GOARCH: dynamic, "preflight-linux-" + other: static,
	} {
		if err := os.WriteFile(filepath.Join(dist, name), content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", `umask $0; exec sh package.sh "$@"`, umask, dist, release, runtime.GOARCH, other)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+commit, "MAINTAINER="+maintainer)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dist
}

// needs skips a test if a program is missing.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("NOT RUN: %s, because there is no %s", t.Name(), program)
	}
}

func output(t *testing.T, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// preflight builds the binary and returns its path. Next to it, PATH-dynamic is a program that
// needs the oldest glibc of the architecture and executes the binary. PATH-static needs no glibc
// and runs an endless loop.
func preflight(t *testing.T) string {
	t.Helper()
	needs(t, "gcc")
	if runtime.GOOS != "linux" || other == "" {
		t.Skip("NOT RUN: packing, because releases are for Linux on amd64 and arm64 and made there")
	}
	path := filepath.Join(t.TempDir(), "preflight")
	cmd := exec.Command("go", "build", "-tags", "netgo,osusergo", "-o", path, "../cmd/preflight")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The loader calls the function in .preinit_array with the arguments of main. So the program
	// needs no start files, which would need the glibc of this machine.
	compile(t, path+"-dynamic", `#include <unistd.h>
		static void become(int argc, char **argv, char **env) { execve("`+path+`", argv, env); _exit(127); }
		__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **, char **) = become;
		int main(void) { return 0; }`, "-Wl,-z,lazy")
	compile(t, path+"-static", "int main(void) { for (;;); }", "-static", "-nostdlib")
	return path
}

// compile compiles a program without start files.
func compile(t *testing.T, path, source string, flags ...string) {
	t.Helper()
	gcc := exec.Command("gcc", append(flags, "-nostartfiles", "-Wl,-e,main", "-xc", "-", "-o", path)...)
	gcc.Stdin = strings.NewReader(source)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
}

// TestPackages packs twice, as two people would, and checks the contents.
func TestPackages(t *testing.T) {
	binary := preflight(t)
	dist := packed(t, binary, "022")
	t.Run("the same bytes again", func(t *testing.T) {
		again := packed(t, binary, "077")
		entries, err := os.ReadDir(dist)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			first, err1 := os.ReadFile(filepath.Join(dist, entry.Name()))
			second, err2 := os.ReadFile(filepath.Join(again, entry.Name()))
			if err := errors.Join(err1, err2); err != nil || !bytes.Equal(first, second) {
				t.Errorf("%s differs (%v)", entry.Name(), err)
			}
		}
	})
	t.Run("archive", func(t *testing.T) {
		archive(t, filepath.Join(dist, "preflight-"+release+"-linux-"+runtime.GOARCH+".tar.gz"), binary)
	})
	t.Run("archive for macOS", func(t *testing.T) {
		top := "preflight-" + release + "-darwin-" + runtime.GOARCH
		path := filepath.Join(dist, top+".tar.gz")
		listed(t, output(t, "tar", "--numeric-owner", "-tvf", path), top+"/MACOS.txt", top+"/completions/_preflight")
		if said := output(t, "tar", "-xOf", path, top+"/preflight"); said != "for a laptop\n" {
			t.Errorf("preflight is another binary: %.40q", said)
		}
	})
	t.Run("wheel", func(t *testing.T) { wheel(t, dist) })
	t.Run("deb", func(t *testing.T) {
		needs(t, "dpkg-deb")
		file := func(arch string) string { return filepath.Join(dist, "preflight_1.2.0~rc1+5.gabcdef0_"+arch+".deb") }
		deb(t, file(runtime.GOARCH))
		// A build with NOCGO=1 is static.
		if said := strings.TrimSpace(output(t, "dpkg-deb", "-f", file(other), "Depends")); said != "" {
			t.Errorf("a static binary depends on %s", said)
		}
	})
	t.Run("rpm", func(t *testing.T) {
		needs(t, "rpmbuild")
		file := func(arch string) string {
			return filepath.Join(dist, "preflight-1.2.0~rc1+5.gabcdef0-1."+machine[arch]+".rpm")
		}
		rpm(t, file(runtime.GOARCH))
		if said := output(t, "rpm", "-qp", "--requires", file(other)); strings.Contains(said, "libc") {
			t.Errorf("a static binary requires %s", said)
		}
	})
}

// machine maps Go's name of an architecture to that of Linux, pip and rpm.
var machine = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// wheel tests that pip installs a wheel into a new environment, without any index.
func wheel(t *testing.T, dist string) {
	const version = "1.2.0rc1.post5+gabcdef0"
	all, err := filepath.Glob(filepath.Join(dist, "preflight_launch-"+version+"-py3-none-*.whl"))
	if err != nil || len(all) != 3 { // two for Linux, and one for macOS
		t.Fatalf("%q, %v", all, err)
	}
	needs(t, "python3")
	at := slices.IndexFunc(all, func(path string) bool {
		return strings.HasSuffix(path, "manylinux_2_28_"+machine[runtime.GOARCH]+".whl")
	})
	if at < 0 {
		t.Fatalf("none is for this machine: %q", all)
	}
	home := t.TempDir()
	if out, err := exec.Command("python3", "-m", "venv", home).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: installing the wheel, because python3 has no venv: %v\n%s", err, out)
	}
	output(t, home+"/bin/python", "-m", "pip", "install", "--no-index", "--disable-pip-version-check", "-q", all[at])
	if said := output(t, home+"/bin/preflight", "version"); said != "preflight version dev\n" {
		t.Errorf("what pip has installed says %q", said)
	}
	shown := output(t, home+"/bin/python", "-m", "pip", "show", "--disable-pip-version-check", "-f", "preflight-launch")
	for _, want := range []string{"Version: " + version, "License: Apache-2.0", ".dist-info/LICENSE", ".dist-info/NOTICE", ".dist-info/THIRD-PARTY.txt"} {
		if !strings.Contains(shown, want) {
			t.Errorf("pip does not show %q:\n%s", want, shown)
		}
	}
	output(t, home+"/bin/python", "-m", "pip", "check", "--disable-pip-version-check")
}

// listed tests that a listing has the owner, mode and time of every package, and names the files in
// always. tar and dpkg-deb print the date as two words, so the name is the sixth word.
func listed(t *testing.T, listing string, always ...string) {
	t.Helper()
	var names []string
	for line := range strings.Lines(listing) {
		names = append(names, strings.Join(strings.Fields(line)[5:], " "))
		if !strings.Contains(line, "2023-11-14") {
			t.Errorf("another time than the commit's: %s", line)
		}
		if mode := line[:10]; !slices.Contains([]string{"-rwxr-xr-x", "-rw-r--r--", "drwxr-xr-x", "lrwxrwxrwx"}, mode) {
			t.Errorf("a mode nobody expects: %s", line)
		}
		if owner := strings.Fields(line)[1]; owner != "0/0" && owner != "root/root" {
			t.Errorf("an owner of this machine: %s", line)
		}
		if strings.HasSuffix(strings.TrimSpace(line), ".go") {
			t.Errorf("a test is packed: %s", line)
		}
	}
	for _, name := range always {
		if !slices.Contains(names, name) {
			t.Errorf("there is no %s in:\n%s", name, listing)
		}
	}
}

func archive(t *testing.T, path, binary string) {
	top := strings.TrimSuffix(filepath.Base(path), ".tar.gz") + "/"
	names := []string{"preflight", "LICENSE", "NOTICE", "README.md", "THIRD-PARTY.txt",
		"man/preflight.1", "man/preflight-judge.1", "completions/preflight.bash", "completions/_preflight",
		"completions/preflight.fish", "completions/preflight.ps1", "examples/slurm/prolog.sh", "examples/gitlab/.gitlab-ci.yml"}
	for i := range names {
		names[i] = top + names[i]
	}
	listed(t, output(t, "tar", "--numeric-owner", "-tvf", path), names...)

	root := t.TempDir()
	output(t, "tar", "-C", root, "-xf", path)
	at := root + "/" + top
	output(t, "cmp", at+"preflight", binary+"-dynamic")
	manual(t, at+"man")
	for _, module := range []string{"golang.org/x/crypto v", "github.com/spf13/cobra v", "Go go1."} {
		terms, err := os.ReadFile(at + "THIRD-PARTY.txt")
		if err != nil || !bytes.Contains(terms, []byte("\n---- "+module)) {
			t.Errorf("the terms of %s are not there (%v)", module, err)
		}
	}
	bashCompletes(t, binary, at+"completions/preflight.bash")
	for shell, script := range map[string]string{"bash": "preflight.bash", "zsh": "_preflight", "fish": "preflight.fish"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("NOT RUN: the completions for %s, because it is not installed", shell)
			continue
		}
		output(t, shell, "-n", at+"completions/"+script)
	}
}

// bashCompletes simulates the TAB key as bash-completion does: it sets the words typed so far and
// calls the function that the script has registered.
func bashCompletes(t *testing.T, binary, script string) {
	const library = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(library); err != nil {
		t.Log("NOT RUN: completing words in bash, because there is no bash-completion: sh testhosts/apt.sh installs it")
		return
	}
	for typed, want := range map[string]string{
		"preflight -H h --format j":             "json junit",
		"preflight -H h --format j --only shm-": "shm-size shm-writable shm-leftovers shm-limits",
		"preflight snap":                        "snapshot",
		"preflight judge --good":                "--good-hosts",
	} {
		said := output(t, "bash", "--norc", "-c", `PATH=$1:$PATH; . `+library+`; . "$2"
			compopt() { :; } # it works where bash itself asks for words, and says so elsewhere
			COMP_LINE=$3 COMP_POINT=${#3}; read -ra COMP_WORDS <<<"$3"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_TYPE=9
			how=$(complete -p preflight) how=${how##*-F }; "${how%% *}"
			for word in "${COMPREPLY[@]}"; do echo "${word%% *}"; done`, "bash", filepath.Dir(binary), script, typed)
		if got := strings.Join(strings.Fields(said), " "); got != want {
			t.Errorf("%s<TAB> offers %q, want %q", typed, got, want)
		}
	}
}

// manual tests the manual pages with groff: no warnings, and the expected text.
func manual(t *testing.T, dir string) {
	if _, err := exec.LookPath("groff"); err != nil {
		t.Log("NOT RUN: the manual, because there is no groff: sh testhosts/apt.sh installs it")
		return
	}
	pages, err := filepath.Glob(dir + "/*.1")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		if said := output(t, "groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-z", page); said != "" {
			t.Errorf("%s: %s", page, said)
		}
	}
	if _, err := exec.LookPath("lexgrog"); err != nil {
		t.Log("NOT RUN: what whatis and apropos read of the manual, because there is no lexgrog: sh testhosts/apt.sh installs it")
	} else {
		output(t, append([]string{"lexgrog"}, pages...)...)
	}
	page := strings.Join(strings.Fields(output(t, "groff", "-man", "-Kutf8", "-Tutf8", "-P-cbou", dir+"/preflight.1")), " ")
	for _, want := range []string{"preflight dev", "Nov 2023", "--good-hosts", "Exit codes: 0 ready", "preflight-judge(1)"} {
		if !strings.Contains(page, want) {
			t.Errorf("the manual does not say %q:\n%s", want, page)
		}
	}
}

// oldest is the first glibc release that supports an architecture.
var oldest = map[string]string{"amd64": "2.2.5", "arm64": "2.17"}

func deb(t *testing.T, path string) {
	listed(t, output(t, "dpkg-deb", "-c", path),
		"./usr/bin/preflight", "./usr/share/man/man1/preflight.1.gz",
		"./usr/share/bash-completion/completions/preflight", "./usr/share/zsh/vendor-completions/_preflight",
		"./usr/share/fish/vendor_completions.d/preflight.fish", "./usr/share/doc/preflight/copyright", "./usr/share/doc/preflight/changelog.gz", "./usr/share/doc/preflight/examples/nagios/check_preflight")
	for field, want := range map[string]string{
		"Package": "preflight", "Version": "1.2.0~rc1+5.gabcdef0", "Architecture": runtime.GOARCH,
		"Depends": "libc6 (>= " + oldest[runtime.GOARCH] + ")", "Recommends": "openssh-client, pdsh", "Maintainer": maintainer,
	} {
		if diff := cmp.Diff(want, strings.TrimSpace(output(t, "dpkg-deb", "-f", path, field))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
}

func rpm(t *testing.T, path string) {
	said := output(t, "rpm", "-qp", "--qf", "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILEMTIMES:day} %{FILENAMES}\\n]", path)
	for _, name := range []string{"/usr/bin/preflight", "/usr/share/man/man1/preflight.1.gz", "/usr/share/man/man1/preflight-judge.1.gz",
		"/usr/share/bash-completion/completions/preflight", "/usr/share/zsh/site-functions/_preflight", "/usr/share/fish/vendor_completions.d/preflight.fish",
		"/usr/share/licenses/preflight/LICENSE", "/usr/share/licenses/preflight/NOTICE", "/usr/share/licenses/preflight/THIRD-PARTY.txt",
		"/usr/share/doc/preflight/README.md", "/usr/share/doc/preflight/examples/nagios/check_preflight"} {
		if !strings.Contains(said, " root root Tue Nov 14 2023 "+name+"\n") {
			t.Errorf("there is no %s of root and of the commit's day in:\n%s", name, said)
		}
	}
	if strings.Contains(said, ".go\n") || strings.Contains(said, "testdata") {
		t.Errorf("a test is packed:\n%s", said)
	}
	want := []string{"preflight 1.2.0~rc1+5.gabcdef0-1 " + machine[runtime.GOARCH] + " Apache-2.0 " + maintainer + " " + commit + " localhost",
		"Check a multi-node training launch before you start it",
		"libc.so.6(GLIBC_" + oldest[runtime.GOARCH] + ")(64bit)", "openssh-clients", "pdsh"}
	about := output(t, "rpm", "-qp", "--qf", "%{NAME} %{VERSION}-%{RELEASE} %{ARCH} %{LICENSE} %{PACKAGER} %{BUILDTIME} %{BUILDHOST}\\n%{SUMMARY}\\n", path)
	requires := slices.DeleteFunc(strings.Split(strings.TrimSpace(output(t, "rpm", "-qp", "--requires", "--recommends", path)), "\n"),
		func(what string) bool { return strings.HasPrefix(what, "rpmlib(") })
	got := append(strings.Split(strings.TrimSpace(about), "\n"), requires...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestShellcheck runs shellcheck on the scripts that build and install.
func TestShellcheck(t *testing.T) {
	needs(t, "shellcheck")
	output(t, "shellcheck", "package.sh", "notes.sh", "version.sh", "../portable/cc.sh", "../portable/roots.sh", "../cmd/agent/build.sh", "../testhosts/apt.sh", "../docs/site.sh", "../examples/testdata/consumers.sh")
}

// TestVersionsOrder tests that a package of a later release replaces one of an earlier release.
func TestVersionsOrder(t *testing.T) {
	needs(t, "dpkg")
	script, err := os.ReadFile("package.sh")
	if err != nil {
		t.Fatal(err)
	}
	from := bytes.Index(script, []byte("package_version() {"))
	function := string(script[from : from+bytes.Index(script[from:], []byte("\n}"))+2])
	var versions []string
	for _, release := range []string{"9861e20", "9861e20-dirty", "v0.1.0-dev-1234-gabcdef0", "v0.1.0", "v0.9.0", "v1.0.0-alpha", "v1.0.0-alpha.2", "v1.0.0-alpha.10", "v1.0.0-beta1",
		"v1.0.0-beta1-dirty", "v1.0.0-rc1", "v1.0.0-rc1-2-gabcdef0", "v1.0.0-rc1-12-gabcdef0", "v1.0.0-rc1-12-gabcdef0-dirty", "v1.0.0-rc2", "v1.0.0-rc-3", "v1.0.0",
		"v1.0.0-3-gabcdef0", "v1.0.0-3-gabcdef0-dirty", "v1.0.1"} {
		versions = append(versions, strings.TrimSpace(output(t, "sh", "-c", "SOURCE_DATE_EPOCH="+commit+" version=$0\n"+function+"\npackage_version", release)))
	}
	for i, version := range versions {
		output(t, "dpkg", "--validate-version", version)
		if i > 0 {
			output(t, "dpkg", "--compare-versions", versions[i-1], "lt", version)
			if _, err := exec.LookPath("rpm"); err != nil {
				t.Logf("NOT RUN: whether rpm orders %s as dpkg does, because it is not installed", version)
			} else if said := output(t, "rpm", "--eval", `%{lua:print(rpm.vercmp("`+versions[i-1]+`", "`+version+`"))}`); said != "-1\n" {
				t.Errorf("rpm does not take %s for older than %s: %s", versions[i-1], version, said)
			}
		}
	}
	if versions[0] != "0~20231114.9861e20" {
		t.Errorf("a commit without a tag is %s", versions[0])
	}
}
