// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
)

// command is a `deepspeed …` command with all files and variables that it reads.
type command struct {
	Argv        []string          `json:"argv"` // arguments after `deepspeed`
	Env         map[string]string `json:"env"`
	Files       map[string][]byte `json:"files"` // contents of files, by path below the directory of the release
	Python      string            `json:"python"`
	Accelerator string            `json:"accelerator"`
	Devices     int               `json:"devices"`
}

// dealer generates commands like those of a person who knows the options but makes mistakes. Most
// of a command is right, and the wrong parts consist of meaningful pieces.
type dealer struct {
	*rand.Rand
	root         string // the directory that contains home and work
	accelerators []string
	devices      []int // possible numbers of devices
	namesEnvFile bool  // DeepSpeed reads DS_ENV_FILE; the probe always reads it
}

// once returns true in one of n cases.
func (d dealer) once(n int) bool { return d.IntN(n) == 0 }

func (d dealer) deal() command {
	c := command{
		Env:         map[string]string{"HOME": filepath.Join(d.root, "home")},
		Files:       map[string][]byte{},
		Python:      pick(d.Rand, "/usr/bin/python3", "/opt/venv/bin/python"),
		Accelerator: pick(d.Rand, d.accelerators...),
		Devices:     pick(d.Rand, d.devices...),
	}
	names := d.names()
	if !d.once(8) {
		c.Files["work/hostfile"] = []byte(d.hostfile(names))
	}
	d.setEnvironment(c.Env)
	d.writeEnvFiles(c)
	c.Argv = d.argv(names)
	if slices.Contains(c.Argv, "impi") || slices.Contains(c.Argv, "--launcher=impi") {
		// With these options DeepSpeed would ask numactl for the cores of this machine.
		c.Argv = slices.DeleteFunc(c.Argv, func(word string) bool { return strings.HasPrefix(word, "--bind_cores") })
	}
	return c
}

// names returns the names of hosts, most of them simple names.
func (d dealer) names() []string {
	names := []string{"w1", "w2", "w3", "w4"}[:1+d.IntN(4)]
	if d.once(4) {
		names[d.IntN(len(names))] = pick(d.Rand,
			"10.0.0.1", "user@w1", "w1.cluster", "localhost", "W1", "w#1", "w:22", "::1", "[::1]", "fe80::1%eth0",
			"n[1-2]", "a,b", "^w", "/w/", "\ufeffw1", "é", "w\u0301", "名", "w\u200b1", `w"1`, `w\1`, "w'1", "slots=2", "w=1")
	}
	return names
}

func (d dealer) hostfile(names []string) string {
	var text strings.Builder
	slots := pick(d.Rand, 1, 2, 4, 8)
	for _, name := range names {
		if d.once(6) {
			slots = d.IntN(5)
		}
		end := pick(d.Rand, "\n", "\n", "\n", "\n", "\n", "\n", "\r\n", "\r", "\n\n", " \n", "")
		fmt.Fprintf(&text, "%s%sslots=%d%s", name, pick(d.Rand, " ", " ", " ", "\t", "  ", "\u00a0", "\v", "\u3000"), slots, end)
		if d.once(20) {
			text.WriteString(d.oddLine() + "\n")
		}
	}
	return text.String()
}

