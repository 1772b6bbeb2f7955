// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/cmd/preflight/internal/policyfile"
	"preflight/cmd/preflight/internal/progress"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/args"
	"preflight/remote/kubectl"
	"preflight/remote/meet"
	"preflight/remote/srun"
)

// Config is everything a user may set. Later wins: preflight.yaml, PREFLIGHT_*
// in the environment, flags. Names that may hold dots or capitals (hosts,
// environment variables) are values, never keys: viper lower-cases keys and
// splits them at dots.
type Config struct {
	Hostfile    string        `mapstructure:"hostfile"`
	Hosts       string        `mapstructure:"hosts"`
	Include     string        `mapstructure:"include"`
	Exclude     string        `mapstructure:"exclude"`
	NumNodes    int           `mapstructure:"num_nodes"`
	NumGPUs     int           `mapstructure:"num_gpus"`
	ForceMulti  bool          `mapstructure:"force_multi"`
	MasterAddr  string        `mapstructure:"master_addr"`
	MasterPort  int           `mapstructure:"master_port"`
	Launcher    string        `mapstructure:"launcher"`
	SSHPort     int           `mapstructure:"ssh_port"`
	Python      string        `mapstructure:"python"`
	Accelerator string        `mapstructure:"accelerator"`
	DeepSpeed   string        `mapstructure:"deepspeed_version"`
	Rendezvous  string        `mapstructure:"rendezvous"`
	Endpoint    string        `mapstructure:"rdzv_endpoint"`
	Throughput  bool          `mapstructure:"throughput"`
	Smoke       string        `mapstructure:"smoke"`
	SmokeTime   time.Duration `mapstructure:"smoke_time"`
	DryRun      bool          `mapstructure:"dry_run"`
	WriteEnv    string        `mapstructure:"write_env"`
	Format      string        `mapstructure:"format"`
	Output      []string      `mapstructure:"output"`     // see outputs
	GoodHosts   string        `mapstructure:"good_hosts"` // a file
	BadHosts    string        `mapstructure:"bad_hosts"`  // a file
	Baseline    string        `mapstructure:"baseline"`   // a file
	Only        []string      `mapstructure:"only"`
	Skip        []string      `mapstructure:"skip"`
	Strict      bool          `mapstructure:"strict"`
	Timeout     time.Duration `mapstructure:"timeout"`
	Via         string        `mapstructure:"via"`
	JobID       string        `mapstructure:"jobid"`
	Callback    string        `mapstructure:"callback"`
	In          string        `mapstructure:"in"`
	Namespace   string        `mapstructure:"namespace"`
	Context     string        `mapstructure:"context"`
	Selector    string        `mapstructure:"selector"`
	Job         string        `mapstructure:"job"`
	Container   string        `mapstructure:"container"`
	Image       string        `mapstructure:"container_image"`
	Kept        string        `mapstructure:"container_name"`
	Mounts      string        `mapstructure:"container_mounts"`
	Workdir     string        `mapstructure:"container_workdir"`
	MeetListen  string        `mapstructure:"meet_listen"`
	MeetToken   string        `mapstructure:"meet_token_file"`
	Verbose     bool          `mapstructure:"verbose"`
	Quiet       bool          `mapstructure:"quiet"`
	Progress    string        `mapstructure:"progress"`

	SHMHeadroom string        `mapstructure:"shm_headroom"` // "256MiB"
	DiskFree    string        `mapstructure:"disk_free"`
	MemoryFree  float64       `mapstructure:"memory_free"` // share, 0 to 1
	ClockSkew   time.Duration `mapstructure:"clock_skew"`
	OpenFiles   int64         `mapstructure:"open_files"`

	ComputeRate    string `mapstructure:"compute_rate"` // "600TFLOP/s"
	CopyRate       string `mapstructure:"copy_rate"`    // "20GB/s"
	NodeReduceRate string `mapstructure:"node_reduce_rate"`
	ReduceRate     string `mapstructure:"reduce_rate"`

	Stated policyfile.Policy `mapstructure:"-"` // what the configuration file holds

	slurm   srun.Job          // the one of --jobid, else the one this is typed in
	pods    *kubectl.Carrier  // with --via kubectl, once the cluster was asked
	meeting *meet.Carrier     // with --via meet, once it listens
	cleans  bool              // nodes run no agent
	typed   asTyped           // the launch behind "--"
	places  map[string]string // where each setting was set that was: "-w", "preflight.yaml:3: hosts"
	// unread is why the launch command could not be read before the configuration, so
	// that the file beside its hostfile was not looked for; nil where it could.
	unread error
}

