// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"regexp"
	"slices"
	"strings"

	"preflight/internal/text"
)

// CopyTo copies a path of the launching machine to each host; directories end in a slash.
func CopyTo(path string) Command {
	return EachHost("rsync %[1]s{rsh} %[2]s $host:%[2]s", rsyncOptions(path), Path(path)).packs(path)
}

// CopyFrom copies a path of a node to the finding's first one.
func CopyFrom(node, path string) Command {
	return On("rsync %[1]s{rsh} %[2]s {node}:%[2]s", rsyncOptions(path), Path(path)).At(node).packs(path)
}

// rsyncOptions: -s keeps the other end's shell from reading a path that it would take for more.
func rsyncOptions(path string) Arg {
	if text.IsPlain(path) {
		return Code("-a")
	}
	return Code("-as")
}

// Install installs a package by the distribution's own tool, or by either where the name of
// the system does not tell which: its names with apt and with dnf. Where it runs is Here or On.
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

// Pip is that of an interpreter, on the nodes of a finding.
type Pip struct {
	Python string // its path
	// Managed is one that its distribution keeps pip off (PEP 668: Debian 12, Ubuntu 23.04, with
	// python 3.11). A variable says that it may: pip before 23.0.1 does not know the
	// option, and passes over a variable that it does not know.
	Managed bool
	// Again installs what pip takes for installed, and leaves what that requires alone.
	Again bool
}

// Run runs pip with what it is to do, "install %s".
func (p Pip) Run(code literal, args ...Arg) Command {
	args = append([]Arg{Path(p.Python)}, args...)
	if !p.Managed {
		return On("%s -m pip "+code, args...)
	}
	return On("env PIP_BREAK_SYSTEM_PACKAGES=1 %s -m pip "+code, args...).Remark("or, better, have the launch use a venv")
}

// List shows what is installed.
func (p Pip) List() Command { return On("%s -m pip list", Path(p.Python)) }

// Requirement is a package in the very version that is wanted, "2.6.0+cu124", "" for any.
type Requirement struct{ Name, Version string }

// pytorchLabel is what pytorch.org's own builds have behind the "+" of their versions.
// There is an index for each.
//
// Source: https://download.pytorch.org/whl, as https://pytorch.org/get-started names it.
var pytorchLabel = regexp.MustCompile(`^(cpu|cu\d+|rocm\d[\d.]*)$`)

// sourceRelease is what torch's source and that of its family calls itself between releases:
// no index has it.
var sourceRelease = regexp.MustCompile(`^\d+(\.\d+)*a0$`)

func isSourceBuild(w Requirement) bool {
	return strings.HasPrefix(w.Name, "torch") && sourceRelease.MatchString(w.Version)
}

// Install installs packages in the versions wanted, by one command for each index that has
// such builds. What a team or a distribution has built itself ("2.6.0a0+ecddbd81a.nv24.12",
// Debian's "1.13.0a0") no index has, for PyPI takes no version with a "+".
func (p Pip) Install(wanted []Requirement) (commands []Command) {
	var indexes []string
	var built []string
	packages := map[string][]string{} // by index, "" for the usual one
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
		commands = append(commands, p.List().Remark("no index has the build of %s: install the wheel that it came from", List[Text](", ", built)))
	}
	return commands
}
