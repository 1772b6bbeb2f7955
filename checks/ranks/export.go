// SPDX-License-Identifier: Apache-2.0

package ranks

import (
	"regexp"
	"strings"

	"preflight/checks/fix"
	"preflight/launch"
)

// grammars are what the value of a variable may look like that is exported to the ranks; the
// first row holds whose variables have that name. DeepSpeed writes it into a command for a shell
// on every node as it is, or in double quotes, so what is no such value is nobody's to write down.
//
// Source: deepspeed/launcher/multinode_runner.py, add_export and get_cmd, 0.6.0 to 0.19.8. The
// values: NVIDIA/nccl 2.30, parseStringList in misc/utils.cc; torch 2.9,
// ProcessGroupGloo.cpp, which splits at commas.
var grammars = []struct{ names, value *regexp.Regexp }{
	{named(`NCCL_SOCKET_IFNAME`), value(`\^?=?` + listOf(interfaceName))},
	{named(`(GLOO|TP)_SOCKET_IFNAME`), value(listOf(interfaceName))},
	{named(`NCCL_IB_HCA`), value(`\^?=?` + listOf(`[A-Za-z0-9][\w.-]*(:\d+)?`))},
	{named(`NCCL_IB_GID_INDEX|MASTER_PORT|NCCL_IB_DISABLE|NCCL_CUMEM_HOST_ENABLE`), value(`\d{1,9}`)},
	{named(`MASTER_ADDR`), value(`[\w:][\w.:-]*`)},
	{named(`CUDA_HOME|TORCH_EXTENSIONS_DIR|TRITON_CACHE_DIR|TORCHINDUCTOR_CACHE_DIR`), value(path)},
	{named(`PATH|LD_LIBRARY_PATH`), value(path + `(:` + path + `)*`)},
	{named(`[A-Za-z_]\w*`), value(`[\w@+=:,./^-]*`)}, // pdsh puts names in place of %h and the like
}

const (
	interfaceName = `[A-Za-z0-9][\w.:-]{0,14}` // the kernel's own are: renamed ones may be anything without "/" and blanks
	path          = `/[\w@+=,./-]*`
)

func listOf(entry string) string { return entry + `(,` + entry + `)*` }

func named(names string) *regexp.Regexp { return regexp.MustCompile(`^(` + names + `)$`) }

func value(grammar string) *regexp.Regexp { return regexp.MustCompile(`^(` + grammar + `)$`) }

// Exportable is whether a variable may be exported with a value: whether it is one that the
// variable takes.
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

// NotExported says why a variable is not, and what to do instead.
func NotExported(variable string) string {
	if strings.HasSuffix(variable, "_SOCKET_IFNAME") {
		return renamed
	}
	return byHand
}

// refused is that as a fix.
func refused(variable string) fix.Command {
	if NotExported(variable) == renamed {
		return fix.Note("no command sets %s: "+renamed, fix.Variable(variable))
	}
	return fix.Note("no command sets %s: "+byHand, fix.Variable(variable))
}

// ExportLine sets a variable for every rank of the launch, where its value can be exported.
func ExportLine(p launch.Prediction, name, value string) fix.Command {
	switch {
	case !Exportable(name, value):
		return refused(name)
	case p.Torchrun():
		return fix.Here("export %s   # in the shell of every node that starts torchrun", fix.Setting{Variable: name, Value: value})
	}
	return fix.Here("echo %s >> ~/.deepspeed_env", fix.Setting{Variable: name, Value: value})
}