// oddLine returns a line of a hostfile that may be an entry.
func (d dealer) oddLine() string {
	if d.once(2) {
		return pick(d.Rand,
			"# comment", " # comment", "\ufeff# comment", "w5 slots=4 max_slots=8", "w5 slots=4 # c", "w5 slots=4,", "w5 slots=4x", "w5 slots=4.5",
			"w5 slots=1_0", "w5 slots=04", "w5 slots=0", "w5 slots=4 slots=8", "w5 max_slots=8 slots=4", "w5", "w5 slots=", "w5 slots =4",
			"w5 slots= 4", "w5 Slots=4", "w5 slots=-1", "w5 gpus=4", "w5 # slots=4", "w1 slots=2", "w2 slots=2", "slots=4", "\u00a0", "\x1c", "\ufeff",
			"w5 slots=03", "w5 slots=²", "w5=4", "w5 slots=4=4", "w5 =4", "w5 slots=+4", "w5 slots=4_", "w5 slots=\u00a04", "\xff slots=2", "w5 slots=\xff")
	}
	var line strings.Builder
	for range 1 + d.IntN(6) {
		line.WriteString(pick(d.Rand, "w1", "w6", " ", " ", "\t", "\u00a0", "\v", "\u2028", "\u0085", "\x1f", "slots=", "slots", "=", "4", "04", "2", "#", "0",
			"max_slots=8", "-1", ",", "x", "gpus=4", "1_1", "+", "\u180e", "\u200b"))
	}
	return line.String()
}

// setEnvironment adds variables that change a launch.
func (d dealer) setEnvironment(env map[string]string) {
	if d.once(4) {
		return
	}
	for range d.IntN(5) {
		name := pick(d.Rand, "NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES", "UCX_TLS", "MV2_SMP_USE_CMA", "MV2_HOMOGENEOUS_CLUSTER",
			"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHON_VERSION", "LD_LIBRARY_PATH", "PATH", "TORCH_NCCL_BLOCKING_WAIT", "OMP_NUM_THREADS", "MASTER_ADDR",
			"DS_X", "PDSH_SSH_ARGS_APPEND", "PDSH_RCMD_TYPE", "AISC_JOB_NAME", "GLOO_SOCKET_IFNAME")
		env[name] = d.value()
	}
	if d.once(6) {
		env["CUDA_VISIBLE_DEVICES"] = pick(d.Rand, "0", "1", "0,1", "1,0", "", "GPU-8a", "-1", "7")
	}
	if d.once(6) { // the probe does not report such values
		env[pick(d.Rand, "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_URI", "NCCL_PASSWORD", "PYTHON_KEY")] = withheld
	}
}

// withheld is the text that replaces a value that is not in the facts.
const withheld = "…"

