// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"preflight"
	"preflight/agent"
	"preflight/checks"
	"preflight/fleet"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/remote"
	"preflight/remote/ssh"
	"preflight/report"
	"preflight/testhosts"
)

var (
	agentAt  = flag.String("agent", "", `path of the agent that is delivered; "" skips the test`)
	rank     = flag.String("rank", "rank.py", "path of rank.py")
	results  = flag.String("results", ".", "directory for the table and the reports")
	python   = flag.String("python", "python3", "Python with torch")
	settings = flag.Bool("settings", false, "change the GPU's compute mode, power limit and clocks, and restore them (root)")
	budget   = flag.Duration("budget", 290*time.Second, "start nothing after this time")
)

// TestMain lets this test binary act as an agent on the launching machine.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		os.Exit(agent.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// row is one line of the table.
type row struct {
	part, what     string
	preflight      string // what preflight reports
	truth          string // what nvidia-smi says, or how a real launch ends
	result         string // right, WRONG, unsure or NOT RUN
	seconds        float64
	explanation    string
	withoutSeconds bool
}

// trial is one run of all rows.
type trial struct {
	*testing.T
	began time.Time
	home  string // of the host, so that the agent is delivered once
	rows  []row
	runs  int
	torch string // "", or why no rank can start
	fails bool   // whether preflight fails the machine as it is
}

func TestGPU(t *testing.T) {
	if *agentAt == "" {
		t.Skip("NOT RUN: preflight on a real GPU: make gpu packs this test for a machine with one")
	}
	r := &trial{T: t, began: time.Now(), home: t.TempDir()}
	t.Cleanup(r.print)
	if devices, _ := filepath.Glob("/dev/nvidia[0-9]*"); len(devices) == 0 {
		r.add(row{part: "machine", what: "NVIDIA GPU", result: "NOT RUN", explanation: "no /dev/nvidia0: this machine has no NVIDIA GPU, or no driver"})
	}
	if out, err := exec.Command(*python, "-c", "import torch; torch.zeros(1, device='cuda'); print(torch.__version__)").CombinedOutput(); err != nil {
		r.torch = *python + " cannot use the GPU: " + lastLine(out, err)
	}
	healthy := r.healthy()
	r.compare(healthy)
	r.launch("NCCL with one rank", nil, true)
	for _, fault := range faults {
		r.plant(fault)
	}
	for _, engine := range []string{"direct", "torch"} {
		r.judged("smoke", "--smoke="+engine, []string{"gpu-computes", "gpu-copies", "collective"}, options{smoke: fleet.Smoke{Engine: engine, Time: 40 * time.Second}})
	}
	r.judged("rehearse", "--rehearse on one node", []string{"rehearsal"}, options{rehearse: 90 * time.Second})
}

func (r *trial) add(line row) {
	if line.result == "WRONG" {
		r.Errorf("%s, %s: preflight %s, but %s", line.part, line.what, line.preflight, line.truth)
	}
	r.rows = append(r.rows, line)
}

// late adds a row and returns true if no time is left for another step.
func (r *trial) late(part, what string) bool {
	if time.Since(r.began) < *budget {
		return false
	}
	r.add(row{part: part, what: what, result: "NOT RUN", explanation: fmt.Sprintf("%s had passed (-budget)", *budget)})
	return true
}

// command is the launch that every run is about.
func command() []string {
	return []string{*python, "-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=1", "--master_addr=127.77.0.1", "--master_port=29571", *rank}
}

// options are what a run adds to the checks that cost nothing.
type options struct {
	smoke    fleet.Smoke
	rehearse time.Duration
}

