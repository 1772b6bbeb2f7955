// SPDX-License-Identifier: Apache-2.0

package args

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"preflight/launch"
)

// FuzzParse: Parse parses any command line, with any accelerate configuration, or refuses it with a
// message. It never crashes, and a second call gives the same result.
func FuzzParse(f *testing.F) {
	for _, command := range []string{
		"deepspeed --hostfile h --include w1:0@w2 train.py --deepspeed_config ds.json", "torchrun --nnodes 1:4 --rdzv-endpoint w1:29500 --rdzv_conf a=1,b train.py",
		"python -m torch.distributed.launch --nproc_per_node=2 -m pkg", "accelerate launch --config_file x --num_machines 2 train.py", "/usr/bin/python3.11 -Wignore -um deepspeed.launcher.runner --hos=x t.py",
		"deepspeed --launcher_args '--mca x", "torchrun --", "deepspeed -H", "accelerate launch --mixed",
	} {
		f.Add(strings.ReplaceAll(command, " ", "\n"), "compute_environment: LOCAL_MACHINE\nnum_machines: 2\ndeepspeed_config: {zero_stage: 3}\n", "0.16.2")
	}
	f.Fuzz(func(t *testing.T, command, config, release string) {
		words := strings.Split(command, "\n")
		around := Surroundings{
			Getenv: func(name string) string { return map[string]string{"HOME": "/home/me"}[name] },
			ReadFile: func(string) ([]byte, error) {
				if config == "" {
					return nil, fs.ErrNotExist
				}
				return []byte(config), nil
			},
		}
		typed, err := Parse(words, release, around)
		if misused := (*launch.UsageError)(nil); err != nil && !errors.As(err, &misused) {
			t.Errorf("%q is refused by %T: %v", words, err, err)
		}
		if err == nil && typed.Program == "" {
			t.Errorf("%q starts no program", words)
		}
		_, again := Parse(words, release, around)
		if (again == nil) != (err == nil) || err != nil && again.Error() != err.Error() {
			t.Errorf("%q: %v, then %v", words, err, again)
		}
		_, _ = HostfileOf(words, around)
	})
}