func (d dealer) value() string {
	return pick(d.Rand, "1", "INFO", "eth0", "^docker0", "mlx5_0:1,mlx5_1:1", "/a/b:/c", "a b", " pad ", "", "a=b", "a;b", "$HOME", "`id`", `"q"`, `a"b`, "'q'",
		`\`, "100%", "%n", "é", "²", "a\tb", "a\u00a0b", "*", "~", "a@b", "+", "x\u0301", "\u00a0x\u00a0", "_", "3")
}

// writeEnvFiles writes the .deepspeed_env of a home and of a working directory.
func (d dealer) writeEnvFiles(c command) {
	name := ".deepspeed_env"
	if d.namesEnvFile && d.once(10) {
		c.Env["DS_ENV_FILE"] = pick(d.Rand, "own_env", "sub/env", filepath.Join(d.root, "work/own_env"), "~/own_env", "gone", "../home/own_env", "")
		name = pick(d.Rand, name, "own_env", "sub/env")
	}
	for _, directory := range []string{"home", "work"} {
		if d.once(4) {
			c.Files[directory+"/"+name] = []byte(d.envFile())
		}
	}
}

func (d dealer) envFile() string {
	var text strings.Builder
	for range d.IntN(4) {
		name := pick(d.Rand, "NCCL_DEBUG", "NCCL_IB_HCA", "UCX_TLS", "OMP_NUM_THREADS", "PATH", "PYTHONPATH", "DEEPSPEED_TIMEOUT", "MV2_SUPPORT_DL")
		line := name + pick(d.Rand, "=", "=", "=", " = ", "= ") + d.value()
		if d.once(25) {
			line = pick(d.Rand, "", "#…", "#…=…", "NCCL_DEBUG", "export NCCL_DEBUG=INFO", "export  UCX_TLS=tcp", "TOKEN=…", "  ", "MV2_X==", "1A=…", "A-B=…")
		}
		text.WriteString(line + pick(d.Rand, "\n", "\n", "\n", "\n", "\r\n"))
	}
	if d.once(3) {
		return strings.TrimSuffix(text.String(), "\n")
	}
	return text.String()
}

// argv returns a command line, which in most cases can be parsed.
func (d dealer) argv(names []string) []string {
	var argv []string
	if !d.once(8) {
		argv = append(argv, pick(d.Rand, "-H hostfile", "-Hhostfile", "--hostfile=hostfile", "--hostfile hostfile", "-H=hostfile", "--host hostfile"))
		argv = strings.Fields(argv[0])
	}
	if d.once(3) {
		argv = append(argv, d.filter(names)...)
	}
	if d.once(3) {
		argv = append(argv, d.spelled("launcher", pick(d.Rand, "pdsh", "PDSH", "openmpi", "OpenMPI", "mpich", "mpich", "impi", "impi", "mvapich", "mvapich", "slurm", "slurm", "Slurm", "ssh", ""))...)
	}
	if d.once(3) {
		argv = append(argv, d.spelled("master_addr", pick(d.Rand, "10.0.0.1", "w1", "fd00::1", ""))...)
	}
	for range max(0, d.IntN(6)-3) {
		argv = append(argv, d.option()...)
	}
	if d.once(20) {
		i := d.IntN(len(argv) + 1)
		argv = slices.Insert(argv, i, d.garbage())
	}
	if !d.once(50) {
		argv = append(argv, pick(d.Rand, "train.py", "train.py", "train.py", "src/train.py", "/opt/train.py", "my train.py", "train", "-"))
	}
	for range max(0, d.IntN(8)-3) {
		argv = append(argv, d.argument())
	}
	return argv
}

// filter returns options that select hosts and slots.
func (d dealer) filter(names []string) []string {
	if d.once(3) {
		limit := func() string {
			return pick(d.Rand, "1", "2", "3", "1", "2", "1", "2", "3", "1", "2", "1", "2", "3", "0", "-1", "100", "-5", "x", "1.5", "", "02", "1_0", "+2", " 3 ", "0x2", "²", "02")
		}
		option := d.spelled(pick(d.Rand, "num_nodes", "num_gpus", "num_accelerators"), limit())
		if d.once(3) {
			option = append(option, d.spelled(pick(d.Rand, "num_nodes", "num_gpus"), limit())...)
		}
		return option
	}
	var specs []string
	for range 1 + d.IntN(3) {
		specs = append(specs, d.hostSpec(names))
	}
	option := d.spelled(pick(d.Rand, "include", "exclude"), strings.Join(specs, "@"))
	if d.once(15) {
		option = append(option, d.spelled(pick(d.Rand, "include", "exclude", "num_nodes"), pick(d.Rand, names[0], "1", ""))...)
	}
	return option
}

// hostSpec returns one part of --include or --exclude.
func (d dealer) hostSpec(names []string) string {
	spec := pick(d.Rand, names...)
	if d.once(12) {
		spec = pick(d.Rand, "w9", "", " w1", "w1 ", "w[1-2]", "W1", "w1,w2")
	}
	if d.once(3) {
		return spec
	}
	slots := make([]string, 1+d.IntN(3))
	for i := range slots {
		slots[i] = pick(d.Rand, "0", "0", "1", "1", "2", "3")
		if d.once(15) {
			slots[i] = pick(d.Rand, " 1", "1 ", "-1", "01", "1_0", "03", "a", "", "0-2", "+1", "99", "1.0", "_1", "\u00a01", "1__0", "- 1", "1 ", "12", "0 1")
		}
	}
	return spec + pick(d.Rand, ":", ":", ":", ":", ":", ":", ":", ":", ":", "::", ": ", ";") + strings.Join(slots, ",")
}
