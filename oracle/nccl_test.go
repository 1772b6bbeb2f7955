// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/nccl"
	"preflight/probe"
	"preflight/probe/python"
)

// TestNCCL asks real NCCL libraries which interface their bootstrap uses, and compares the answer
// with launch's prediction. Some networks were chosen by a person, and others are random. The test
// needs no GPU, because ncclGetUniqueId chooses the interface before it looks for a GPU.
func TestNCCL(t *testing.T) {
	t.Parallel()
	if !inOwnNamespaces(t) {
		return
	}
	if err := os.WriteFile("/etc/hosts", []byte(names), 0o644); err != nil {
		t.Fatal(err)
	}
	libraries := ncclLibraries(t)
	for _, p := range slices.Concat(puzzles, randomPuzzles(34, 6)) {
		node := p.network.plumb(t)
		for _, library := range libraries {
			library.solve(t, p, node)
		}
	}
	for _, l := range libraries {
		t.Logf("NCCL %s: %d cases, in %d of them it dies", l.version, l.cases, l.dies)
		if l.cases < 200 || l.dies < l.cases/10 || l.dies > l.cases/2 {
			t.Error("that is not what the cases are meant to be")
		}
	}
}

// ncclLibrary is one NCCL library with the results of its cases.
type ncclLibrary struct {
	python, path string
	version      string
	cases, dies  int
}

// ncclLibraries returns the NCCL libraries that were installed with the releases of torch. Debian's
// torch has no NCCL.
func ncclLibraries(t *testing.T) []*ncclLibrary {
	t.Helper()
	var all []*ncclLibrary
	for _, r := range releases()[1:] {
		venv := filepath.Join(filepath.Dir(r.python), "..")
		found, err := filepath.Glob(filepath.Join(venv, "lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"))
		if err != nil || len(found) != 1 {
			t.Fatalf("the NCCL of torch %s is needed: run oracle/setup.sh: %v, %v", r.name, found, err)
		}
		all = append(all, &ncclLibrary{python: r.python, path: found[0]})
	}
	return all
}

var (
	usingLine = regexp.MustCompile(`Bootstrap ?: Using ([^\s:]+):([^\s<%]+)`) // for example eth0:fe80::1%eth0<0>
	warnLine  = regexp.MustCompile(`NCCL WARN .*`)
)

// solve lets the library choose an interface in every environment, and compares the choices with
// launch's predictions.
func (l *ncclLibrary) solve(t *testing.T, p puzzle, node *facts.Node) {
	t.Helper()
	var outputs []string
	l.version, outputs = answers[string](t, p.envs, l.python, "nccl.py", l.path)
	for i, output := range outputs {
		l.cases++
		predicted := predictNCCL(node, l.version, p.envs[i])
		using := usingLine.FindStringSubmatch(output)
		agree := using != nil && predicted.Error == "" && predicted.Interface == using[1] && predicted.Address == using[2]
		if using == nil {
			l.dies++
			agree = predicted.Error != "" && slices.ContainsFunc(warnLine.FindAllString(output, -1), func(warning string) bool {
				return strings.Contains(warning, predicted.Error)
			})
		}
		if !agree {
			t.Errorf("NCCL %s on %q with %q: predicted is %+v, but it says\n%s", l.version, p.network, p.envs[i], predicted, output)
		}
	}
}

