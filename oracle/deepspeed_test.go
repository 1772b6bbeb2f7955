// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"preflight/hostfile"
)

// runnerRelease is one release of DeepSpeed, and the virtual environment with its dependencies.
type runnerRelease struct {
	version string
	venv    string
	// accelerators lists the accelerators that work without additional packages.
	accelerators []string
	// devices lists the numbers of accelerators that the release finds. If there are none, later
	// releases choose the CPU.
	devices []int
}

// runnerReleases lists the releases before and after changes of the launcher. The changes concern
// filters, quoting, options and environment files.
var runnerReleases = []runnerRelease{
	{"0.7.7", "deepspeed/old", []string{"cuda"}, []int{0, 1, 2, 4, 8, 8}},
	{"0.9.5", "deepspeed/old", []string{"cuda"}, []int{0, 1, 2, 4, 8, 8}},
	{"0.10.3", "deepspeed/old", []string{"cuda"}, []int{0, 1, 2, 4, 8, 8}},
	{"0.12.6", "deepspeed/old", []string{"cuda"}, []int{0, 1, 2, 4, 8, 8}},
	{"0.14.5", "v215", []string{"cuda", "cuda", "cpu"}, []int{1, 2, 4, 8}},
	{"0.15.1", "v215", []string{"cuda", "cuda", "cpu"}, []int{1, 2, 4, 8}},
	{"0.15.2", "v215", []string{"cuda", "cuda", "cpu"}, []int{1, 2, 4, 8}},
	{"0.17.1", "v215", []string{"cuda", "cuda", "cpu"}, []int{1, 2, 4, 8}},
	{"0.19.6", "v215", []string{"cuda", "cuda", "cpu"}, []int{1, 2, 4, 8}},
	{"0.19.7", "v215", []string{"cuda", "cuda", "cpu"}, []int{1, 2, 4, 8}},
	{"0.19.8", "v215", []string{"cuda", "cuda", "cpu"}, []int{1, 2, 4, 8}},
}

// commandsEach is the number of random commands for each release. Without SEED, each run draws the
// same commands, so more of them would cost minutes and find nothing new.
const commandsEach = 1500

// outcome is the result of a command, in DeepSpeed's terms.
type outcome struct {
	Parsed  *parsedArgs       `json:"parsed"`
	Refused string            `json:"refused"`
	Hosts   []activeHost      `json:"hosts"`
	Command []string          `json:"command"`
	Changed map[string]string `json:"changed"`
	Local   bool              `json:"-"` // the ranks start on this machine
	// EnvFile is DeepSpeed's error for a .deepspeed_env, if DeepSpeed gets as far as reading the
	// file.
	EnvFile string `json:"-"`
}

// parsedArgs holds the options with argparse's names. An option that a release lacks has the
// default of the other releases.
type parsedArgs struct {
	Hostfile          string   `json:"hostfile"`
	Include           string   `json:"include"`
	Exclude           string   `json:"exclude"`
	NumNodes          int      `json:"num_nodes"`
	MinElasticNodes   int      `json:"min_elastic_nodes"`
	MaxElasticNodes   int      `json:"max_elastic_nodes"`
	NumGPUs           int      `json:"num_gpus"`
	MasterPort        int      `json:"master_port"`
	MasterAddr        string   `json:"master_addr"`
	NodeRank          int      `json:"node_rank"`
	Launcher          string   `json:"launcher"`
	LauncherArgs      string   `json:"launcher_args"`
	Module            bool     `json:"module"`
	NoPython          bool     `json:"no_python"`
	NoLocalRank       bool     `json:"no_local_rank"`
	NoSSH             bool     `json:"no_ssh"`
	NoSSHCheck        bool     `json:"no_ssh_check"`
	ForceMulti        bool     `json:"force_multi"`
	SavePID           bool     `json:"save_pid"`
	EnableEachRankLog string   `json:"enable_each_rank_log"`
	Autotuning        string   `json:"autotuning"`
	ElasticTraining   bool     `json:"elastic_training"`
	UserScript        string   `json:"user_script"`
	UserArgs          []string `json:"user_args"`
	BindCoresToRank   bool     `json:"bind_cores_to_rank"`
	BindCoreList      string   `json:"bind_core_list"` // "" means none, as do SSHPort 0 and VenvScript ""
	SSHPort           int      `json:"ssh_port"`
	VenvScript        string   `json:"venv_script"`
	LogLevel          string   `json:"log_level"`
	Quiet             bool     `json:"quiet"`
}

