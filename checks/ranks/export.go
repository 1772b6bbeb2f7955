// SPDX-License-Identifier: Apache-2.0

package ranks

import (
	"regexp"
	"strings"

	"preflight/checks/fix"
	"preflight/launch"
)

// grammars lists the values that preflight may suggest to export. For each variable, the first row
// whose pattern names matches the variable applies. preflight suggests no other values, because
// DeepSpeed writes a value into a shell command on every node, unquoted or in double quotes.
//
// Source: deepspeed/launcher/multinode_runner.py, add_export and get_cmd, 0.6.0 to 0.19.8. The
// values: NVIDIA/nccl 2.30, parseStringList in misc/utils.cc; torch 2.9, ProcessGroupGloo.cpp,
// which splits at commas.
var grammars = []struct{ names, value *regexp.Regexp }{
	{named(`NCCL_SOCKET_IFNAME`), value(`\^?=?` + listOf(interfaceName))},
	{named(`(GLOO|TP)_SOCKET_IFNAME`), value(listOf(interfaceName))},
	{named(`NCCL_IB_HCA`), value(`\^?=?` + listOf(`[A-Za-z0-9][\w.-]*(:\d+)?`))},
	{named(`NCCL_IB_GID_INDEX|MASTER_PORT|NCCL_IB_DISABLE|NCCL_CUMEM_HOST_ENABLE`), value(`\d{1,9}`)},
	{named(`MASTER_ADDR`), value(`[\w:][\w.:-]*`)},
	{named(`CUDA_HOME|TORCH_EXTENSIONS_DIR|TRITON_CACHE_DIR|TORCHINDUCTOR_CACHE_DIR`), value(path)},
	{named(`PATH|LD_LIBRARY_PATH`), value(path + `(:` + path + `)*`)},
	{named(`[A-Za-z_]\w*`), value(`[\w@+=:,./^-]*`)}, // no percent sign, because pdsh replaces %h by the host's name
}

const (
	interfaceName = `[A-Za-z0-9][\w.:-]{0,14}` // names that the kernel assigns; a renamed interface may have any character except "/" and blanks
	path          = `/[\w@+=,./-]*`
)

func listOf(entry string) string { return entry + `(,` + entry + `)*` }

func named(names string) *regexp.Regexp { return regexp.MustCompile(`^(` + names + `)$`) }

func value(grammar string) *regexp.Regexp { return regexp.MustCompile(`^(` + grammar + `)$`) }

// Exportable reports whether preflight may suggest exporting a variable with this value.
func Exportable(variable, value string) bool {
	for _, g := range grammars {
		if g.names.MatchString(variable) {
			return g.value.MatchString(value)
		}
	}
	return false
}

const (
	renamed = "a shell may misread the name of the interface. Rename it with ip link set dev OLD name NEW, and " +
		"with a .link file of systemd for the next boot"
	byHand = "a shell may misread its value, which is not valid for this variable. If the value is right, set it by hand on the nodes"
)

// NotExported says why preflight does not suggest exporting a value, and what to do instead.
func NotExported(variable string) string {
	if strings.HasSuffix(variable, "_SOCKET_IFNAME") {
		return renamed
	}
	return byHand
}

// refused returns the text of NotExported as a step of a fix.
func refused(variable string) fix.Command {
	if NotExported(variable) == renamed {
		return fix.Note("no command sets %s: "+renamed, fix.Variable(variable))
	}
	return fix.Note("no command sets %s: "+byHand, fix.Variable(variable))
}

// ExportOwn returns the command that exports a variable of the launching shell to every rank. It does
// not show the value, which may be a secret, and does nothing if the variable is not set.
func ExportOwn(p launch.Prediction, name string) fix.Command {
	if p.EnvFile != "" {
		return fix.Here(`env | grep ^%s >> %s && chmod 600 %[2]s`, fix.Variable(name), fix.Path(p.EnvFile))
	}
	return fix.Here(`env | grep ^%s >> ~/.deepspeed_env && chmod 600 ~/.deepspeed_env`, fix.Variable(name))
}

// ExportLine returns the command that sets a variable for every rank of the launch. If the value is
// not exportable, it returns a note instead.
func ExportLine(p launch.Prediction, name, value string) fix.Command {
	switch {
	case !Exportable(name, value):
		return refused(name)
	case p.Torchrun():
		return fix.Here("export %s   # in the shell of every node that starts torchrun", fix.Setting{Variable: name, Value: value})
	}
	if p.EnvFile != "" {
		return fix.Here("echo %s >> %s", fix.Setting{Variable: name, Value: value}, fix.Path(p.EnvFile))
	}
	return fix.Here("echo %s >> ~/.deepspeed_env", fix.Setting{Variable: name, Value: value})
}
