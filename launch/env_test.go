// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/secret"
	"preflight/testhosts/launchtest"
)

// shown returns "NAME=VALUE" for every setting.
func shown(settings []facts.Setting) []string {
	var all []string
	for _, s := range settings {
		all = append(all, s.Name+"="+s.Value)
	}
	return all
}

func traps(notes []hostfile.Note) []string {
	var all []string
	for _, note := range notes {
		all = append(all, note.ID)
	}
	return all
}

func TestExports(t *testing.T) {
	head := launchtest.Env("environment", "NCCL_DEBUG=INFO", "NCCL_IB_HCA=mlx5_0", "PYTHONHASHSEED=0", "UCX_TLS=rc", "UCX_NET_DEVICES=mlx5_0:1",
		"MV2_USE_CUDA=1", "LD_LIBRARY_PATH=/opt/lib", "TORCH_NCCL_TRACE_BUFFER_SIZE=1", "GLOO_SOCKET_IFNAME=eth0", "DEEPSPEED_TIMEOUT=10")
	file := func(path string, lines ...string) facts.EnvFile { return facts.EnvFile{Path: path, Lines: lines} }
	pdsh := exporter{Launcher: "pdsh", Accelerator: "cuda", WorkDir: "/job"}
	with := func(x exporter, change func(*exporter)) exporter { change(&x); return x }

	for _, c := range []struct {
		name  string
		by    exporter
		head  []facts.Setting
		files []facts.EnvFile
		want  []string
		traps []string
	}{
		{"nothing but the path", pdsh, nil, nil, []string{"PYTHONPATH=/job"}, nil},
		{"the working directory comes first", pdsh, launchtest.Env("", "PYTHONPATH=/lib:/more"), nil, []string{"PYTHONPATH=/job:/lib:/more"}, nil},
		{"by prefix, cuda", pdsh, head, nil, []string{"MV2_USE_CUDA=1", "NCCL_DEBUG=INFO", "NCCL_IB_HCA=mlx5_0",
			"PYTHONHASHSEED=0", "PYTHONPATH=/job", "UCX_NET_DEVICES=mlx5_0:1", "UCX_TLS=rc"}, nil},
		{"by prefix, cpu", with(pdsh, func(x *exporter) { x.Accelerator = "cpu" }), head, nil, []string{"MV2_USE_CUDA=1",
			"PYTHONHASHSEED=0", "PYTHONPATH=/job", "UCX_NET_DEVICES=mlx5_0:1", "UCX_TLS=rc"}, nil},
		{"NCCL for all before v0.12.6", with(pdsh, func(x *exporter) { x.Accelerator = "cpu"; x.DeepSpeed = "0.12.5" }),
			launchtest.Env("", "NCCL_DEBUG=INFO"), nil, []string{"NCCL_DEBUG=INFO", "PYTHONPATH=/job"}, nil},
		{"prefix, not part", pdsh, launchtest.Env("", "TORCH_NCCL_X=1", "NCCLX=1"), nil, []string{"NCCLX=1", "PYTHONPATH=/job"}, nil},
		{"AISC keeps two to itself", pdsh, launchtest.Env("", "AISC_JOB_NAME=x", "NCCL_IB_HCA=mlx5_0", "UCX_NET_DEVICES=a", "UCX_TLS=rc"), nil,
			[]string{"PYTHONPATH=/job", "UCX_TLS=rc"}, nil},
		{"files export anything, the later wins", pdsh, launchtest.Env("", "NCCL_DEBUG=INFO"),
			[]facts.EnvFile{file("/home/u/.deepspeed_env", "NCCL_DEBUG=WARN", "HF_HOME=/hf"), file("/job/.deepspeed_env", "NCCL_DEBUG = TRACE ", "PYTHONPATH=/mine")},
			[]string{"HF_HOME=/hf", "NCCL_DEBUG=TRACE", "PYTHONPATH=/mine"}, nil},
		{"stripped", pdsh, launchtest.Env("", "NCCL_DEBUG= INFO "), nil, []string{"NCCL_DEBUG=INFO", "PYTHONPATH=/job"}, nil},
		{"live in the shell", pdsh, launchtest.Env("", "NCCL_TOPO_FILE=$HOME/t.xml"), nil, []string{"NCCL_TOPO_FILE=$HOME/t.xml", "PYTHONPATH=/job"}, []string{"export-reread"}},
		{"pdsh's own", pdsh, launchtest.Env("", "NCCL_DEBUG_FILE=/tmp/n.%h.%p"), nil, []string{"NCCL_DEBUG_FILE=/tmp/n.%h.%p", "PYTHONPATH=/job"}, []string{"export-reread"}},
		{"quoted and unharmed", pdsh, launchtest.Env("", "NCCL_SOCKET_IFNAME=^docker0"), nil, []string{"NCCL_SOCKET_IFNAME=^docker0", "PYTHONPATH=/job"}, nil},
		{"quoted since v0.15.2 only", with(pdsh, func(x *exporter) { x.DeepSpeed = "0.15.1" }), launchtest.Env("", "PYTHONWARNINGS=a b"), nil,
			[]string{"PYTHONPATH=/job", "PYTHONWARNINGS=a b"}, []string{"export-reread"}},
		{"the same when quoted", pdsh, launchtest.Env("", "PYTHONWARNINGS=a b"), nil, []string{"PYTHONPATH=/job", "PYTHONWARNINGS=a b"}, nil},
		{"quotes arrive without a shell", with(pdsh, func(x *exporter) { x.Launcher = "openmpi" }), launchtest.Env("", "NCCL_SOCKET_IFNAME=^docker0", "NCCL_DEBUG=INFO"), nil,
			[]string{"NCCL_DEBUG=INFO", `NCCL_SOCKET_IFNAME="^docker0"`, "PYTHONPATH=/job", "UCX_TLS=tcp"}, []string{"export-keeps-quotes"}},
		{"always quoted before v0.16.5", with(pdsh, func(x *exporter) { x.Launcher = "mpich"; x.DeepSpeed = "0.16.4" }), launchtest.Env("", "NCCL_DEBUG=INFO"), nil,
			[]string{`NCCL_DEBUG="INFO"`, `PYTHONPATH="/job"`}, []string{"export-keeps-quotes", "export-keeps-quotes"}},
		{"the environment overrides the launcher's own", with(pdsh, func(x *exporter) { x.Launcher = "openmpi" }), launchtest.Env("", "UCX_TLS=rc"), nil,
			[]string{"PYTHONPATH=/job", "UCX_TLS=rc"}, nil},
		{"slurm sends all, unquoted", with(pdsh, func(x *exporter) { x.Launcher = "slurm" }), launchtest.Env("", "LD_LIBRARY_PATH=/a b", "NCCL_DEBUG=INFO"), nil,
			[]string{"LD_LIBRARY_PATH=/a b", "NCCL_DEBUG=INFO", "PYTHONPATH=/job"}, nil},
		{"mvapich on cpu", exporter{Launcher: "mvapich", Accelerator: "cpu", WorkDir: "/job"}, nil, nil, []string{"MV2_CUDA_USE_NAIVE=0", "MV2_DEBUG_SHOW_BACKTRACE=1",
			"MV2_ENABLE_AFFINITY=0", "MV2_INTER_ALLGATHER_TUNING=5", "MV2_SMP_USE_CMA=0", "MV2_SUPPORT_DL=1", "PYTHONPATH=/job"}, nil},
	} {
		settings, notes := c.by.Settings(&facts.Env{Vars: c.head}, c.files)
		if diff := cmp.Diff(c.want, shown(settings)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.traps, traps(notes)); diff != "" {
			t.Errorf("%s: notes (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestExportsSayWhere(t *testing.T) {
	x := exporter{Launcher: "slurm", Accelerator: "cuda", WorkDir: "/job"}
	got, _ := x.Settings(&facts.Env{Vars: launchtest.Env("", "NCCL_DEBUG=INFO", "PATH=/bin")}, []facts.EnvFile{{Path: "/home/u/.deepspeed_env", Lines: []string{"A=1"}}})
	want := []facts.Setting{
		{Name: "A", Value: "1", Source: "/home/u/.deepspeed_env"},
		{Name: "NCCL_DEBUG", Value: "INFO", Source: "environment"},
		{Name: "PATH", Value: "/bin", Source: "srun --export=ALL"},
		{Name: "PYTHONPATH", Value: "/job", Source: "deepspeed"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got, _ := x.Settings(nil, nil); len(got) != 1 {
		t.Errorf("of an unseen launching machine: %v, want PYTHONPATH alone", got)
	}
}

func TestParseEnvFile(t *testing.T) {
	const dies = "ValueError: not enough values to unpack (expected 2, got 1)"
	for _, c := range []struct {
		line      string
		want      string // "" if the line sets nothing
		deepspeed string
		problem   string
	}{
		{line: "A=1", want: "A=1"},
		{line: " A = 1 ", want: "A=1"},
		{line: "A=", want: "A="},
		{line: "A=b=c", want: "A=b=c"},
		{line: `A="x"`, want: `A="x"`},
		{line: "export A=1", want: "A=1"},
		{line: "", deepspeed: dies, problem: "blank lines"},
		{line: "  ", deepspeed: dies, problem: "blank lines"},
		{line: "# a comment", deepspeed: dies, problem: "comments"},
		{line: "A", deepspeed: dies, problem: "NAME=VALUE"},
		{line: "# A=1", problem: "report success"},
		{line: "=1", problem: "not a variable name"},
		{line: "1A=1", problem: "not a variable name"},
		{line: "A-B=1", problem: "not a variable name"},
		{line: "A B=1", problem: "not a variable name"},
	} {
		settings, problems := ParseEnvFile(facts.EnvFile{Path: "/job/.deepspeed_env", Lines: []string{"X=0", c.line}})
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if diff := cmp.Diff(append([]string{"X=0"}, want...), shown(settings)); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", c.line, diff)
		}
		if c.problem == "" {
			if len(problems) > 0 {
				t.Errorf("%q: %v", c.line, problems)
			}
			continue
		}
		if len(problems) != 1 || problems[0].Line != 2 || problems[0].File != "/job/.deepspeed_env" ||
			problems[0].DeepSpeed != c.deepspeed || !strings.Contains(problems[0].Message, c.problem) {
			t.Errorf("%q: %+v, want line 2 with %q and %q", c.line, problems, c.problem, c.deepspeed)
		}
	}
	_, problems := ParseEnvFile(facts.EnvFile{Path: "/job/.deepspeed_env", Error: "permission denied"})
	if len(problems) != 1 || problems[0].Line != 0 {
		t.Errorf("unreadable file: %+v", problems)
	}
}

func TestRankEnv(t *testing.T) {
	nccl := func(pairs ...string) []facts.Setting { // each pair is NAME=VALUE@SOURCE
		var settings []facts.Setting
		for _, pair := range pairs {
			rest, source, _ := strings.Cut(pair, "@")
			settings = append(settings, launchtest.Env(source, rest)...)
		}
		return settings
	}
	for _, c := range []struct {
		name    string
		node    *facts.Env
		exports []facts.Setting
		want    []string
	}{
		{"unseen node", nil, launchtest.Env("", "A=1"), []string{"A=1"}},
		{"nothing", &facts.Env{}, nil, nil},
		{"exports over the session", &facts.Env{Vars: launchtest.Env("", "NCCL_DEBUG=WARN", "B=2")}, launchtest.Env("", "NCCL_DEBUG=INFO"), []string{"B=2", "NCCL_DEBUG=INFO"}},
		{"files below both", &facts.Env{Vars: launchtest.Env("", "NCCL_A=1"), NCCL: nccl("NCCL_A=1@environment", "NCCL_B=file@/root/.nccl.conf", "NCCL_C=file@/etc/nccl.conf")},
			launchtest.Env("", "NCCL_B=2"), []string{"NCCL_A=1", "NCCL_B=2", "NCCL_C=file"}},
		{"an exported file replaces the home's", &facts.Env{NCCL: nccl("NCCL_B=home@/root/.nccl.conf", "NCCL_C=system@/etc/nccl.conf")},
			launchtest.Env("", "NCCL_CONF_FILE=/job/nccl.conf"), []string{"NCCL_C=system", "NCCL_CONF_FILE=/job/nccl.conf"}},
		{"and is known when the node looked at it", &facts.Env{NCCL: nccl("NCCL_B=job@/job/nccl.conf")},
			launchtest.Env("", "NCCL_CONF_FILE=/job/nccl.conf"), []string{"NCCL_B=job", "NCCL_CONF_FILE=/job/nccl.conf"}},
	} {
		if diff := cmp.Diff(c.want, shown(RankEnv(c.node, c.exports).All())); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// TestExportsByRelease checks the exports of the last release before each change, and of the first
// release after it.
func TestExportsByRelease(t *testing.T) {
	vars := launchtest.Env("", "AISC_JOB_NAME=x", "AZUREML_RUN_ID=1", "MASTER_HOST=h", "MLFLOW_URI=u", "NCCL_IB_HCA=m", "UCX_TLS=rc")
	home := facts.EnvFile{Path: "/home/u/.deepspeed_env", Lines: []string{"A=home"}}
	work := facts.EnvFile{Path: "/job/.deepspeed_env", Lines: []string{"B=work"}}
	other := facts.EnvFile{Path: "/job/cluster.env", Lines: []string{"C=other"}}
	const nebula = "AZUREML_RUN_ID=1 MASTER_HOST=h "
	for _, c := range []struct {
		release, launcher, accelerator string
		vars                           []facts.Setting
		files                          []facts.EnvFile
		want                           string
	}{
		{"0.6.7", "pdsh", "cuda", vars, nil, "NCCL_IB_HCA=m PYTHONPATH=/job UCX_TLS=rc"},
		{"0.7.0", "pdsh", "cuda", vars, nil, nebula + "NCCL_IB_HCA=m PYTHONPATH=/job UCX_TLS=rc"},
		{"0.7.5", "pdsh", "cuda", vars, nil, nebula + "MLFLOW_URI=u NCCL_IB_HCA=m PYTHONPATH=/job UCX_TLS=rc"},
		{"0.9.2", "pdsh", "cuda", vars, nil, nebula + "MLFLOW_URI=u NCCL_IB_HCA=m PYTHONPATH=/job UCX_TLS=rc"},
		{"0.9.3", "pdsh", "cuda", vars, nil, nebula + "MLFLOW_URI=u PYTHONPATH=/job UCX_TLS=rc"},
		{"0.19.6", "pdsh", "cuda", vars, nil, nebula + "MLFLOW_URI=u PYTHONPATH=/job UCX_TLS=rc"},
		{"0.19.7", "pdsh", "cuda", vars, nil, "MLFLOW_URI=u PYTHONPATH=/job UCX_TLS=rc"},
		{"0.12.5", "pdsh", "cpu", launchtest.Env("", "NCCL_X=1"), nil, "NCCL_X=1 PYTHONPATH=/job"},
		{"0.12.6", "pdsh", "cpu", launchtest.Env("", "NCCL_X=1"), nil, "PYTHONPATH=/job"},
		{"0.12.6", "pdsh", "cuda", launchtest.Env("", "NCCL_X=1"), nil, "NCCL_X=1 PYTHONPATH=/job"},

		{"0.10.0", "pdsh", "cuda", nil, []facts.EnvFile{home, other}, "A=home PYTHONPATH=/job"},
		{"0.10.0", "pdsh", "cuda", nil, []facts.EnvFile{home, work}, "A=home B=work PYTHONPATH=/job"},
		{"0.10.1", "pdsh", "cuda", nil, []facts.EnvFile{home, work}, "B=work PYTHONPATH=/job"},
		{"0.13.0", "pdsh", "cuda", nil, []facts.EnvFile{home, other}, "C=other PYTHONPATH=/job"},
		{"0.13.0", "pdsh", "cuda", nil, []facts.EnvFile{home}, "A=home PYTHONPATH=/job"},
		{"0.13.1", "pdsh", "cuda", nil, []facts.EnvFile{home, work}, "A=home B=work PYTHONPATH=/job"},

		{"0.9.1", "mpich", "cuda", vars, []facts.EnvFile{home}, ""},
		{"0.9.2", "mpich", "cuda", nil, []facts.EnvFile{home}, "A=home PYTHONPATH=/job"},
		{"0.11.1", "impi", "cuda", nil, nil, "PYTHONPATH=/job"},
		{"0.11.2", "impi", "cuda", nil, []facts.EnvFile{{Path: "/f", Lines: []string{"I_MPI_PIN=1"}}}, "I_MPI_PIN=0 PYTHONPATH=/job"},
		{"0.8.0", "mvapich", "cpu", nil, nil, "MV2_CUDA_USE_NAIVE=0 MV2_DEBUG_SHOW_BACKTRACE=1 MV2_ENABLE_AFFINITY=0 MV2_INTER_ALLGATHER_TUNING=5 " +
			"MV2_SMP_USE_CMA=0 MV2_SUPPORT_DL=1 MV2_USE_CUDA=1 PYTHONPATH=/job"},
	} {
		x := exporter{Launcher: c.launcher, Accelerator: c.accelerator, WorkDir: "/job", DeepSpeed: c.release}
		settings, _ := x.Settings(&facts.Env{Vars: c.vars}, c.files)
		if diff := cmp.Diff(c.want, strings.Join(shown(settings), " ")); diff != "" {
			t.Errorf("%s %s: (-want +got)\n%s", c.release, c.launcher, diff)
		}
	}
}

// TestExportsOfWithheldValues: a value that was not collected is exported too, without notes about
// it.
func TestExportsOfWithheldValues(t *testing.T) {
	head := &facts.Env{Withheld: []string{"MLFLOW_TRACKING_TOKEN", "UCX_KEY"}}
	for _, launcher := range []string{"pdsh", "openmpi"} {
		x := exporter{Launcher: launcher, Accelerator: "cuda", WorkDir: "/job", DeepSpeed: "0.16.0"}
		settings, notes := x.Settings(head, nil)
		if settings[0] != (facts.Setting{Name: "MLFLOW_TRACKING_TOKEN", Value: "…", Source: "environment"}) {
			t.Errorf("%s: %+v", launcher, settings)
		}
		for _, note := range notes {
			if strings.Contains(note.Message, "…") {
				t.Errorf("%s: %+v", launcher, note)
			}
		}
	}
	x := exporter{Launcher: "pdsh", DeepSpeed: "0.7.4"}
	if settings, _ := x.Settings(head, nil); len(settings) != 2 {
		t.Errorf("before MLFLOW was exported: %+v, want UCX_KEY and PYTHONPATH", settings)
	}
}

// TestQuoted compares with the results of add_export and, before 0.6.2, of shlex.quote.
func TestQuoted(t *testing.T) {
	for _, c := range []struct{ release, value, want string }{
		{"0.6.1", "a", "a"},
		{"0.6.1", "", "''"},
		{"0.6.1", "a b", "'a b'"},
		{"0.6.1", "it's", `'it'"'"'s'`},
		{"0.6.1", "é", "'é'"},
		{"0.6.2", "a b", "a b"},
		{"0.15.1", "a b", "a b"},
		{"0.15.2", "a", `"a"`},
		{"0.16.4", "", `""`},
		{"0.16.5", "", ""},
		{"0.16.5", "Az09_é@%+=:,./-", "Az09_é@%+=:,./-"},
		{"", "a b", `"a b"`},
		{"", `a"b`, `"a"b"`},
		{"", "^mlx5", `"^mlx5"`},
		{"", secret.Hidden, secret.Hidden},
	} {
		if got := (exporter{DeepSpeed: c.release}).quoted(c.value); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.release, c.value, got, c.want)
		}
	}
}

// TestAccelerateExports: accelerate appends its environment to .deepspeed_env, which deepspeed then
// reads.
func TestAccelerateExports(t *testing.T) {
	head := seen("DEEPSPEED_TIMEOUT=7", "HF_HOME=/hf", "LD_LIBRARY_PATH=/opt/lib", "NCCL_DEBUG=WARN", "NCCL_TOPO_FILE=a b", "PYTHONPATH=:/lib", "TORCH_X=", "TORCH_Y=a b", "TORCH_Z=a;b")
	head.Launcher = &facts.Launcher{EnvFiles: []facts.EnvFile{{Path: "/job/.deepspeed_env", Lines: []string{"HF_HOME=/mine", "NCCL_TOPO_FILE=/mine", "OWN=1"}}}}
	predict := func(program string) Prediction {
		p, err := Predict(job("pdsh", func(o *Options) { o.Program = program }), head)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := predict(ProgramAccelerate)
	const by, file = byAccelerate, "/job/.deepspeed_env"
	want := slices.Concat(launchtest.Env(by, "DEEPSPEED_TIMEOUT=7", "HF_HOME=/hf", "LD_LIBRARY_PATH=/opt/lib", "NCCL_DEBUG=WARN"), launchtest.Env(file, "NCCL_TOPO_FILE=/mine", "OWN=1"), launchtest.Env(by, "PYTHONPATH=/lib:/job"))
	if diff := cmp.Diff(want, p.Exports); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if p.Timeout != 7*60 {
		t.Errorf("timeout %v, want that of the variable", p.Timeout)
	}
	if path := p.CommandEnv[slices.IndexFunc(p.CommandEnv, func(s facts.Setting) bool { return s.Name == "PYTHONPATH" })].Value; path != "/job:/lib:/job" {
		t.Errorf("deepspeed's own PYTHONPATH is %s", path)
	}
	if by := predict(ProgramDeepSpeed).Exports[0]; by.Name != "HF_HOME" || by.Source != file {
		t.Errorf("without accelerate %+v comes first", by)
	}
}

// TestSetByCommand: variables set before torchrun on every node reach the ranks. For DeepSpeed only
// its own rules for exports count.
func TestSetByCommand(t *testing.T) {
	head := &facts.Node{Facts: facts.Facts{Env: &facts.Env{Vars: []facts.Setting{{Name: "NCCL_DEBUG", Value: "INFO"}, {Name: "PATH", Value: "/bin"}}}}}
	o := Options{Program: ProgramTorchrun, Rendezvous: RendezvousC10d, RdzvEndpoint: "w1", Hosts: hosts(8, 8), Set: []string{"NCCL_DEBUG", "HF_TOKEN", "NCCL_DEBUG"}}
	p, err := Predict(o, head)
	want := []facts.Setting{{Name: "HF_TOKEN", Value: "…", Source: ByCommand}, {Name: "NCCL_DEBUG", Value: "INFO", Source: ByCommand}}
	if diff := cmp.Diff(want, p.Exports); err != nil || diff != "" {
		t.Errorf("%v, exports (-want +got):\n%s", err, diff)
	}
	o.Program, o.Rendezvous, o.Set = ProgramDeepSpeed, "", []string{"OMP_NUM_THREADS"}
	p, err = Predict(o, head)
	if err != nil || slices.ContainsFunc(p.Exports, func(s facts.Setting) bool { return s.Source == ByCommand }) {
		t.Errorf("%v, exports of DeepSpeed: %v", err, p.Exports)
	}
}

// TestLastFile finds the file whose lines count, so that a new line takes effect.
func TestLastFile(t *testing.T) {
	home, job, other := facts.EnvFile{Path: "/root/.deepspeed_env"}, facts.EnvFile{Path: "/job/.deepspeed_env"}, facts.EnvFile{Path: "/root/launch.env"}
	for name, c := range map[string]struct {
		variable, release string // DS_ENV_FILE and DeepSpeed's version
		files             []facts.EnvFile
		want              string
	}{
		"no file":                      {},
		"in the home":                  {files: []facts.EnvFile{home}},
		"in both":                      {files: []facts.EnvFile{home, job}, want: job.Path},
		"another, in the home":         {variable: "launch.env", files: []facts.EnvFile{other}, want: other.Path},
		"another, which is missing":    {variable: "launch.env", want: "/job/launch.env"},
		"an absolute one":              {variable: "/etc/launch.env", want: "/etc/launch.env"},
		"a tilde, which is not a home": {variable: "~/launch.env"},
		"before DS_ENV_FILE":           {variable: "/etc/launch.env", release: "0.10.0", files: []facts.EnvFile{home}},
	} {
		head := &facts.Env{}
		if c.variable != "" {
			head.Vars = []facts.Setting{{Name: "DS_ENV_FILE", Value: c.variable}}
		}
		x := exporter{Launcher: "pdsh", WorkDir: "/job", DeepSpeed: c.release}
		if got := x.lastFile(head, c.files); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
