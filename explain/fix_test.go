// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks/fix"
)

func TestRoles(t *testing.T) {
	f := &finding{}
	var got []string
	for _, line := range []string{
		"ssh w2 'df -h /dev/shm; ls -l /dev/shm'",
		"ssh NODE true   # prints the reason",
		"docker run --shm-size=8g …   # or --ipc=host",
		"ssh w2 reboot",
		"ssh w2 'modprobe -r nvidia_uvm; modprobe nvidia_uvm; ls -l /dev/nvidia-uvm'",
		"preflight hang -H hostfile",
		"export NCCL_SOCKET_IFNAME=INTERFACE   # on all nodes",
		"DataLoader(num_workers=0)   # in the script",
		`echo "$PATH"`,
		"echo ssh > /etc/pdsh/rcmd_default",
		"ssh -t w2",
	} {
		f.addFix(line)
	}
	for i, role := range f.Roles {
		got = append(got, string(role)+map[bool]string{true: " complete"}[f.Complete[i]])
	}
	want := []string{"look complete", "look", "fix", "or complete", "or complete", "look complete", "or", "or", "look complete", "or complete", "or complete"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFixesToComplete checks that every word in capitals in a command either is a known placeholder,
// so that the command counts as incomplete, or is listed here. It also checks that no command that
// changes something counts as one that only reads.
func TestFixesToComplete(t *testing.T) {
	word := regexp.MustCompile(`(?:^|[ :=@/'"])([A-Z]{2,}(?:_[A-Z]+)*)(?:[ :/'".,;|]|$)`)
	known := []string{"NET", "NVRM", "DETAIL", "SIGTERM", "ECC", "CAP", "IPC_LOCK"}
	for _, line := range allFixes(t) {
		f := &finding{}
		f.addFix(Plain([]string{line})[0])
		command, _, _ := strings.Cut(f.Fix[0], "   # ")
		for _, found := range word.FindAllStringSubmatch(command, -1) {
			if f.Complete[0] && !slices.Contains(known, found[1]) && !strings.HasPrefix(command, "unset ") {
				t.Errorf("%s: is %s a placeholder? Then add it to incomplete in tables.yaml", command, found[1])
			}
		}
		if changes := regexp.MustCompile(`\b(?:reboot|rm -[rf]|(?:re)?start|install|modprobe|usermod|mount -o)\b`); changes.MatchString(command) && f.Roles[0] == fix.Look {
			t.Errorf("%s counts as a command that only reads", command)
		}
	}
}

// allFixes returns all lines of fixes in the tables, each once.
func allFixes(t *testing.T) (lines []string) {
	c := signatures(t)
	for _, cause := range c.Causes {
		lines = append(lines, cause.Fix...)
	}
	for _, family := range c.Families {
		for _, s := range family.Signatures {
			lines = append(lines, s.Fix...)
			for _, beside := range s.Beside {
				lines = append(lines, beside.Fix...)
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// TestFixesOfTheLauncher checks that commands of another launcher are left out only if the log shows
// which launcher ran and the table has a command of that one.
func TestFixesOfTheLauncher(t *testing.T) {
	const (
		taken     = "RuntimeError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"
		torchrun  = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
		deepspeed = "w1: [2024-05-04 11:13:32,960] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4711\n"
		run       = "Traceback (most recent call last):\n  File \"/venv/torch/distributed/run.py\", line 936, in main\n    run(args)\n"
		mpirun    = "The user (10017) is unknown to the system (i.e. there is no corresponding\n"
	)
	for log, want := range map[string]string{
		taken:                        "deepspeed torchrun",
		taken + torchrun:             "torchrun",
		run + taken:                  "torchrun",
		deepspeed + taken:            "deepspeed",
		deepspeed + taken + torchrun: "deepspeed torchrun",
		taken + mpirun:               "deepspeed torchrun",
	} {
		r := signatures(t).Explain([]Source{read("log", log)})
		var got []string
		for _, cause := range r.Causes {
			for _, line := range cause.Fix {
				if first := strings.Fields(line)[0]; cause.Cause == "master-port-in-use" && (first == "deepspeed" || first == "torchrun") {
					got = append(got, first)
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", log, got, want)
		}
	}
}

// TestLauncherFailed tells an exception of a launcher from one of the program.
func TestLauncherFailed(t *testing.T) {
	const (
		head   = "Traceback (most recent call last):\n"
		record = "  File \"/venv/torch/distributed/elastic/multiprocessing/errors/__init__.py\", line 357, in wrapper\n    return f(*args, **kwargs)\n"
		run    = "  File \"/venv/bin/torchrun\", line 8, in <module>\n    sys.exit(main())\n" + record + "  File \"/venv/torch/distributed/run.py\", line 936, in main\n    run(args)\n"
		script = "  File \"/job/train.py\", line 8, in <module>\n    main()\n"
		raised = "ValueError: Unsupported nproc_per_node value: two\n"
	)
	prefixed := "w2: " + strings.ReplaceAll(strings.TrimSpace(head+run+raised), "\n", "\nw2: ") + "\n"
	for log, want := range map[string]string{
		head + run + raised:             "torchrun",
		head + script + record + raised: "",
		head + script + raised:          "",
		raised:                          "",
		prefixed:                        "torchrun",
		head + script + raised + head + run + "KeyError: 'a'\n":                                                               "",
		head + "  File \"/venv/accelerate/commands/launch.py\", line 9, in main\n    launch()\n" + run + raised:               "torchrun",
		head + "  File \"/venv/accelerate/commands/launch.py\", line 9, in main\n    launch()\n" + raised:                     "accelerate",
		head + "  File \"/venv/deepspeed/launcher/runner.py\", line 9, in main\n    main()\n" + "TypeError: main() takes 1\n": "deepspeed",
	} {
		r := signatures(t).Explain([]Source{read("log", log)})
		if r.Program == nil || r.Program.Launcher != want {
			t.Errorf("%s is of launcher %q: %+v", log, want, r.Program)
		}
	}
}