// UnmarshalJSON keeps the default for a value that is null or missing.
func (p *parsedArgs) UnmarshalJSON(text []byte) error {
	type plain parsedArgs
	*p = parsedArgs{NodeRank: -1, MinElasticNodes: -1, MaxElasticNodes: -1, EnableEachRankLog: "None", LogLevel: "info"}
	return json.Unmarshal(text, (*plain)(p))
}

// activeHost is a host that takes part in the launch.
type activeHost struct {
	Name  string
	Slots []int
}

// UnmarshalJSON decodes a pair of name and slots from Python.
func (h *activeHost) UnmarshalJSON(text []byte) error {
	pair := []any{&h.Name, &h.Slots}
	return json.Unmarshal(text, &pair)
}

// TestDeepSpeed lets real releases of DeepSpeed and preflight read the same commands, and compares
// the results down to the last word of the started command. SEED selects other random commands.
func TestDeepSpeed(t *testing.T) {
	seed := seed(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	asked := make([]answered, len(runnerReleases))
	// First all releases answer, as many at once as there are processors. preflight must change its
	// working directory, so it reads the commands for one release after another.
	t.Run("ask", func(t *testing.T) {
		for i, r := range runnerReleases {
			t.Run(r.version, func(t *testing.T) {
				t.Parallel()
				asked[i] = r.try(t, filepath.Join(root, r.version), seed)
			})
		}
	})
	for i, r := range runnerReleases {
		t.Run(r.version, func(t *testing.T) { r.compare(t, asked[i]) })
	}
}

func seed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv("SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatalf("SEED=%s: %v", text, err)
		}
	}
	t.Logf("SEED=%d", seed)
	return seed
}

// answered holds commands with the results of one release.
type answered struct {
	root     string // the directory below which the commands run
	commands []command
	said     []outcome
}

func (r runnerRelease) try(t *testing.T, root string, seed uint64) answered {
	t.Helper()
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	d := dealer{Rand: rand.New(rand.NewPCG(seed, 19)), root: root, accelerators: r.accelerators, devices: r.devices, namesEnvFile: !hostfile.Before(r.version, "0.10.1")}
	commands := handPicked(root)
	for range commandsEach {
		commands = append(commands, d.deal())
	}
	return answered{root, commands, r.ask(t, root, commands)}
}

func (r runnerRelease) compare(t *testing.T, a answered) {
	if a.said == nil {
		t.Fatal("the release has not answered")
	}
	tally := tally{}
	disputes := disputes{}
	p := newPredictor(t, r.version, a.root)
	for i, c := range a.commands {
		want, got := a.said[i].withheld(), p.predict(c).withheld()
		want.Local = len(want.Command) > 0 && want.Command[0] == c.Python
		tally.count(want)
		if kind, diff := outcomeDifference(want, got); kind != "" {
			disputes.add(kind, c, diff)
		}
	}
	t.Logf("DeepSpeed %s: %d commands: %s", r.version, len(a.commands), tally)
	for _, dispute := range disputes.sorted() {
		t.Error(dispute)
	}
	tally.check(t)
}

// ask returns the results of the real release, which runs without this process's environment.
func (r runnerRelease) ask(t *testing.T, root string, commands []command) []outcome {
	t.Helper()
	home := filepath.Join(oracleHome(), "deepspeed")
	version, said := answers[outcome](t, commands, "env", "-i", "LC_ALL=C.UTF-8", "HOME="+root, "PYTHONPATH="+filepath.Join(home, r.version),
		filepath.Join(oracleHome(), r.venv, "bin/python"), "-W", "ignore", "deepspeed_runner.py", root)
	if version != r.version {
		t.Fatalf("%s is DeepSpeed %s; run oracle/setup.sh", filepath.Join(home, r.version), version)
	}
	return said
}