// run checks one host in this process, for a launch of one rank. Its report is also kept in the
// results.
func (r *trial) run(env []string, o options) (found found, seconds float64, err error) {
	for _, setting := range env { // the launching machine is this machine too
		name, value, _ := strings.Cut(setting, "=")
		if before, was := os.LookupEnv(name); was {
			defer os.Setenv(name, before)
		} else {
			defer os.Unsetenv(name)
		}
		os.Setenv(name, value)
	}
	began := time.Now()
	defer func() { seconds = time.Since(began).Seconds() }()
	hosts := testhosts.Start(r.T, testhosts.Host{Name: "gpu1", Home: r.home, Env: append(inherited(), env...)})
	carrier, err := ssh.New(ssh.Options{Home: hosts.Home, SystemConfig: os.DevNull, AgentSocket: "none", Timeout: time.Minute})
	if err != nil {
		return found, 0, err
	}
	client := remote.New(carrier, remote.Options{Timeout: time.Minute, Binary: func(string, string) (*remote.Binary, error) { return remote.OpenBinary(*agentAt) }})
	defer client.Close()
	plan, err := preflight.NewPlan(r.Context(), preflight.Intent{Command: command(),
		Options: launch.Options{Hosts: []hostfile.Host{{Name: "gpu1", Slots: []int{0}}}, Accelerator: "cuda", WorkDir: filepath.Dir(*rank)}})
	if err != nil {
		return found, 0, err
	}
	found.Report = preflight.Run(r.Context(), preflight.Job{Plan: plan, Policy: checks.DefaultPolicy(), Remote: client, Timeout: time.Minute, Smoke: o.smoke, Rehearse: o.rehearse})
	r.runs++
	var text, all bytes.Buffer
	err = errors.Join(report.Text(&text, found.Report, report.Style{Width: 120, Verbose: true}), report.JSON(&all, found.Report),
		os.WriteFile(filepath.Join(*results, fmt.Sprintf("run%02d.txt", r.runs)), text.Bytes(), 0o644),
		os.WriteFile(filepath.Join(*results, fmt.Sprintf("run%02d.json", r.runs)), all.Bytes(), 0o644))
	return found, 0, err
}

// found is a report with short ways to its parts.
type found struct{ checks.Report }

