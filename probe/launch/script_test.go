package launch

import "testing"

func TestMakesGloo(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{`dist.init_process_group("nccl")`, false},
		{`dist.init_process_group("gloo")`, true},
		{`dist.init_process_group(backend='gloo', timeout=t)`, true},
		{`dist.init_process_group("cpu:gloo,cuda:nccl")`, true},
		{`deepspeed.init_distributed("cuda:nccl,cpu:gloo")`, true},
		{`cpu = dist.new_group(backend="gloo")`, true},
		{"cpu = dist.new_group(\n    ranks=[0, 1],\n    backend=\"gloo\",\n)", true},
		{`backend = "nccl" if torch.cuda.is_available() else "gloo"`, false},
		{`dist.new_group(backend="nccl" if cuda else "gloo")`, false},
		{"if cuda: dist.init_process_group('nccl')\nelse: dist.init_process_group('gloo')", false},
		{`# dist.new_group(backend="gloo")`, false},
		{`print("gloo is slow")`, false},
		{`group = dist.new_group(ranks); name = "gloo"`, false},
		{``, false},
	} {
		if got := makesGloo([]byte("import torch\n" + c.text + "\n")); got != c.want {
			t.Errorf("%s makes a group of gloo: %v, want %v", c.text, got, c.want)
		}
	}
}