func launchFlags(flags *pflag.FlagSet) {
	flags.StringP("hostfile", "H", "", "DeepSpeed hostfile (default: SLURM_JOB_NODELIST in a Slurm job, else ./hostfile, else /job/hostfile)")
	flags.StringP("hosts", "w", "", "hosts instead of a hostfile, as pdsh and ClusterShell write them: 'node[01-16],gpu7:4'")
	flags.StringP("include", "i", "", "as deepspeed: NAME[:SLOT,…][@NAME…]")
	flags.StringP("exclude", "e", "", "as deepspeed: NAME[:SLOT,…][@NAME…]")
	flags.Int("num_nodes", -1, "as deepspeed: only the first N hosts")
	flags.Int("num_gpus", -1, "as deepspeed: slots 0 to N-1 on every host")
	flags.Bool("force_multi", false, "as deepspeed: use the launcher even for a single host")
	flags.String("master_addr", "", "as deepspeed: address of the first host (default: the first word that hostname -I prints there)")
	flags.Int("master_port", launch.DefaultMasterPort, "as deepspeed")
	flags.String("launcher", launch.DefaultLauncher, "as deepspeed: "+strings.Join(launch.LauncherNames(), ", "))
	flags.Int("ssh_port", 0, "as deepspeed: ssh port of every host (default: ssh's own configuration)")
	flags.String("python", "", "the interpreter the launch will use (default: the one of the deepspeed script here)")
	flags.String("accelerator", "auto", "auto, cuda or cpu; with cpu a slot is a process")
	flags.String("rendezvous", launch.RendezvousDeepSpeed, "how the ranks meet: deepspeed (and plain env://), or torchrun's static or c10d")
	flags.String("rdzv-endpoint", "", "as torchrun, with --rendezvous c10d: HOST[:PORT]")
	flags.String("deepspeed_version", "", "judge hostfile filters as this release does (default: the newest rules)")
	flags.String("via", viaAuto, viaUsage)
	flags.String("in", "", inUsage)
	slurmFlags(flags)
	podFlags(flags)
	meetFlags(flags)
	flags.Duration("timeout", time.Minute, "for one node, from its name to its last fact")
}

func drillFlags(flags *pflag.FlagSet) {
	flags.Bool("throughput", false, "have every node send to the next one for a few seconds, and name the slow link")
	smokeFlag(flags, "compute and talk as the ranks will, and find out who cannot: by torch, by NVIDIA's libraries alone (direct), or auto, whichever all nodes have")
	flags.Duration("smoke-time", time.Minute, "for all of --smoke")
}

func smokeFlag(flags *pflag.FlagSet, use string) {
	flags.String("smoke", smokeNone, use)
	flags.Lookup("smoke").NoOptDefVal = smokeAuto
}

