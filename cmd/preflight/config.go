// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/cmd/preflight/internal/policyfile"
	"preflight/cmd/preflight/internal/progress"
	"preflight/cmd/preflight/internal/usage"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/args"
	"preflight/remote/kubectl"
	"preflight/remote/meet"
	"preflight/remote/srun"
)

// Config holds all settings. Flags override PREFLIGHT_* variables, which override preflight.yaml.
// Names that may contain dots or capitals (hosts, environment variables) are values, never keys,
// because viper lower-cases keys and splits them at dots.
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
	Rehearse    int           `mapstructure:"rehearse"` // how often the flag is given
	RehearseFor time.Duration `mapstructure:"rehearse_time"`
	DryRun      bool          `mapstructure:"dry_run"`
	WriteEnv    string        `mapstructure:"write_env"`
	Format      string        `mapstructure:"format"`
	Output      []string      `mapstructure:"output"`     // the method outputs reads it
	GoodHosts   string        `mapstructure:"good_hosts"` // path of a file
	BadHosts    string        `mapstructure:"bad_hosts"`  // path of a file
	Baseline    string        `mapstructure:"baseline"`   // path of a file
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
	MemoryFree  float64       `mapstructure:"memory_free"` // share from 0 to 1
	ClockSkew   time.Duration `mapstructure:"clock_skew"`
	OpenFiles   int64         `mapstructure:"open_files"`
	Shared      []string      `mapstructure:"shared"` // absolute paths

	ComputeRate    string `mapstructure:"compute_rate"` // "600TFLOP/s"
	CopyRate       string `mapstructure:"copy_rate"`    // "20GB/s"
	NodeReduceRate string `mapstructure:"node_reduce_rate"`
	ReduceRate     string `mapstructure:"reduce_rate"`

	Stated policyfile.Policy `mapstructure:"-"` // the content of the configuration file

	slurm   srun.Job          // the job of --jobid, otherwise the job in which preflight runs
	pods    *kubectl.Carrier  // set with --via kubectl, after askForPods
	meeting *meet.Carrier     // set with --via meet, once it listens
	cleans  bool              // the run starts no agents
	typed   typedLaunch       // the launch after "--"
	places  map[string]string // where each setting was set: "-w", "preflight.yaml:3: hosts"
	// unread is the error of reading the launch command before the configuration, nil if there was
	// none. If the command cannot be read, preflight cannot look for the policy file next to the
	// command's hostfile.
	unread error
}

func launchFlags(flags *pflag.FlagSet) {
	flags.VarP(&givenOnce{}, "hostfile", "H", "DeepSpeed hostfile (default: the Slurm job's nodes, else ./hostfile, else /job/hostfile)")
	flags.VarP(&givenOnce{}, "hosts", "w", "names of the nodes, instead of a hostfile: 'node[01-16],gpu7:4' (gpu7 with 4 slots)")
	flags.StringP("include", "i", "", "as in deepspeed: use only these nodes and slots: NAME[:SLOT,…][@NAME…]")
	flags.StringP("exclude", "e", "", "as in deepspeed: leave out these nodes or slots: NAME[:SLOT,…][@NAME…]")
	flags.Int("num_nodes", noLimit, "as in deepspeed: use only the first N nodes")
	flags.Int("num_gpus", noLimit, "as in deepspeed: use slots 0 to N-1 on every node")
	for _, name := range []string{"num_nodes", "num_gpus"} {
		flags.Lookup(name).DefValue = "all"
	}
	flags.Bool("force_multi", false, "as in deepspeed: use the launcher even for a single node")
	flags.String("master_addr", "", "as in deepspeed: address of the first node (default: the first word that hostname -I prints on that node)")
	flags.Int("master_port", launch.DefaultMasterPort, "as in deepspeed: rendezvous port on the first node")
	flags.String("launcher", launch.DefaultLauncher, "launcher, as in deepspeed: "+strings.Join(launch.LauncherNames(), ", "))
	flags.Int("ssh_port", 0, "as in deepspeed: ssh port on every node (default: from your ssh configuration)")
	flags.String("python", "", "absolute path of the launch's Python (default: that of the launching machine's deepspeed, else the nodes' python3)")
	flags.String("accelerator", "auto", "accelerator for the ranks: auto, cuda, or cpu with one process per slot")
	flags.String("rendezvous", launch.RendezvousDeepSpeed, "how the ranks find each other: deepspeed (also for plain env://), or torchrun's static or c10d")
	flags.String("rdzv-endpoint", "", "as in torchrun, with --rendezvous c10d: rendezvous address")
	flags.String("deepspeed_version", "", "read the hostfile and the filters as this DeepSpeed release does (default: the newest)")
	flags.String("via", viaAuto, viaUsage)
	flags.String("in", "", "check inside the container that this command enters: 'docker exec -i train'; {node} becomes the node's name")
	slurmFlags(flags)
	podFlags(flags)
	meetFlags(flags)
	flags.Duration("timeout", time.Minute, "time limit per node, from name lookup to the last answer")
}