// inherited returns the variables of this process that a login on a machine with GPUs would set too.
func inherited() (env []string) {
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CONDA_PREFIX", "VIRTUAL_ENV"} {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// healthy adds a row for each GPU check on the machine as it is.
func (r *trial) healthy() found {
	found, seconds, err := r.run(nil, options{})
	if err != nil {
		r.add(row{part: "healthy", what: "a run", preflight: err.Error(), truth: "it must report", result: "WRONG", seconds: seconds})
		return found
	}
	r.fails = found.Verdict == checks.Fail
	r.add(row{part: "healthy", what: "a run", preflight: string(found.Verdict), result: "right", seconds: seconds, explanation: "run01.txt has the report"})
	for _, check := range found.Checks {
		if strings.HasPrefix(check.Check, "gpu-") || slices.Contains([]string{"slots-fit", "nccl-fits-gpu", "torch-same"}, check.Check) {
			line := row{part: "healthy", what: check.Check, preflight: string(check.Verdict), truth: "no finding expected", result: "right", withoutSeconds: true, explanation: check.Reason}
			switch check.Verdict {
			case checks.Fail, checks.Warn:
				line.result, line.explanation = "WRONG", found.summary(check.Check)
				if r.torch != "" && slices.Contains([]string{"gpu-driver-runs-cuda", "nccl-fits-gpu", "torch-same"}, check.Check) {
					line.result, line.truth = "unsure", "torch cannot use the GPU"
				}
			case checks.Unknown:
				line.result = "unsure"
			}
			r.add(line)
		}
	}
	return found
}

func (f found) summary(check string) string {
	for _, finding := range f.Findings {
		if finding.Check == check {
			return finding.Summary + " (" + finding.Got + ")"
		}
	}
	return ""
}

func (f found) verdict(check string) string {
	for _, c := range f.Checks {
		if c.Check == check {
			return string(c.Verdict)
		}
	}
	return "missing"
}

// element is a part of what nvidia-smi -q -x prints.
type element struct {
	XMLName xml.Name
	ID      string    `xml:"id,attr"`
	Text    string    `xml:",chardata"`
	Inner   []element `xml:",any"`
}

// at returns the text of an element below e; "" if there is none. The path has one name per level.
func (e element) at(path ...string) string {
	if len(path) == 0 {
		return strings.TrimSpace(e.Text)
	}
	for _, inner := range e.Inner {
		if inner.XMLName.Local == path[0] {
			return inner.at(path[1:]...)
		}
	}
	return ""
}

// number returns the number at the beginning of a text such as "700.00 W" or "16x".
func number(text string) float64 {
	end := strings.IndexFunc(text, func(c rune) bool { return c != '.' && c != '-' && (c < '0' || c > '9') })
	if end < 0 {
		end = len(text)
	}
	value, err := strconv.ParseFloat(text[:end], 64)
	if err != nil {
		return math.NaN()
	}
	return value
}

// compare adds a row for each fact that preflight read over NVML, next to nvidia-smi's.
func (r *trial) compare(found found) {
	const part = "facts"
	out, err := exec.Command("nvidia-smi", "-q", "-x").Output()
	var said element
	if err == nil {
		err = xml.Unmarshal(out, &said)
	}
	if err != nil {
		r.add(row{part: part, what: "nvidia-smi -q -x", result: "NOT RUN", explanation: "nothing to compare NVML's facts with: " + err.Error()})
		return
	}
	if len(found.Nodes) == 0 || found.Nodes[0].NVML == nil {
		r.add(row{part: part, what: "NVML", preflight: "nothing read", truth: "nvidia-smi answers", result: "WRONG"})
		return
	}
	nvml := found.Nodes[0].NVML
	same := func(what, ours, theirs string) {
		line := row{part: part, what: what, preflight: ours, truth: theirs, result: "right", withoutSeconds: true}
		switch {
		case theirs == "" || theirs == "N/A" || strings.HasPrefix(theirs, "[N/A"):
			line.result, line.explanation = "NOT RUN", "nvidia-smi does not say"
		case !strings.EqualFold(ours, theirs):
			line.result = "WRONG"
		}
		r.add(line)
	}
	near := func(what string, ours float64, theirs string, within float64) {
		if value := number(theirs); !math.IsNaN(value) && math.Abs(ours-value) <= within {
			same(what, theirs, theirs)
		} else {
			same(what, strconv.FormatFloat(ours, 'f', -1, 64), theirs)
		}
	}
	same("driver", nvml.Driver, said.at("driver_version"))
	same("CUDA", nvml.CUDA, said.at("cuda_version"))
	i := 0
	for _, gpu := range said.Inner {
		if gpu.XMLName.Local != "gpu" || i >= len(nvml.Cards) {
			continue
		}
		c := nvml.Cards[i]
		of := fmt.Sprintf("GPU %d ", i)
		i++
		same(of+"name", c.Name, gpu.at("product_name"))
		same(of+"UUID", c.UUID, gpu.at("uuid"))
		same(of+"serial", c.Serial, gpu.at("serial"))
		same(of+"VBIOS", c.VBIOS, gpu.at("vbios_version"))
		same(of+"address", c.Address, strings.TrimPrefix(gpu.ID, "0000"))
		same(of+"compute mode", strings.ReplaceAll(c.ComputeMode, "-", "_"), gpu.at("compute_mode"))
		same(of+"MIG", c.MIG, gpu.at("mig_mode", "current_mig"))
		near(of+"memory", float64(c.Memory>>20), gpu.at("fb_memory_usage", "total"), 1)
		near(of+"PCIe width", float64(c.Link.Width), gpu.at("pci", "pci_gpu_link_info", "link_widths", "current_link_width"), 0)
		near(of+"maximum SM clock", float64(c.Clock.MaxSM), gpu.at("max_clocks", "sm_clock"), 0)
		limit := gpu.at("gpu_power_readings", "current_power_limit") // since driver 535
		if limit == "" {
			limit = gpu.at("power_readings", "power_limit")
		}
		near(of+"power limit", c.Power.Limit, limit, 1)
		if c.Temperature != nil {
			near(of+"temperature", float64(*c.Temperature), gpu.at("temperature", "gpu_temp"), 5)
		}
		if c.Persistence != nil {
			same(of+"persistence", onOff(*c.Persistence), gpu.at("persistence_mode"))
		}
		if c.ECC != nil {
			same(of+"ECC", onOff(c.ECC.Enabled), gpu.at("ecc_mode", "current_ecc"))
		}
	}
	same("number of GPUs", strconv.Itoa(len(nvml.Cards)), said.at("attached_gpus"))
}

func onOff(on bool) string {
	if on {
		return "enabled"
	}
	return "disabled"
}

// launch starts the real launch and adds a row if lives says what must happen.
func (r *trial) launch(what string, env []string, lives bool) {
	if r.torch != "" {
		r.add(row{part: "launch", what: what, result: "NOT RUN", explanation: r.torch})
		return
	}
	if r.late("launch", what) {
		return
	}
	ended, seconds := launched(r.Context(), env)
	line := row{part: "launch", what: what, truth: ended, result: "right", seconds: seconds}
	if strings.HasPrefix(ended, "dies") == lives {
		line.result = "WRONG"
	}
	r.add(line)
}

// launched returns how a real launch ends.
func launched(ctx context.Context, env []string) (ended string, seconds float64) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	argv := command()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	seconds = time.Since(began).Seconds()
	if err != nil {
		at := bytes.Index(out, []byte("Error"))
		if at >= 0 {
			line, _, _ := bytes.Cut(out[bytes.LastIndexByte(out[:at], '\n')+1:], []byte("\n"))
			return "dies: " + string(line), seconds
		}
		return "dies: " + lastLine(out, err), seconds
	}
	return "lives: " + lastLine(out, nil), seconds
}