func judgeFlags(cmd *cobra.Command, names []string) {
	flags := cmd.Flags()
	flags.StringSlice("only", nil, "run only these checks; gpu-* is all that begin so")
	flags.StringSlice("skip", nil, "leave these checks out")
	flags.Bool("strict", false, "warnings fail the run")
	outputFlags(cmd, names)
	usual := checks.DefaultPolicy()
	flags.String("shm_headroom", humanize.IBytes(uint64(usual.SHMHeadroom)), "room in /dev/shm beyond NCCL's need, for DataLoader workers")
	flags.String("disk_free", humanize.IBytes(uint64(usual.DiskFree)), "space that must be free where the launch writes")
	flags.Float64("memory_free", usual.MemoryFree, "share of a node's memory that must be available")
	flags.Duration("clock_skew", time.Duration(usual.ClockSkew*float64(time.Second)), "how far two clocks may differ")
	flags.Int64("open_files", usual.OpenFiles, "hard limit on open files wanted")
	flags.String("compute_rate", "", "with --smoke, the least of every rank, as 600TFLOP/s")
	flags.String("copy_rate", "", "with --smoke, the least between the host and each GPU, as 20GB/s")
	flags.String("node_reduce_rate", "", "with --smoke, the least of each rank's link while those of a node reduce, as 300GB/s")
	flags.String("reduce_rate", "", "with --smoke, the same while all ranks do")
}

func outputFlags(cmd *cobra.Command, names []string) {
	formatFlag(cmd, names...)
	flags := cmd.Flags()
	flags.StringArrayP("output", "o", nil, "write the report to this `file`, in the format of its ending (- is standard output), or several at once: junit=report.xml,json=run.json")
	flags.BoolP("verbose", "v", false, "show every difference and every check")
	flags.BoolP("quiet", "q", false, "verdict and findings only, no progress")
}

func progressFlag(flags *pflag.FlagSet) {
	flags.String("progress", progress.Auto, "show on standard error how far the run is: auto (one line that changes, on a terminal only), plain (a new line for each step, for logs) or none")
}

// hostListFlags adds the flags that part the nodes into those to launch on and the
// others.
func hostListFlags(flags *pflag.FlagSet) {
	flags.String("good-hosts", "", "write a hostfile of the nodes that nothing is wrong with to this `file`")
	flags.String("bad-hosts", "", "write the names of the nodes that something is wrong with to this `file`")
}

// deepspeedSpelling lists the flags that deepspeed has too: they are shown
// with its underscores. Ours are shown with hyphens. Either spelling works.
var deepspeedSpelling = []string{"num_nodes", "num_gpus", "force_multi", "master_addr", "master_port", "ssh_port"}

func bothSpellings(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if underscored := strings.ReplaceAll(name, "-", "_"); slices.Contains(deepspeedSpelling, underscored) {
		return pflag.NormalizedName(underscored)
	}
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// policy turns the thresholds, and what the file states, into what checks understand.
func (c Config) policy() (checks.Policy, error) {
	policy := checks.Policy{
		File: c.Stated.File, Today: time.Now().Format(time.DateOnly), Expect: c.Stated.Expect, Severities: c.Stated.Severities, Drift: c.Stated.Drift, Waivers: c.Stated.Waivers, Groups: c.Stated.Groups, KnownBad: c.Stated.KnownBad,
		Skip: slices.Clone(c.Stated.Off), Strict: c.Strict, ClockSkew: c.ClockSkew.Seconds(), MemoryFree: c.MemoryFree, OpenFiles: c.OpenFiles,
	}
	for _, pattern := range c.Only {
		policy.Only = append(policy.Only, policyfile.ChecksNamed(pattern)...)
	}
	for _, pattern := range c.Skip {
		policy.Skip = append(policy.Skip, policyfile.ChecksNamed(pattern)...)
	}
	if !slices.ContainsFunc(catalogue.Catalogue, func(check checks.Check) bool { return !policy.SwitchesOff(check.ID) }) {
		return policy, errors.New("--only, --skip and the severities of the policy leave no check to run: take one of them out")
	}
	var err, also error
	policy.SHMHeadroom, err = agreement.ReadSize(c.SHMHeadroom)
	policy.DiskFree, also = agreement.ReadSize(c.DiskFree)
	err = errors.Join(err, also)
	for _, floor := range []struct {
		stated string
		read   func(string) (float64, error)
		into   *float64
	}{
		{c.ComputeRate, agreement.ReadComputeRate, &policy.ComputeRate},
		{c.CopyRate, agreement.ReadBitRate, &policy.CopyRate},
		{c.NodeReduceRate, agreement.ReadBitRate, &policy.NodeReduceRate},
		{c.ReduceRate, agreement.ReadBitRate, &policy.ReduceRate},
	} {
		if floor.stated != "" {
			var wrong error
			*floor.into, wrong = floor.read(floor.stated)
			err = errors.Join(err, wrong)
		}
	}
	return policy, err
}

// fileFor is --config, else preflight.yaml beside the hostfile of the launch, else the
// one in the user's configuration directory, else none.
func (c *Config) fileFor(flags *pflag.FlagSet, launch asTyped) (string, error) {
	if named, _ := flags.GetString("config"); named != "" {
		return named, nil
	}
	var hosts string
	hosts, c.unread = launchHostfile(flags, launch)
	candidates := []string{besideHostfile(hosts)}
	if dir, err := os.UserConfigDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "preflight", "preflight.yaml"))
	}
	for _, file := range candidates {
		switch _, err := os.Stat(file); {
		case err == nil:
			return file, keptFromOthers(file)
		case !errors.Is(err, os.ErrNotExist):
			return "", policyfile.Unreadable(file, err)
		}
	}
	return "", nil
}

