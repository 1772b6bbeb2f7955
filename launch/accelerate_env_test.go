package launch

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/launch/launchtest"
)

// accelerate appends its environment to .deepspeed_env, which deepspeed then reads.
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
