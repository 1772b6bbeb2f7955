// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"preflight/hostfile"
)

// DeepSpeedRefuses returns an error with DeepSpeed's own message (original) and preflight's
// message, which says what to do.
func DeepSpeedRefuses(original, format string, values ...any) *UsageError {
	return &UsageError{Program: ProgramDeepSpeed, Original: original, Message: fmt.Sprintf(format, values...)}
}

// scriptArguments returns the script's arguments as the runner passes them on. Some releases joined
// the arguments and split them again (runner.py, parse_args, v0.10.1 to v0.12.4).
func (r runner) scriptArguments() ([]string, error) {
	if !r.within("0.10.1", "0.12.5") {
		return r.Arguments, nil
	}
	quote := `"`
	switch {
	case r.before("0.10.3"):
		quote = ""
	case r.before("0.12.4"):
		quote = "'"
	}
	var words []string
	for _, argument := range r.Arguments {
		if !strings.HasPrefix(argument, "-") {
			argument = quote + argument + quote
		}
		words = append(words, argument)
	}
	arguments, err := SplitWords(strings.Join(words, " "))
	if err != nil {
		return nil, DeepSpeedRefuses("ValueError: "+err.Error(), "DeepSpeed 0.10.1 to 0.12.4 splits the script's arguments again like a shell, and their quotes are not closed: remove them, or use a newer DeepSpeed")
	}
	return arguments, nil
}

// Refused returns the [*UsageError] with which DeepSpeed refuses a command before it reads the
// hostfile, nil if it accepts the command. For torchrun it returns nil. [Predict] returns the same
// error.
func (o Options) Refused() error {
	if o.isTorchrun() {
		return nil
	}
	if _, err := (runner{Options: o}).scriptArguments(); err != nil {
		return err
	}
	if o.Elastic && o.MasterAddr == "" {
		return DeepSpeedRefuses("AssertionError: Master Addr is required when elastic training is enabled", "--elastic_training needs --master_addr: give the address of the first host")
	}
	return nil
}

// refused returns the runner's first error once it knows the hosts, in the runner's own order.
// [ParseEnvFile] covers .deepspeed_env, and only the launching machine can show whether the
// launcher is installed.
//
// Source: deepspeed/launcher/runner.py, main, and multinode_runner.py, v0.6.0 to 0.19.8.
func (r *runner) refused() error {
	if err := r.firstHostRefused(); err != nil {
		return err
	}
	if r.Autotuning != "" { // autotuning starts deepspeed again with its own options
		return nil
	}
	if r.by.refusesHosts != nil {
		if err := r.by.refusesHosts(*r); err != nil {
			return err
		}
	}
	if r.Elastic && r.NoLocalRank {
		return DeepSpeedRefuses("AssertionError: --no_local_rank argument is not supported in Elastic training", "--elastic_training and --no_local_rank conflict: drop one")
	}
	if r.NoSSH && (r.NodeRank < 0 || r.NodeRank >= len(r.active)) {
		return DeepSpeedRefuses("AssertionError: Launching training without ssh, but --node_rank is not set correctly.",
			"--no_ssh needs --node_rank, from 0 to %d here and a different number on every host", len(r.active)-1)
	}
	if !r.isLocal() {
		if err := r.launcherRefused(); err != nil {
			return err
		}
		var err error
		if r.words, err = r.splitLauncherArgs(); err != nil {
			return err
		}
	}
	if r.Module && r.NoPython && (r.isLocal() || r.by.LaunchPy) {
		return DeepSpeedRefuses("ValueError: Don't use both the '--no_python' flag and the '--module' flag at the same time.", "--module and --no_python conflict, and every node would refuse them: drop one")
	}
	return nil
}

// firstHostRefused returns an error if the first host's name breaks the ssh command with which the
// runner contacts that host. Since v0.15.2 the runner splits the ssh command as a shell does.
func (r runner) firstHostRefused() error {
	if r.before("0.15.2") || !r.asksFirst() || len(r.active) == 0 {
		return nil
	}
	name := r.active[0].Name
	if _, err := SplitWords(name + " hostname"); err != nil {
		return DeepSpeedRefuses("ValueError: "+err.Error(), "DeepSpeed splits its ssh command to %q like a shell, and the quotes in that name are not closed: rename the host in ~/.ssh/config", name)
	}
	return nil
}

// asksFirst reports whether the runner contacts the first host over ssh, with any launcher
// (runner.py, main).
func (r runner) asksFirst() bool {
	return !r.isTorchrun() && (!r.NoSSH && !r.NoSSHCheck || r.MasterAddr == "")
}

// refusedWithoutHosts returns the runner's error if a filter leaves no host. If the runner does not
// contact the first host, it fails later, in launch.py.
func (r runner) refusedWithoutHosts(err error) error {
	filter, ok := errors.AsType[*hostfile.FilterError](err)
	if !ok || !filter.NoneLeft || r.MasterAddr == "" || !r.NoSSH && !r.NoSSHCheck {
		return nil
	}
	return r.refused()
}

func joined(slots []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(slots), "[]"), " ", ", ")
}

func (r *runner) launcherRefused() error {
	if r.by.Name == "" || r.before(r.by.since) {
		known := slices.DeleteFunc(slices.Clone(Launchers), func(l Launcher) bool { return r.before(l.since) })
		return DeepSpeedRefuses("NotImplementedError: Unknown launcher "+r.launcher, "there is no launcher %q: use one of %s", r.launcher, strings.Join(launcherNames(known), ", "))
	}
	if r.by.refuses != nil {
		if err := r.by.refuses(*r); err != nil {
			return err
		}
	}
	switch {
	case r.by.wholeHostfile && (r.Filter.Include != "" || r.Filter.Exclude != ""):
		return DeepSpeedRefuses(fmt.Sprintf("ValueError: %s backend does not support worker include/exclusion", r.launcher),
			"--launcher %s always uses the whole hostfile, without --include and --exclude: write a hostfile with the hosts that you want", r.launcher)
	case r.by.wholeHostfile && (r.Filter.NumNodes.Given || r.Filter.NumGPUs.Given):
		return DeepSpeedRefuses(fmt.Sprintf("ValueError: %s backend does not support limiting num nodes/gpus", r.launcher),
			"--launcher %s always uses the whole hostfile, without --num_nodes and --num_gpus: write a hostfile with the hosts and slots that you want", r.launcher)
	case r.by.evenName != "" && !r.before(r.by.evenSince) && !sameSlots(r.Hosts):
		return DeepSpeedRefuses(fmt.Sprintf("ValueError: %s requires same number of devices per node", r.by.evenName),
			"--launcher %s starts the same number of ranks on every host, but the hostfile's slots differ: make them equal, or use --launcher pdsh", r.launcher)
	}
	return nil
}

func (r runner) has(name string) bool {
	_, set := Lookup(r.env, name)
	return set
}

func (r runner) splitLauncherArgs() ([]string, error) {
	if r.dropsLauncherArgs() {
		return nil, nil
	}
	words, err := SplitWords(r.LauncherArgs)
	if err != nil {
		return nil, DeepSpeedRefuses("ValueError: "+err.Error(), "--launcher_args %q are split like a shell command, and their quotes are not closed", r.LauncherArgs)
	}
	return words, nil
}

func (r runner) dropsLauncherArgs() bool { return r.before(r.by.argsSince) }

// UsageError describes a command line that its program refuses.
type UsageError struct {
	Program  string // name of the program: "deepspeed"
	Message  string // what is wrong and what to do
	Original string // the program's own error message; "" if the program would continue
}

func (e *UsageError) Error() string { return e.Program + ": " + e.Message }