// besideHostfile is where the policy of a hostfile lies: in the current directory where
// there is no hostfile.
func besideHostfile(hosts string) string { return filepath.Join(filepath.Dir(hosts), "preflight.yaml") }

// nearestHostfile is the one that nobody needs to name: hostfile in this directory, which
// DeepSpeed does not look for, else DeepSpeed's own, be it there or not.
func nearestHostfile() string {
	const here = "hostfile"
	if info, err := os.Stat(here); err == nil && info.Mode().IsRegular() {
		return here
	}
	return hostfile.DefaultPath
}

// launchHostfile is the hostfile that a launch will read, as far as that is known before
// the configuration: that of -H or the environment, the command's own, or the nearest
// where there is one. It is "" where hosts come from elsewhere.
func launchHostfile(flags *pflag.FlagSet, launch asTyped) (string, error) {
	set := func(key string) string {
		if flag := flags.Lookup(key); flag != nil && flag.Changed {
			return flag.Value.String()
		}
		return os.Getenv(variable(key))
	}
	hosts, err := nearestHostfile(), error(nil)
	switch {
	case set("hostfile") != "":
		return set("hostfile"), nil
	case flags.Lookup("hostfile") == nil, set("hosts") != "", set("jobid") != "":
		return "", nil
	case len(launch.command) > 0:
		hosts, err = args.HostfileOf(launch.command, args.Surroundings{Getenv: os.Getenv, ReadFile: os.ReadFile})
		if hosts != "" && launch.dir != "" && !filepath.IsAbs(hosts) {
			hosts = filepath.Join(launch.dir, hosts)
		}
	case srun.Own().Nodes != "":
		return "", nil
	}
	if _, missing := os.Stat(hosts); hosts == hostfile.DefaultPath && errors.Is(missing, fs.ErrNotExist) {
		return "", err // as DeepSpeed goes on without it
	}
	return hosts, err
}

// readFile reads the configuration file, if there is one. Its paths start in its directory.
func readFile(name string, all []setting) (policyfile.Policy, error) {
	var known []policyfile.Setting
	for _, s := range all {
		known = append(known, policyfile.Setting{Key: s.key, List: s.isList(), Takes: allowed[s.flag.Value.Type()], Split: s.split, Wrong: s.wrong})
	}
	policy, err := policyfile.Read(name, known)
	for _, s := range all {
		for i, value := range policy.Settings[s.key].Values {
			policy.Settings[s.key].Values[i] = s.relativeTo(filepath.Dir(name), value)
		}
	}
	return policy, err
}