func lastLine(out []byte, err error) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return fmt.Sprint(err)
}

// fault is a fault that needs no reset of the GPU, and that its undo removes.
type fault struct {
	what     string
	setting  [][]string // nvidia-smi's arguments to set, and those to restore
	power    bool       // the setting is the lowest power limit
	hold     bool       // another process takes memory of the GPU
	env      []string
	check    string   // the check that must report it
	verdicts []string // what it may report
	dies     bool     // whether the real launch dies
}

var faults = []fault{
	{what: "another process on the GPU", hold: true, check: "gpu-idle", verdicts: []string{"fail", "warn"}},
	{what: "CUDA_VISIBLE_DEVICES of a GPU that is not there", env: []string{"CUDA_VISIBLE_DEVICES=77"}, dies: true},
	{what: "compute mode exclusive", setting: [][]string{{"-c", "EXCLUSIVE_PROCESS"}, {"-c", "DEFAULT"}}, check: "gpu-mode", verdicts: []string{"pass"}},
	{what: "compute mode prohibited", setting: [][]string{{"-c", "PROHIBITED"}, {"-c", "DEFAULT"}}, check: "gpu-mode", verdicts: []string{"fail"}, dies: true},
	{what: "lowered power limit", power: true, check: "gpu-throttle", verdicts: []string{"warn"}},
	{what: "clocks locked at 600 MHz", setting: [][]string{{"-lgc", "210,600"}, {"-rgc"}}, check: "gpu-throttle", verdicts: []string{"warn", "pass"}},
}

// plant causes a fault, runs preflight and the real launch, and restores what was there.
func (r *trial) plant(f fault) {
	const part = "planted"
	if r.late(part, f.what) {
		return
	}
	skip := func(why string) { r.add(row{part: part, what: f.what, result: "NOT RUN", explanation: why}) }
	if f.power {
		min, limit, err := powerLimits()
		if err != nil {
			skip("the power limits are unknown: " + err.Error())
			return
		}
		f.setting = [][]string{{"-pl", min}, {"-pl", limit}}
	}
	if f.setting != nil {
		if !*settings {
			skip("changes the GPU's settings: run with -settings as root")
			return
		}
		defer func() {
			if out, err := smi(f.setting[1]...); err != nil {
				r.Errorf("the setting of %q is not restored: run nvidia-smi %s: %s", f.what, strings.Join(f.setting[1], " "), out)
			}
		}()
		if out, err := smi(f.setting[0]...); err != nil {
			skip("nvidia-smi " + strings.Join(f.setting[0], " ") + ": " + out)
			return
		}
	}
	if f.hold {
		if r.torch != "" {
			skip(r.torch)
			return
		}
		release, err := hold()
		if err != nil {
			skip(err.Error())
			return
		}
		defer release()
	}
	found, seconds, err := r.run(f.env, options{})
	if err != nil {
		r.add(row{part: part, what: f.what, preflight: err.Error(), truth: "it must report", result: "WRONG", seconds: seconds})
		return
	}
	line := row{part: part, what: f.what, preflight: string(found.Verdict), result: "right", seconds: seconds}
	if f.check != "" {
		line.preflight = f.check + " " + found.verdict(f.check)
		line.explanation = found.summary(f.check)
		if !slices.Contains(f.verdicts, found.verdict(f.check)) {
			line.result = "WRONG"
		}
	} else {
		for _, finding := range found.Findings {
			if finding.Verdict == checks.Fail {
				line.explanation = finding.Check + ": " + finding.Summary
			}
		}
	}
	line.truth = "launch NOT RUN"
	if r.torch == "" {
		line.truth, seconds = launched(r.Context(), f.env)
		line.seconds += seconds
		if dies := strings.HasPrefix(line.truth, "dies"); dies != f.dies && !f.hold || dies != (found.Verdict == checks.Fail) && f.check == "" {
			line.result = "WRONG"
		}
	} else if f.check == "" && r.fails {
		line.result, line.truth = "unsure", "it fails without the fault too"
	} else if f.check == "" && f.dies && found.Verdict != checks.Fail {
		line.result, line.truth = "WRONG", "the launch would die"
	}
	r.add(line)
}