// noLimit is the value of --num_nodes and --num_gpus that selects all, as in deepspeed.
const noLimit = -1

// givenOnce is the value of a flag that must not be given twice. If it were allowed, the first of
// two hostfiles would be silently ignored.
type givenOnce struct {
	value   string
	isGiven bool
}

func (g *givenOnce) Set(value string) error {
	if g.isGiven && value != g.value { // the shell's completion parses the same line twice
		return &givenTwiceError{g.value, value}
	}
	g.value, g.isGiven = value, true
	return nil
}

func (g *givenOnce) String() string { return g.value }
func (g *givenOnce) Type() string   { return "string" }

// givenTwiceError holds the two values of a flag that takes only one.
type givenTwiceError struct{ first, second string }

func (e *givenTwiceError) Error() string {
	return fmt.Sprintf("given twice: %q and %q", e.first, e.second)
}

func drillFlags(flags *pflag.FlagSet) {
	flags.Bool("throughput", false, "measure link throughput: every node sends data to the next node for a few seconds")
	smokeFlag(flags, "run compute and all-reduce tests on every rank with torch, direct (NVIDIA libraries) or auto; with a launch command, also --rehearse")
	flags.Duration("smoke-time", time.Minute, "time limit for all --smoke tests together")
	flags.Count("rehearse", "run the launch command with a stand-in script in place of the training; given twice, also on GPUs that are in use; --rehearse=0 turns it off")
	flags.Duration("rehearse-time", time.Minute, "time limit for --rehearse")
}

func smokeFlag(flags *pflag.FlagSet, use string) {
	flags.String("smoke", smokeNone, use)
	flags.Lookup("smoke").NoOptDefVal = smokeAuto
}

func judgeFlags(cmd *cobra.Command, names []string) {
	flags := cmd.Flags()
	flags.StringSlice("only", nil, `run only these checks; "gpu-*" selects those whose names begin with gpu-`)
	flags.StringSlice("skip", nil, "skip these checks")
	flags.Bool("strict", false, "treat warnings as failures")
	outputFlags(cmd, names)
	usual := checks.DefaultPolicy()
	flags.String("shm_headroom", humanize.IBytes(uint64(usual.SHMHeadroom)), "minimum space in /dev/shm for DataLoader workers, in addition to what NCCL needs")
	flags.String("disk_free", humanize.IBytes(uint64(usual.DiskFree)), "minimum free space on the disks that the launch writes to")
	flags.Float64("memory_free", usual.MemoryFree, "share of a node's memory that must be available, from 0 to 1")
	flags.Duration("clock_skew", time.Duration(usual.ClockSkew*float64(time.Second)), "maximum difference between the clocks of two machines")
	flags.StringSlice("shared", nil, "directories that all nodes must share; preflight writes files there and looks for them on the other nodes")
	flags.Int64("open_files", usual.OpenFiles, "minimum hard limit on open files")
	flags.String("compute_rate", "", "with --smoke: minimum compute rate of every rank, e.g. 600TFLOP/s")
	flags.String("copy_rate", "", "with --smoke: minimum copy rate between the host and each GPU, e.g. 20GB/s")
	flags.String("node_reduce_rate", "", "with --smoke: minimum all-reduce bandwidth per rank within a node, e.g. 300GB/s")
	flags.String("reduce_rate", "", "with --smoke: minimum all-reduce bandwidth per rank across all nodes, e.g. 45GB/s")
}

func outputFlags(cmd *cobra.Command, names []string) {
	formatFlag(cmd, names...)
	flags := cmd.Flags()
	flags.StringArrayP("output", "o", nil, "write the report to FILE, in the format of its extension or of a FORMAT= prefix; for several files: junit=report.xml,json=run.json")
	flags.BoolP("verbose", "v", false, "show every check and every difference")
	flags.BoolP("quiet", "q", false, "show only the verdict and the findings, without progress")
}

func progressFlag(flags *pflag.FlagSet) {
	flags.String("progress", progress.Auto, "how to show progress on standard error: auto (one live line, on terminals only), plain (one line per step, for logs) or none")
}

// hostListFlags adds the two flags that write the good nodes and the bad nodes to files.
func hostListFlags(flags *pflag.FlagSet) {
	flags.String("good-hosts", "", "write a hostfile that lists only the nodes without a problem")
	flags.String("bad-hosts", "", "write a list of the nodes that have a problem")
}

// deepspeedSpelling lists the flags that deepspeed also has. Help shows them with deepspeed's
// underscores, and all other flags with hyphens. Both spellings work.
var deepspeedSpelling = []string{"num_nodes", "num_gpus", "force_multi", "master_addr", "master_port", "ssh_port"}

