// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"testing"

	"preflight/facts"
	"preflight/hostfile"
)

// saidOf returns DeepSpeed's error for a command, "" if DeepSpeed accepts the command.
func saidOf(t *testing.T, o Options, head *facts.Node) string {
	t.Helper()
	_, err := Predict(o, head)
	if err == nil {
		return ""
	}
	if filter, ok := errors.AsType[*hostfile.FilterError](err); ok {
		return filter.DeepSpeed
	}
	usage, ok := errors.AsType[*UsageError](err)
	if !ok || usage.Message == "" || usage.Program != ProgramDeepSpeed {
		t.Fatalf("%v is no word of DeepSpeed", err)
	}
	return usage.Original
}

// TestPredictRefuses: each row was also run through the real runner.py and multinode_runner.py of
// that release.
func TestPredictRefuses(t *testing.T) {
	limit := func(o *Options) { o.Filter.NumNodes = hostfile.AtMost(0) }
	include := func(o *Options) { o.Filter.Include = "w1:0@w2:0" }
	unequal := func(o *Options) { o.Hosts = hosts(1, 2) }
	port := func(o *Options) { o.SSHPort = 22 }
	byHand := func(rank int) func(*Options) {
		return func(o *Options) { o.NoSSH, o.NodeRank = true, rank }
	}
	elastic := func(o *Options) { o.Elastic = true }
	arguments := func(words ...string) func(*Options) {
		return func(o *Options) { o.Arguments = words }
	}
	named := func(name string) func(*Options) {
		return func(o *Options) { o.Hosts[0].Name = name }
	}
	emptied := func(o *Options) { o.Filter.Exclude = "w1@w2" }
	const (
		noHost    = "IndexError: list index out of range"
		noEnv     = "OSError: MPI environment variables are not set. Ensure you are running the script with an MPI-compatible launcher."
		byRank    = "AssertionError: Launching training without ssh, but --node_rank is not set correctly."
		noKey     = "KeyError: 'PDSH_SSH_ARGS_APPEND'"
		openQuote = "ValueError: No closing quotation"
		noPython  = "ValueError: Don't use both the '--no_python' flag and the '--module' flag at the same time."
	)
	for _, c := range []struct {
		name, release, launcher string
		change                  func(*Options)
		head                    *facts.Node
		want                    string
	}{
		{"a filter, pdsh", "", "pdsh", include, seen(), ""},
		{"a filter, openmpi", "", "openmpi", include, seen(), "ValueError: openmpi backend does not support worker include/exclusion"},
		{"a filter, impi", "", "IMPI", include, seen(), "ValueError: impi backend does not support worker include/exclusion"},
		{"a limit, mpich", "", "mpich", limit, seen(), "ValueError: mpich backend does not support limiting num nodes/gpus"},
		{"a limit, slurm", "", "slurm", limit, seen(), ""},
		{"unknown", "", "ssh", nil, seen(), "NotImplementedError: Unknown launcher ssh"},
		{"unknown and not needed", "", "ssh", func(o *Options) { o.Hosts = o.Hosts[:1] }, seen(), ""},
		{"impi, not there yet", "0.9.2", "impi", nil, seen(), "NotImplementedError: Unknown launcher impi"},
		{"impi, there", "0.9.3", "impi", nil, seen(), ""},
		{"mpich, not there yet", "0.8.1", "mpich", nil, seen(), "NotImplementedError: Unknown launcher mpich"},
		{"mpich, there", "0.8.2", "mpich", nil, seen(), ""},
		{"slurm, not there yet", "0.7.3", "slurm", nil, seen(), "NotImplementedError: Unknown launcher slurm"},
		{"slurm, there", "0.7.4", "slurm", nil, seen(), ""},

		{"unequal, pdsh", "", "pdsh", unequal, seen(), ""},
		{"unequal, openmpi", "", "openmpi", unequal, seen(), ""},
		{"unequal, mpich", "0.9.3", "mpich", unequal, seen(), "ValueError: MPICH requires same number of devices per node"},
		{"unequal, mpich before", "0.9.2", "mpich", unequal, seen(), ""},
		{"unequal, impi", "", "impi", unequal, seen(), "ValueError: Intel MPI requires same number of devices per node"},
		{"unequal, mvapich", "", "mvapich", unequal, seen(), "ValueError: mvapich requires same number of devices per node"},
		{"unequal, slurm", "", "slurm", unequal, seen(), "ValueError: slurm backend needs the same slot count on every host, got {'w1': 1, 'w2': 2}."},
		{"unequal, slurm, odd name", "", "slurm", func(o *Options) { unequal(o); named("\ufeffw1")(o) }, seen(), `ValueError: slurm backend needs the same slot count on every host, got {'\ufeffw1': 1, 'w2': 2}.`},
		{"autotuning comes first", "", "slurm", func(o *Options) { unequal(o); o.Autotuning, o.NoSSH = "run", true }, seen(), ""},
		{"unequal, slurm, the first", "0.19.7", "slurm", unequal, seen(), "ValueError: slurm backend needs the same slot count on every host, got {'w1': 1, 'w2': 2}."},
		{"unequal, slurm before", "0.19.6", "slurm", unequal, seen(), ""},
		{"chosen slots, slurm", "", "slurm", func(o *Options) { o.Filter.Include = "w1:1" }, seen(),
			"ValueError: slurm backend cannot select specific device ids, got [1] on w1. Filter whole hosts, or keep the first N slots on every host."},

		{"openmpi, not yet", "0.16.3", "openmpi", nil, seen(), ""},
		{"openmpi in openmpi", "0.16.4", "openmpi", limit, seen(), noEnv},
		{"openmpi started by it", "0.18.3", "openmpi", nil, seen("OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"), ""},
		{"openmpi half started by it", "0.18.3", "openmpi", nil, seen("OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_RANK=0"), noEnv},
		{"openmpi, nobody looked", "0.18.3", "openmpi", nil, nil, ""},
		{"openmpi mended", "0.18.4", "openmpi", nil, seen(), ""},

		{"a port, not appended", "0.10.3", "pdsh", port, seen(), ""},
		{"a port, nothing to append to", "0.11.0", "pdsh", port, seen(), noKey},
		{"a port, something to append to", "0.11.0", "pdsh", port, seen("PDSH_SSH_ARGS_APPEND="), ""},
		{"a port, nobody looked", "0.14.0", "pdsh", port, nil, ""},
		{"a port, mended", "0.14.1", "pdsh", port, seen(), ""},
		{"a port, another launcher", "0.14.0", "openmpi", port, seen(), ""},

		{"by hand, no rank", "", "", byHand(-1), seen(), byRank},
		{"by hand, no such rank", "", "", byHand(2), seen(), byRank},
		{"by hand", "", "openmpi", byHand(1), seen(), ""},
		{"by hand, nobody left", "", "", func(o *Options) { byHand(5)(o); emptied(o) }, seen(), byRank},
		{"by hand, nobody left to ask", "", "", func(o *Options) { byHand(5)(o); emptied(o); o.MasterAddr = "" }, seen(), noHost},
		{"nobody left", "", "", emptied, seen(), noHost},
		{"nobody left and nobody asked", "", "", func(o *Options) { emptied(o); o.NoSSHCheck = true }, seen(), noHost},
		{"nobody left, another mistake", "", "ssh", func(o *Options) { emptied(o); o.Filter.ForceMulti = true }, seen(), noHost},
		{"nobody left and nobody asked, another mistake", "", "ssh", func(o *Options) { emptied(o); o.NoSSHCheck, o.Filter.ForceMulti = true, true }, seen(), "NotImplementedError: Unknown launcher ssh"},
		{"another filter", "", "", func(o *Options) { byHand(5)(o); o.Filter.Exclude = "w9" }, seen(), "Hostname 'w9' not found in hostfile"},

		{"elastic", "0.19.7", "", elastic, seen(), ""},
		{"elastic, no address", "0.19.7", "", func(o *Options) { elastic(o); o.MasterAddr = ""; o.Filter.Include = "w9" }, seen(), "AssertionError: Master Addr is required when elastic training is enabled"},
		{"elastic, no local rank", "0.19.7", "", func(o *Options) { elastic(o); o.NoLocalRank = true }, seen(), "AssertionError: --no_local_rank argument is not supported in Elastic training"},

		{"a quote in the first name", "", "pdsh", named("w'1"), seen(), openQuote},
		{"a quote in the only name", "", "pdsh", func(o *Options) { named("w'1")(o); o.Hosts = o.Hosts[:1] }, seen(), openQuote},
		{"a quote, only the address is asked for", "", "pdsh", func(o *Options) { named("w'1")(o); o.NoSSHCheck, o.MasterAddr = true, "" }, seen(), openQuote},
		{"a quote, nobody is asked", "", "pdsh", func(o *Options) { named("w'1")(o); o.NoSSHCheck = true }, seen(), ""},
		{"a quote, nobody is asked by hand", "", "pdsh", func(o *Options) { named("w'1")(o); byHand(0)(o) }, seen(), ""},
		{"a quote, the first that splits", "0.15.2", "pdsh", named("w'1"), seen(), openQuote},
		{"a quote for a shell", "0.15.1", "pdsh", named("w'1"), seen(), ""},
		{"a backslash", "0.15.2", "pdsh", named(`w1\`), seen(), ""},

		{"launcher_args", "", "pdsh", func(o *Options) { o.LauncherArgs = "'x" }, seen(), openQuote},
		{"launcher_args of openmpi", "0.6.6", "openmpi", func(o *Options) { o.LauncherArgs = "'x" }, seen(), openQuote},
		{"launcher_args that nobody reads", "0.8.0", "pdsh", func(o *Options) { o.LauncherArgs = "'x" }, seen(), ""},
		{"arguments not split yet", "0.10.0", "pdsh", arguments("it's"), seen(), ""},
		{"arguments split again", "0.10.1", "pdsh", arguments("it's"), seen(), openQuote},
		{"arguments quoted and split again", "0.12.3", "pdsh", arguments("it's"), seen(), openQuote},
		{"in the other quotes", "0.12.4", "pdsh", arguments("it's"), seen(), ""},
		{"unquoted", "0.10.2", "pdsh", arguments("a'b", "c'd"), seen(), ""},
		{"the last in the other quotes", "0.12.4", "pdsh", arguments(`say "`), seen(), openQuote},
		{"arguments left alone", "0.12.5", "pdsh", arguments(`say "`), seen(), ""},

		// The runner accepts these commands, and launch.py refuses them on every node.
		{"a module and a program", "", "pdsh", func(o *Options) { o.Module, o.NoPython = true, true }, seen(), noPython},
		{"a module and a program, openmpi", "", "openmpi", func(o *Options) { o.Module, o.NoPython = true, true }, seen(), ""},
	} {
		o := job(c.launcher, c.change)
		o.DeepSpeed = c.release
		if got := saidOf(t, o, c.head); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestPredictRefusesNothingOfTorchrun: DeepSpeed's rules do not apply to torchrun, which has its
// own.
func TestPredictRefusesNothingOfTorchrun(t *testing.T) {
	o := job("ssh", func(o *Options) { o.Rendezvous, o.Elastic, o.MasterAddr = RendezvousStatic, true, "" })
	if got := saidOf(t, o, nil); got != "" {
		t.Errorf("%q", got)
	}
}