func smi(args ...string) (string, error) {
	out, err := exec.Command("nvidia-smi", append([]string{"-i", "0"}, args...)...).CombinedOutput()
	return lastLine(out, err), err
}

// powerLimits returns the lowest power limit that the GPU accepts, and the one in force.
func powerLimits() (lowest, now string, err error) {
	out, err := smi("--query-gpu=power.min_limit,power.limit", "--format=csv,noheader,nounits")
	lowest, now, ok := strings.Cut(out, ", ")
	if err == nil && (!ok || math.IsNaN(number(lowest)) || number(lowest) >= number(now)) {
		err = fmt.Errorf("nvidia-smi says %q", out)
	}
	return lowest, now, err
}

// hold starts a process that uses the GPU until release is called.
func hold() (release func(), err error) {
	cmd := exec.Command(*python, *rank, "--hold")
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, err
	}
	release = func() { stdin.Close(); cmd.Wait() }
	if said, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || said != "holding\n" {
		release()
		return nil, fmt.Errorf("%s --hold says %q: %v", *rank, said, err)
	}
	return release, nil
}

// judged runs preflight with options and adds a row for each check, which must pass.
func (r *trial) judged(part, what string, ids []string, o options) {
	if r.late(part, what) {
		return
	}
	found, seconds, err := r.run(nil, o)
	if err != nil {
		r.add(row{part: part, what: what, preflight: err.Error(), truth: "it must report", result: "WRONG", seconds: seconds})
		return
	}
	for _, id := range ids {
		line := row{part: part, what: what, preflight: id + " " + found.verdict(id), truth: "must pass", result: "right", seconds: seconds, explanation: found.summary(id)}
		for _, check := range found.Checks {
			if check.Check == id && check.Reason != "" {
				line.explanation = check.Reason
			}
		}
		switch found.verdict(id) {
		case "pass":
		case "unknown", "skip":
			line.result = "unsure"
		default:
			line.result = "WRONG"
			if r.torch != "" {
				line.result = "unsure" // without a working GPU for torch, nothing is known about the truth
			}
		}
		r.add(line)
		seconds = 0
	}
}

// print writes the table to standard output and to the results.
func (r *trial) print() {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PART\tWHAT\tPREFLIGHT\tTRUTH\tRESULT\tSECONDS\tWHY")
	count := map[string]int{}
	for _, line := range r.rows {
		count[line.result]++
		seconds := ""
		if !line.withoutSeconds && line.seconds > 0 {
			seconds = fmt.Sprintf("%.1f", line.seconds)
		}
		fmt.Fprintln(table, strings.Join([]string{line.part, line.what, short(line.preflight), short(line.truth), line.result, seconds, line.explanation}, "\t"))
	}
	table.Flush()
	fmt.Fprintf(&text, "\n%d rows right, %d WRONG, %d unsure, %d NOT RUN, in %.0f s\n",
		count["right"], count["WRONG"], count["unsure"], count["NOT RUN"], time.Since(r.began).Seconds())
	os.Stdout.Write(text.Bytes())
	if err := os.WriteFile(filepath.Join(*results, "table.txt"), text.Bytes(), 0o644); err != nil {
		r.Error(err)
	}
}

func short(text string) string {
	if letters := []rune(text); len(letters) > 60 {
		return string(letters[:59]) + "…"
	}
	return text
}
