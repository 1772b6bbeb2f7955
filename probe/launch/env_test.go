// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

func TestAllowed(t *testing.T) {
	tests := map[string]bool{
		"NCCL_SOCKET_IFNAME":          true,
		"NCCL_IB_PKEY":                true, // PKEY is a partition, not a secret
		"TORCH_NCCL_BLOCKING_WAIT":    true,
		"PATH":                        true,
		"PYTHONPATH":                  true,
		"CUDA_VISIBLE_DEVICES":        true,
		"HF_HOME":                     true,
		"HF_TOKEN":                    false,
		"WANDB_API_KEY":               false,
		"DS_SECRET":                   false,
		"DEEPSPEED_hub_token":         false, // case does not matter
		"NCCL_PASSWORD":               false,
		"FI_CREDENTIALS":              false,
		"AWS_ACCESS_KEY_ID":           false,
		"HOME":                        false,
		"MASTER_PORT_X":               false, // a full name is not a prefix
		"XNCCL_DEBUG":                 false,
		"MLFLOW_TRACKING_URI":         false,
		"SLURM_JOB_NODELIST":          true,
		"SLURM_JWT":                   false,
		"TORCHELASTIC_ERROR_FILE":     true,
		"PYTORCH_CUDA_ALLOC_CONF":     true,
		"OMPI_MCA_btl_tcp_if_include": true,
		"OMPI_COMM_WORLD_LOCAL_RANK":  true,
		"PET_RDZV_ENDPOINT":           true,
		"ACCELERATE_MIXED_PRECISION":  true,
		"ACCELERATE_API_KEY":          false,
		"ELASTIC_RUN_ID":              true,
		"DEEPSPEED_TIMEOUT":           true,
		"CXX":                         true,
		"CXXFLAGS":                    false,
	}
	for name, want := range tests {
		if got := allowed(name); got != want {
			t.Errorf("allowed(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestParseNCCLConf(t *testing.T) {
	long := strings.Repeat("x", 2000)
	tests := []struct{ name, text, want string }{
		{"plain", "NCCL_DEBUG=INFO\n", "NCCL_DEBUG=INFO"},
		{"no newline at the end", "NCCL_DEBUG=INFO", "NCCL_DEBUG=INFO"},
		{"carriage return", "NCCL_DEBUG=INFO\r\n", "NCCL_DEBUG=INFO"},
		{"exact match of a name", "NCCL_SOCKET_IFNAME==ens1f0\n", "NCCL_SOCKET_IFNAME==ens1f0"},
		{"comment in column one", "#NCCL_DEBUG=INFO\n", ""},
		{"comment further in is a name", " #A=1\n", " #A=1"},
		{"nothing is trimmed", " NCCL_DEBUG = INFO \n", " NCCL_DEBUG = INFO "},
		{"quotes stay", "NCCL_DEBUG=\"INFO\"\n", "NCCL_DEBUG=\"INFO\""},
		{"no assignment", "NCCL_DEBUG\n\n", ""},
		{"no name", "=1\n", ""},
		{"first of two wins", "A=1\nA=2\n", "A=1"},
		{"empty value", "A=\n", "A="},
		{"cut", "A=" + long + "\n", "A=" + long[:1023]},
	}
	for _, tt := range tests {
		settings, err := parseNCCLConf(strings.NewReader(tt.text), "file")
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var got []string
		for _, s := range settings {
			got = append(got, s.Name+"="+s.Value)
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

func TestLookAtEnv(t *testing.T) {
	root := probetest.Plant(t, `
-- etc/nccl.conf --
NCCL_DEBUG=WARN
NCCL_IB_HCA=mlx5
NCCL_ALGO=Ring
SOME_TOKEN=hunter2
-- home/me/.nccl.conf --
NCCL_DEBUG=TRACE
NCCL_IB_HCA=mlx5_0
-- srv/run.conf --
NCCL_IB_HCA=mlx5_7
`)
	o := machine.Options{Root: root}
	setting := func(name, value, source string) facts.Setting {
		return facts.Setting{Name: name, Value: value, Source: source}
	}
	tests := []struct {
		name    string
		environ []string
		want    *facts.Env
	}{{
		"environment before home before /etc",
		[]string{"NCCL_DEBUG=INFO", "HF_TOKEN=hunter2", "PATH=/bin"},
		&facts.Env{
			Vars: []facts.Setting{setting("NCCL_DEBUG", "INFO", "environment"), setting("PATH", "/bin", "environment")},
			NCCL: []facts.Setting{
				setting("NCCL_ALGO", "Ring", "/etc/nccl.conf"),
				setting("NCCL_DEBUG", "INFO", "environment"),
				setting("NCCL_IB_HCA", "mlx5_0", "/home/me/.nccl.conf"),
			},
			Files: []facts.ConfFile{{Path: "/home/me/.nccl.conf", Count: 2}, {Path: "/etc/nccl.conf", Count: 4}},
		},
	}, {
		"a named file replaces the one at home, from the working directory",
		[]string{"NCCL_CONF_FILE=run.conf", "NCCL_ALGO="},
		&facts.Env{
			Vars: []facts.Setting{setting("NCCL_ALGO", "", "environment"), setting("NCCL_CONF_FILE", "run.conf", "environment")},
			NCCL: []facts.Setting{
				setting("NCCL_ALGO", "", "environment"), // an empty value counts as set
				setting("NCCL_CONF_FILE", "run.conf", "environment"),
				setting("NCCL_DEBUG", "WARN", "/etc/nccl.conf"),
				setting("NCCL_IB_HCA", "mlx5_7", "/srv/run.conf"),
			},
			Files: []facts.ConfFile{{Path: "/srv/run.conf", Count: 1}, {Path: "/etc/nccl.conf", Count: 4}},
		},
	}, {
		"a named file that cannot be read",
		[]string{"NCCL_CONF_FILE=/etc"},
		&facts.Env{
			Vars: []facts.Setting{setting("NCCL_CONF_FILE", "/etc", "environment")},
			NCCL: []facts.Setting{
				setting("NCCL_ALGO", "Ring", "/etc/nccl.conf"),
				setting("NCCL_CONF_FILE", "/etc", "environment"),
				setting("NCCL_DEBUG", "WARN", "/etc/nccl.conf"),
				setting("NCCL_IB_HCA", "mlx5", "/etc/nccl.conf"),
			},
			Files: []facts.ConfFile{{Path: "/etc", Error: "is a directory"}, {Path: "/etc/nccl.conf", Count: 4}},
		},
	}}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, readEnv(tt.environ, o.At, "/home/me", "/srv")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}

	missing := readEnv([]string{"NCCL_CONF_FILE=~/x"}, machine.Options{Root: t.TempDir()}.At, "/home/me", "/srv")
	want := []facts.ConfFile{{Path: filepath.Join("/srv", "~/x"), Error: "NCCL_CONF_FILE names it, but it does not exist"}}
	if diff := cmp.Diff(want, missing.Files); diff != "" {
		t.Errorf("a named file that is not there: (-want +got)\n%s", diff)
	}
}

// TestWithheld covers the variables that DeepSpeed exports because of their prefix. If such a
// variable may be a secret, only its name is reported.
func TestWithheld(t *testing.T) {
	environ := []string{
		"UCX_PASSWORD=hunter2", "MLFLOW_TRACKING_TOKEN=hunter2", "MLFLOW_RUN=hunter2", "PYTHONPATH=/x", "NCCL_DEBUG=INFO",
		"NCCLX=1", "MV2=1", "WANDB_API_KEY=hunter2", "XMLFLOW=1",
	}
	got := readEnv(environ, machine.Options{Root: t.TempDir()}.At, "/home/me", "/srv").Withheld
	if diff := cmp.Diff([]string{"MLFLOW_RUN", "MLFLOW_TRACKING_TOKEN", "MV2", "NCCLX", "UCX_PASSWORD"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCollectEnvReadsTheSession(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	t.Setenv("NCCL_DEBUG", "INFO")
	root := probetest.Plant(t, "-- home/me/.nccl.conf --\nNCCL_ALGO=Tree\n")
	env, err := CollectEnv(t.Context(), machine.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	want := []facts.Setting{
		{Name: "NCCL_ALGO", Value: "Tree", Source: "/home/me/.nccl.conf"},
		{Name: "NCCL_DEBUG", Value: "INFO", Source: "environment"},
	}
	if diff := cmp.Diff(want, env.NCCL); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadMCA(t *testing.T) {
	o := probetest.Write(t, machine.Options{}, map[string]string{
		"/home/ml/.openmpi/mca-params.conf":    "# of the old cluster\noob_tcp_if_include = ib0\nno line\n",
		"/etc/openmpi/openmpi-mca-params.conf": "oob_tcp_if_include=eth0\n#btl = tcp\nbtl_tcp_if_include=eth1\n",
	})
	want := []facts.Setting{
		{Name: "btl_tcp_if_include", Value: "eth1", Source: "/etc/openmpi/openmpi-mca-params.conf"},
		{Name: "oob_tcp_if_include", Value: "ib0", Source: "/home/ml/.openmpi/mca-params.conf"},
	}
	if diff := cmp.Diff(want, readMCA(o.At, "/home/ml")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