// TestNCCLHasCodeForGPUs compares the GPU code that preflight finds in real NCCL libraries with the
// code that NCCL's makefile builds for the CUDA release. The makefile is makefiles/common.mk, with
// CUDA11_GENCODE and similar variables.
func TestNCCLHasCodeForGPUs(t *testing.T) {
	for _, library := range ncclLibraries(t) {
		seen, err := python.CollectPython(t.Context(), probe.Options{Interpreter: library.python, WorkDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		first := seen.NCCL[0]
		t.Logf("NCCL %s of CUDA %s: %s", first.Version, first.CUDA, strings.Join(first.Code, " "))
		want := "sm_80 sm_90"
		if hostfile.Before("12.7", first.CUDA) {
			want += " sm_100 sm_120"
		}
		for _, each := range strings.Fields(want) {
			if !slices.Contains(first.Code, each) {
				t.Errorf("%s lacks %s", first.Path, each)
			}
		}
	}
}

// predictNCCL returns launch's prediction for a node with the given NCCL version and environment.
func predictNCCL(node *facts.Node, version string, settings []string) nccl.Choice {
	ranks := *node
	ranks.Python = &facts.Python{NCCL: []facts.NCCLLibrary{{Version: version}}}
	ranks.Env = &facts.Env{}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		ranks.Env.Vars = append(ranks.Env.Vars, facts.Setting{Name: name, Value: value, Source: "environment"})
	}
	return nccl.Bootstrap(launch.Prediction{}, &ranks)
}

// puzzle is a network with the environments to try on it.
type puzzle struct {
	network network
	envs    [][]string
}

func ifnames(values ...string) [][]string { return each("NCCL_SOCKET_IFNAME=", values) }

func commIDs(values ...string) [][]string { return each("NCCL_COMM_ID=", values) }

// each returns one environment for each value, preceded by an environment without settings.
func each(prefix string, values []string) [][]string {
	envs := [][]string{{}}
	for _, value := range values {
		envs = append(envs, []string{prefix + value})
	}
	return envs
}

// puzzles lists cases in which versions differ, a rule reaches its limit, or a person could be
// wrong.
var puzzles = []puzzle{
	{network{"lo 127.0.0.1/8", "eth0 10.0.0.1/24 fe80::1/64", "eth1 10.1.0.1/24", "eth10 10.2.0.1/24"}, slices.Concat(
		ifnames("eth1", "=eth1", "^eth0", "^=eth1,lo", "eth1,eth0", "=^eth0", " eth1", "eth0, eth1", "eth7,,eth10", "enp", "lo", "e", "", "^", "=",
			"^=", "=,", "eth1:9", strings.Repeat("x,", 16)+"eth1", strings.Repeat("x,", 15)+"eth1"),
		each("NCCL_SOCKET_FAMILY=", []string{"AF_INET", "AF_INET6", "inet", ""}),
		commIDs("10.1.0.7:4000", "10.1.0.7", "192.168.3.4:5", "127.0.0.1:9", "w2:4000", "w2", "w4:1", "gone:1", "localhost:3",
			"", "1", ":4000", ",10.1.0.7:5", "[fe80::9]:1", "[fe80::9%eth0]:1", "[fe80::9%eth1]:1", "[fd00::1:4000"),
		[][]string{{"NCCL_COMM_ID=10.1.0.7:4000", "NCCL_SOCKET_IFNAME=eth0"}, {"NCCL_COMM_ID=192.168.3.4:5", "NCCL_SOCKET_IFNAME=eth0"}},
	)},
	{network{"lo 127.0.0.1/8", "docker0 172.17.0.1/16", "eth0 10.0.0.1/24"}, ifnames("d", "docker", "^docker")},
	{network{"lo 127.0.0.1/8", "br-12 172.18.0.1/16", "tailscale0 100.64.0.1/32", "eth0 10.0.0.1/24"}, ifnames("eth", "tail,eth")},
	{network{"lo 127.0.0.1/8", "eth0 10.0.0.1/24", "ib0 10.9.0.1/24"}, ifnames("ib", "^ib")},
	{network{"lo 127.0.0.1/8", "eth0 10.0.0.1/24", "ib0 fe80::2/64"}, each("NCCL_SOCKET_FAMILY=", []string{"AF_INET"})},
	{network{"lo 127.0.0.1/8", "eth0 10.0.0.1/24", "ib0"}, ifnames("ib")},
	{network{"lo 127.0.0.1/8", "docker0 172.17.0.1/16"}, ifnames()},
	{network{"lo 127.0.0.1/8"}, each("NCCL_SOCKET_FAMILY=", []string{"AF_INET6"})},
	{network{"lo 127.0.0.1/8 10.9.9.9/32", "local0 10.0.0.1/24"}, commIDs("10.9.9.9:1", "10.0.0.3:1")},
	{network{"lo 127.0.0.1/8", "virbr0 192.168.122.1/24", "eth0 10.0.0.1/24"}, ifnames("virbr", "^docker,lo")},
	{network{"virbr0 192.168.122.1/24"}, ifnames()},
	{network{"lo 127.0.0.1/8", "virbr0 192.168.122.1/24"}, ifnames()},
	{network{"eth0", "eth1"}, ifnames("eth")},
	{network{"lo 127.0.0.1/8", "eth0 fd01::1/64", "eth1 10.1.0.1/24"}, slices.Concat(ifnames("eth0"), commIDs("[fd01::9]:1", "[fd01::9]", "w6:1"))},
	{network{"lo 127.0.0.1/8", "eth0 10.0.0.1/24 10.0.0.2/24 10.5.0.1/16"}, commIDs("10.0.0.9:1", "10.5.0.9:1")},
	{network{"lo 127.0.0.1/8", "~eth0 10.0.0.1/24", "eth1 10.1.0.1/24"}, slices.Concat(ifnames("eth0", "^eth1"), commIDs("10.0.0.9:1"))},
	{network{"lo 127.0.0.1/8", "!eth0 10.0.0.1/24", "eth1 10.1.0.1/24"}, slices.Concat(ifnames("eth0", "^eth1"), commIDs("10.0.0.9:1"))},
}

// randomPuzzles returns the same puzzles in every run.
func randomPuzzles(networks, envs int) []puzzle {
	r := rand.New(rand.NewPCG(2, 30))
	all := make([]puzzle, networks)
	for i := range all {
		all[i].network = randomNetwork(r)
		for range envs {
			all[i].envs = append(all[i].envs, randomEnv(r))
		}
	}
	return all
}

func randomNetwork(r *rand.Rand) network {
	names := []string{"eth0", "eth1", "eth10", "ib0", "ibs1f0", "docker0", "docker_gw", "virbr0", "br-12", "enp3s0", "tailscale0", "local0", "idrac"}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	all := network{pick(r, "", "!", "", "", "", "") + "lo 127.0.0.1/8"}
	for i, name := range names[:r.IntN(7)] {
		words := []string{pick(r, "", "", "", "", "~", "!") + name}
		for j := range pick(r, 0, 1, 1, 1, 2) {
			words = append(words, fmt.Sprintf("10.%d.%d.%d/%d", r.IntN(4), i, 10*j+1+r.IntN(9), pick(r, 8, 16, 24, 24)))
		}
		if pick(r, true, false, false) {
			words = append(words, fmt.Sprintf("fd0%d::%x/64", r.IntN(4), 16*i+1+r.IntN(9)))
		}
		if pick(r, true, false) {
			words = append(words, fmt.Sprintf("fe80::%x/64", i+1))
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}

func randomEnv(r *rand.Rand) []string {
	settings := []string{}
	if pick(r, true, false) {
		settings = append(settings, "NCCL_SOCKET_IFNAME="+pick(r, "", "e", "eth", "eth1", "=eth1", "^eth", "^docker,lo", "^=eth0,docker0", "=^eth0",
			"ib", "lo", "=", "^", "docker,eth0", " eth0", "enp,,tail", "eth0:3", "^ib,docker"))
	}
	if pick(r, true, false, false, false) {
		settings = append(settings, "NCCL_SOCKET_FAMILY="+pick(r, "AF_INET", "AF_INET6", "inet", ""))
	}
	if pick(r, true, false, false, false) {
		settings = append(settings, "NCCL_COMM_ID="+pick(r, "10.1.0.7:4000", "10.0.3.3:1", "192.168.3.4:5", "[fd01::77]:4000", "[fd02::1",
			"[fe80::9%eth0]:1", "w2:4000", "w4:7", "gone:7", "localhost:3", "", "1", "10.2.1.1", ",10.0.0.1:5", ":4000", "127.0.0.1:9"))
	}
	return settings
}
