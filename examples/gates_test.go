// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNHC checks that a failed check takes a node out of service and that an unknown result does
// not.
func TestNHC(t *testing.T) {
	for name, c := range map[string]struct {
		fleet fleet
		code  int
		said  string
	}{
		"faulty":  {fleet{nodes: "w8"}, 1, "die 1 check_preflight:  PREFLIGHT CRITICAL - "},
		"healthy": {fleet{nodes: "w1"}, 0, ""},
		"dark":    {fleet{nodes: "w6"}, 0, ""},
	} {
		d := newDesk(t, c.fleet)
		// In this test die only prints its message. As in NHC, the function that called die
		// continues and returns.
		out, code := d.run(t, "bash", "-c", `die() { echo "die $*"; }; . "$0"; check_preflight gpu-driver-loads,shm-writable`, absolute(t, "nhc/preflight.nhc"))
		if code != c.code || !strings.HasPrefix(out, c.said) || c.said == "" && out != "" {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s", name, code, c.code, c.said, out)
		}
	}
}

// TestAnsible runs the command of the task. TestConsumerAnsible runs the play with Ansible, if
// Ansible is installed.
func TestAnsible(t *testing.T) {
	var plays []struct {
		Name, Hosts string
		GatherFacts bool `yaml:"gather_facts"`
		Tasks       []struct {
			Name    string
			Command struct{ Argv []string } `yaml:"ansible.builtin.command"`

			Register   string
			Changed    bool   `yaml:"changed_when"`
			FailedWhen string `yaml:"failed_when"`
			Once       bool   `yaml:"run_once"`
			Delegate   string `yaml:"delegate_to"`
		}
	}
	strictly(t, "ansible/preflight.yml", &plays)
	task := plays[0].Tasks[0]
	if !task.Once || task.Delegate != "localhost" || task.FailedWhen != task.Register+".rc != 0" {
		t.Errorf("it runs on every node, or never fails: %+v", task)
	}
	for name, gate := range gates {
		d := newDesk(t, gate.fleet, "hostfile")
		argv := slices.Clone(task.Command.Argv)
		argv[slices.Index(argv, "{{ preflight_hostfile | default('hostfile') }}")] = "hostfile"
		if out, code := d.run(t, append([]string{"env"}, argv...)...); code != gate.code {
			t.Errorf("%s: exit code %d, want %d:\n%s", name, code, gate.code, out)
		}
		d.wrote(t, "preflight.html")
	}
}

// TestTerraform checks that the commands end with preflight's exit code. If that code is not 0,
// Terraform and Packer fail. TestHCL checks the syntax of the files.
func TestTerraform(t *testing.T) {
	for name, gate := range gates {
		d := newDesk(t, gate.fleet, "hostfile")
		if out, code := d.run(t, "env", "HOSTFILE=hostfile", "sh", "-c", quoted(t, "terraform/preflight.tf", "command")); code != gate.code {
			t.Errorf("%s: exit code %d, want %d:\n%s", name, code, gate.code, out)
		}
		d.wrote(t, "preflight.html")
	}
	for nodes, want := range map[string]int{"w1": 0, "w8": 1, "w6": 2} {
		d := newDesk(t, fleet{nodes: nodes})
		if out, code := d.run(t, "sh", "-c", quoted(t, "packer/preflight.pkr.hcl", "inline")); code != want {
			t.Errorf("%s: exit code %d, want %d:\n%s", nodes, code, want, out)
		}
	}
}

// quoted returns the string value of an attribute in a file for Terraform or Packer.
func quoted(t *testing.T, file, attribute string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ *` + attribute + ` *= \[?(".*")\]?$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s sets no %s", file, attribute)
	}
	value, err := strconv.Unquote(string(found[1]))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return value
}

// standInReFrame is a program that replaces the parts of reframe that the check uses. It prints the
// command, or the check's result for the output.
const standInReFrame = `
import re, shlex, sys, types
rfm, sanity = types.ModuleType('reframe'), types.ModuleType('reframe.utility.sanity')
class RunOnlyRegressionTest: stdout = 'stdout'
rfm.RunOnlyRegressionTest = RunOnlyRegressionTest
found = []
rfm.simple_test = found.append
sanity.assert_found = lambda pattern, path: bool(re.search(pattern, open(path).read(), re.M))
sanity.extractsingle = lambda pattern, path, tag, conv: conv(re.search(pattern, open(path).read()).group(tag))
utility = types.ModuleType('reframe.utility')
utility.sanity = sanity
rfm.utility = utility
sys.modules.update({'reframe': rfm, 'reframe.utility': utility, 'reframe.utility.sanity': sanity})
names = {'sanity_function': lambda f: f, 'performance_function': lambda unit: lambda f: f}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'), names)
check = found[0]()
if sys.argv[2] == 'command': print(shlex.join([check.executable, *check.executable_opts]))
else: print(check.ready(), check.seconds() > 0)
`