func bothSpellings(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if underscored := strings.ReplaceAll(name, "-", "_"); slices.Contains(deepspeedSpelling, underscored) {
		return pflag.NormalizedName(underscored)
	}
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// policy returns the limits and the content of the configuration file in the form that checks need.
func (c Config) policy() (checks.Policy, error) {
	policy := checks.Policy{
		File: c.Stated.File, Today: time.Now().Format(time.DateOnly), Expect: c.Stated.Expect, Severities: c.Stated.Severities, Drift: c.Stated.Drift, Waivers: c.Stated.Waivers, Groups: c.Stated.Groups, KnownBad: c.Stated.KnownBad,
		Skip: slices.Clone(c.Stated.Off), Strict: c.Strict, ClockSkew: c.ClockSkew.Seconds(), MemoryFree: c.MemoryFree, OpenFiles: c.OpenFiles, Shared: c.Shared,
	}
	for _, pattern := range c.Only {
		policy.Only = append(policy.Only, policyfile.ChecksNamed(pattern)...)
	}
	for _, pattern := range c.Skip {
		policy.Skip = append(policy.Skip, policyfile.ChecksNamed(pattern)...)
	}
	if !slices.ContainsFunc(catalogue.Catalogue, func(check checks.Check) bool { return !policy.SwitchesOff(check.ID) }) {
		return policy, errors.New("--only, --skip and the severities in preflight.yaml leave no check to run: remove one of them")
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

// fileFor returns the path of the configuration file. It is the file of --config, or else
// preflight.yaml next to the launch's hostfile, or else the file in the user's configuration
// directory. It is "" if no such file exists.
func (c *Config) fileFor(flags *pflag.FlagSet, launch typedLaunch) (string, error) {
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
			return file, refuseWritableByOthers(file)
		case !errors.Is(err, os.ErrNotExist):
			return "", policyfile.Unreadable(file, err)
		}
	}
	return "", nil
}

// besideHostfile returns the path of the policy file that belongs to a hostfile. If there is no
// hostfile, the policy file is in the current directory.
func besideHostfile(hosts string) string { return filepath.Join(filepath.Dir(hosts), "preflight.yaml") }

// nearestHostfile returns the hostfile that users need not name. It is ./hostfile if that exists,
// which DeepSpeed does not look for. Otherwise it is DeepSpeed's default path, whether the file
// exists or not.
func nearestHostfile() string {
	const here = "hostfile"
	if info, err := os.Stat(here); err == nil && info.Mode().IsRegular() {
		return here
	}
	return hostfile.DefaultPath
}

// launchHostfile returns the hostfile that a launch will read, as far as it is known before the
// configuration is read. It is the hostfile of -H or of the environment, or else that of the
// command, or else the nearest one that exists. The result is "" if the hosts come from elsewhere.
func launchHostfile(flags *pflag.FlagSet, launch typedLaunch) (string, error) {
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
		return "", err // DeepSpeed also continues without a hostfile
	}
	return hosts, err
}

// readFile reads the configuration file, if there is one. Paths in it are relative to its
// directory.
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

// refuseWritableByOthers returns an error if users other than this user and root can write or
// replace a configuration file that the user did not name. The file decides which programs run on
// every node.
func refuseWritableByOthers(file string) error {
	for _, path := range []string{file, filepath.Dir(file)} {
		info, err := os.Stat(path)
		if err != nil {
			return nil // reading it will report the error
		}
		if why := writers(info); why != "" {
			return usage.WithHint(fmt.Errorf("refused policy file %s: %s %s, and the file can run commands on the nodes", file, path, why),
				"if you trust it, name it: --config %s; otherwise take it from the others: chown %s %s; chmod go-w %s", file, strconv.Itoa(os.Geteuid()), path, path)
		}
	}
	return nil
}

// writers describes who else, apart from this user and root, can write a file or create files in a
// directory. It returns "" if no other user can.
func writers(info fs.FileInfo) string {
	mode := info.Mode()
	if info.IsDir() && mode&fs.ModeSticky != 0 {
		mode &^= 0o022 // in a sticky directory, only the owner can replace a file, and the owner is checked
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return ""
	case is.Uid != 0 && int(is.Uid) != os.Geteuid() && !(os.Geteuid() == 0 && strconv.Itoa(int(is.Uid)) == os.Getenv("SUDO_UID")):
		return fmt.Sprintf("belongs to user %d", is.Uid)
	case mode&0o002 != 0:
		return "is writable by everybody"
	case mode&0o020 != 0 && is.Gid != 0 && !isOurAlone(is.Gid):
		return fmt.Sprintf("is writable by group %d", is.Gid)
	}
	return ""
}

// isOurAlone reports whether a group is the user's private group, which distributions name after
// the user.
func isOurAlone(gid uint32) bool {
	if int(gid) != os.Getegid() {
		return false
	}
	group, err := user.LookupGroupId(strconv.Itoa(int(gid)))
	us, unknown := user.Current()
	if err != nil || unknown != nil {
		return int(gid) == os.Geteuid()
	}
	return group.Name == us.Username
}