// withheld returns the outcome without the quotes around values that are not in the facts. Whether
// there are quotes depends on the value.
func (o outcome) withheld() outcome {
	o.Command = slices.Clone(o.Command)
	for i, word := range o.Command {
		o.Command[i] = strings.ReplaceAll(word, `"`+withheld+`"`, withheld)
	}
	return o
}

// deliberate matches preflight's errors for commands that DeepSpeed accepts but that cannot work.
// preflight refuses them deliberately.
var deliberate = regexp.MustCompile(`--(master|ssh)_port 0 |contains a NUL byte|no host in this file: .* before 0\.8\.0| is empty: `)

// preflight reports these errors earlier than DeepSpeed does.
const (
	// bothWays is the error that launch.py reports on every node.
	bothWays = "ValueError: Don't use both the '--no_python' flag and the '--module' flag at the same time."
	// noLauncher is the error for an empty --launcher. DeepSpeed reports it last, and only with
	// several nodes.
	noLauncher = "NotImplementedError: Unknown launcher "
	// noHosts is the error of launch.py if no host takes part and the runner had no reason to
	// contact the first host.
	noHosts = "IndexError: list index out of range"
)

// outcomeDifference returns the kind of difference between two outcomes, and the difference.
func outcomeDifference(want, got outcome) (kind, diff string) {
	switch {
	case want.Parsed != nil && got.Parsed != nil && !equal(want.Parsed, got.Parsed):
		return difference("parsed", want.Parsed, got.Parsed)
	case want.Refused != "" || got.Refused != "":
		if sameRefusal(want, got) {
			return "", ""
		}
		return "refused: " + want.Refused + " / " + got.Refused, fmt.Sprintf("-want %s\n+got  %s", want.Refused, got.Refused)
	case want.Parsed.Autotuning != "": // with autotuning, the tuner launches commands of its own choice
		return "", ""
	case want.Local != got.Local:
		return difference("local", want.Local, got.Local)
	case !equal(want.Hosts, got.Hosts):
		return difference("hosts", want.Hosts, got.Hosts)
	case !equal(want.Command, got.Command):
		return difference("command "+want.Command[0], want.Command, got.Command)
	case !equal(want.Changed, got.Changed):
		return difference("environment", want.Changed, got.Changed)
	}
	return "", ""
}

var exceptionClass = regexp.MustCompile(`^\w+(Error|Exception): `)

// sameRefusal reports whether two outcomes, at least one of which is a refusal, are equal except
// for intended differences.
func sameRefusal(want, got outcome) bool {
	switch {
	case want.Refused == got.Refused, want.Refused != "" && exceptionClass.ReplaceAllString(want.Refused, "") == got.Refused:
		return true
	case want.Refused == "exit 0": // the command prints help and starts nothing; preflight has its own text for this
		return got.Refused != ""
	case strings.HasPrefix(got.Refused, ownWords):
		return deliberate.MatchString(got.Refused)
	case got.Refused == noLauncher:
		return want.Parsed != nil && want.Parsed.Launcher == ""
	case got.Refused == noHosts:
		return want.Refused == "" && len(want.Hosts) == 0
	case got.Refused == bothWays:
		return slices.Contains(want.Command, "--no_python") && slices.Contains(want.Command, "--module")
	}
	return want.Refused != "" && want.Refused == got.EnvFile // Predict does not check for this error
}

// tally counts the outcomes by kind.
type tally map[string]int

func (t tally) count(o outcome) {
	kind := "started " + strings.Join(o.Command[:min(1, len(o.Command))], "")
	if o.Refused != "" {
		kind, _, _ = strings.Cut(o.Refused, ": ")
	}
	t[kind]++
}

func (t tally) String() string {
	var text bytes.Buffer
	for _, kind := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&text, "%s %d, ", kind, t[kind])
	}
	return strings.TrimSuffix(text.String(), ", ")
}

// check fails the test if the commands are not varied enough.
func (t tally) check(test *testing.T) {
	for _, kind := range []string{"started pdsh", "started mpirun", "started srun", "started /usr/bin/python3", "started ", "deepspeed", "exit 0",
		"ValueError", "IndexError", "NotImplementedError"} {
		if t[kind] == 0 {
			test.Errorf("no command came to %q", kind)
		}
	}
}