// TestReFrame runs the command of the check, and then the check on the command's output, without
// ReFrame. TestConsumerReFrame uses ReFrame itself.
func TestReFrame(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT RUN: the check for ReFrame, because there is no python3")
	}
	check := absolute(t, "reframe/preflight_check.py")
	for name, gate := range gates {
		d := newDesk(t, gate.fleet, "job/hostfile")
		d.env["PATH"] += ":" + os.Getenv("PATH")
		command, _ := d.run(t, "python3", "-c", standInReFrame, check, "command")
		if _, code := d.run(t, "sh", "-c", strings.TrimSpace(command)+" >stdout"); code != gate.code {
			t.Errorf("%s: exit code %d, want %d", name, code, gate.code)
		}
		want := "False True\n"
		if gate.code == 0 {
			want = "True True\n"
		}
		if out, _ := d.run(t, "python3", "-c", standInReFrame, check, "look"); out != want {
			t.Errorf("%s: the check says %q, want %q", name, out, want)
		}
	}
}

// TestPreCommit checks that the hook rejects a hostfile that DeepSpeed refuses.
func TestPreCommit(t *testing.T) {
	var config struct {
		Repos []struct {
			Repo  string
			Hooks []struct {
				ID, Name, Language, Entry, Files string
				PassFilenames                    bool `yaml:"pass_filenames"`
			}
		}
	}
	strictly(t, "pre-commit/.pre-commit-config.yaml", &config)
	entry := config.Repos[0].Hooks[0].Entry
	for hostfile, want := range map[string]int{"w1 slots=8\nw2 slots=8\n": 0, "w1 slots=8\nw1 slots=8\n": 2} {
		d := newDesk(t, healthy)
		d.env["PATH"] = filepath.Dir(program(t)) + ":" + d.env["PATH"]
		if err := os.WriteFile(filepath.Join(d.dir, "hostfile"), []byte(hostfile), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code := d.run(t, "sh", "-c", entry); code != want {
			t.Errorf("%q: exit code %d, want %d:\n%s", hostfile, code, want, out)
		}
	}
}

// TestAction runs the step of action.yml, which is in the root directory of the repository.
func TestAction(t *testing.T) {
	type input struct{ Description, Default string }
	var action struct {
		Name, Description string
		Inputs            map[string]input
		Runs              struct {
			Using string
			Steps []struct {
				Name, Uses, If, Shell, Run string
				Env, With                  map[string]string
			}
		}
	}
	strictly(t, "../action.yml", &action)
	judge, upload := action.Runs.Steps[0], action.Runs.Steps[1]
	if action.Runs.Using != "composite" || judge.Shell != "bash" || upload.If != "always()" {
		t.Errorf("GitHub demands a shell of a composite step, and a failed report must be kept: %+v", action.Runs)
	}
	for name, gate := range gates {
		d := newDesk(t, gate.fleet, "my hosts")
		d.env["GITHUB_STEP_SUMMARY"] = filepath.Join(d.dir, "summary.md")
		d.env["HOSTFILE"], d.env["FLAGS"] = "my hosts", "--timeout 30s --strict"
		out, code := d.run(t, "bash", "-e", "-c", judge.Run)
		if code != gate.code || !strings.Contains(out, "::notice title=preflight::") {
			t.Errorf("%s: exit code %d, want %d:\n%s", name, code, gate.code, out)
		}
		for path := range strings.FieldsSeq(upload.With["path"] + " summary.md") {
			d.wrote(t, path)
		}
	}
}

// TestNVRx checks that the script prints JSON that agrees with its exit code.
func TestNVRx(t *testing.T) {
	for name, c := range map[string]struct {
		fleet fleet
		code  int
		said  string
	}{
		"faulty":  {fleet{nodes: "w8"}, 1, `{"fail_count": 1}`},
		"healthy": {fleet{nodes: "w1"}, 0, `{"fail_count": 0}`},
		"dark":    {fleet{nodes: "w6"}, 0, `{"fail_count": 0}`},
	} {
		d := newDesk(t, c.fleet)
		if out, code := d.run(t, absolute(t, "nvrx/health-check")); code != c.code || out != c.said+"\n" {
			t.Errorf("%s: exit code %d, want %d; it printed %q, want %s", name, code, c.code, out, c.said)
		}
	}
}

// TestNVSentinel checks that the container runs the same command as the pods of the other examples.
func TestNVSentinel(t *testing.T) {
	var values struct {
		Preflight struct {
			InitContainers []struct {
				Name, Image string
				Enabled     bool `yaml:"defaultEnabled"`
				Command     []string
				Env         []struct {
					Name      string
					ValueFrom map[string]map[string]string `yaml:"valueFrom"`
				}
			} `yaml:"initContainers"`
		}
	}
	strictly(t, "nvsentinel/values.yaml", &values)
	container := values.Preflight.InitContainers[0]
	_, agents := meetingOf(t, "kubernetes/pytorchjob.yaml")
	if !slices.Equal(container.Command, agents[0]) || container.Enabled {
		t.Errorf("it calls %q, want %q, and only for pods that ask for it", container.Command, agents[0])
	}
	if out, err := exec.Command(program(t), append(slices.Clone(container.Command[1:]), "--help")...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
