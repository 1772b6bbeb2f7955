// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"regexp"
	"slices"
	"strings"

	"preflight/internal/text"
)

// CopyTo returns the command that copies a path of the launching machine to each host. The path of
// a directory ends with a slash.
func CopyTo(path string) Command {
	return EachHost("rsync %[1]s{rsh} %[2]s $host:%[2]s", rsyncOptions(path), Path(path)).packs(path)
}

// CopyFrom returns the command that copies a path of a node to the first node of the finding.
func CopyFrom(node, path string) Command {
	return On("rsync %[1]s{rsh} %[2]s {node}:%[2]s", rsyncOptions(path), Path(path)).At(node).packs(path)
}

// rsyncOptions returns rsync's options for a path. For a path with special characters, they include
// -s, so that the remote shell does not interpret the path.
func rsyncOptions(path string) Arg {
	if text.IsPlain(path) {
		return Code("-a")
	}
	return Code("-as")
}

// Install returns the command that installs a package with the package manager of the distribution.
// It returns commands for both apt and dnf if system names no distribution of either. apt and dnf
// are the names of the package in each package manager. where is Here or On.
func Install(where func(literal, ...Arg) Command, system string, apt, dnf literal) []Command {
	withAPT, withDNF := where("sudo apt-get install -y "+apt).Inside(), where("sudo dnf install -y "+dnf).Inside()
	switch {
	case likeDebian.MatchString(system):
		return []Command{withAPT}
	case likeRedHat.MatchString(system):
		return []Command{withDNF}
	}
	return Alternatives(withAPT, withDNF)
}

var (
	likeDebian = regexp.MustCompile("Debian|Ubuntu")
	likeRedHat = regexp.MustCompile("Red Hat|Rocky|AlmaLinux|CentOS|Fedora|Oracle|Amazon")
)

// Pip is the pip of a Python interpreter on the nodes of a finding.
type Pip struct {
	Python string // the path of the interpreter
	// Managed means that the distribution forbids pip to change this installation (PEP 668: Debian
	// 12, Ubuntu 23.04, with Python 3.11). The command allows it with an environment variable and
	// not with an option: pip before 23.0.1 rejects the unknown option, but ignores an unknown
	// variable.
	Managed bool
	// Again means that pip reinstalls packages that it considers installed, without their
	// dependencies.
	Again bool
}

// Run returns the command that runs pip with the given arguments, such as "install %s".
func (p Pip) Run(code literal, args ...Arg) Command {
	args = append([]Arg{Path(p.Python)}, args...)
	if !p.Managed {
		return On("%s -m pip "+code, args...)
	}
	return On("env PIP_BREAK_SYSTEM_PACKAGES=1 %s -m pip "+code, args...).Remark("better: use a venv for the launch")
}

// List returns the command that lists the installed packages.
func (p Pip) List() Command { return On("%s -m pip list", Path(p.Python)) }

// Requirement is a package with an exact version, such as "2.6.0+cu124". Version "" means any
// version.
type Requirement struct{ Name, Version string }

// pytorchLabel matches the part after "+" in the versions of pytorch.org's own builds. Each label
// has its own package index.
//
// Source: https://download.pytorch.org/whl, as https://pytorch.org/get-started names it.
var pytorchLabel = regexp.MustCompile(`^(cpu|cu\d+|rocm\d[\d.]*)$`)

// sourceRelease matches the version of torch packages that were built from source between releases.
// No package index has such versions.
var sourceRelease = regexp.MustCompile(`^\d+(\.\d+)*a0$`)

func isSourceBuild(w Requirement) bool {
	return strings.HasPrefix(w.Name, "torch") && sourceRelease.MatchString(w.Version)
}

// Install returns the commands that install packages in the wanted versions, one command for each
// package index. No index has the builds of a team or a distribution ("2.6.0a0+ecddbd81a.nv24.12",
// Debian's "1.13.0a0"): PyPI accepts no version with "+".
func (p Pip) Install(wanted []Requirement) (commands []Command) {
	var indexes []string
	var built []string
	packages := map[string][]string{} // packages by index; the key "" stands for PyPI
	for _, w := range wanted {
		public, label, labelled := strings.Cut(w.Version, "+")
		index := ""
		switch {
		case pytorchLabel.MatchString(label) && strings.Contains(public, ".dev"):
			index = "https://download.pytorch.org/whl/nightly/" + label
		case pytorchLabel.MatchString(label):
			index = "https://download.pytorch.org/whl/" + label
		case labelled, isSourceBuild(w):
			built = append(built, w.Name)
			continue
		}
		if !slices.Contains(indexes, index) {
			indexes = append(indexes, index)
		}
		if w.Version != "" {
			w.Name += "==" + w.Version
		}
		packages[index] = append(packages[index], w.Name)
	}
	how := literal("install ")
	if p.Again {
		how = "install --force-reinstall --no-deps "
	}
	for _, index := range indexes {
		if index == "" {
			commands = append(commands, p.Run(how+"%s", List[Package](" ", packages[index])))
		} else {
			commands = append(commands, p.Run(how+"%s --index-url %s", List[Package](" ", packages[index]), Word(index)))
		}
	}
	if built != nil {
		commands = append(commands, p.List().As(Look).Remark("no package index has this build of %s: install the original wheel", List[Text](", ", built)))
	}
	return commands
}
