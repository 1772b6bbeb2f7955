// SPDX-License-Identifier: Apache-2.0

package args

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"preflight/launch"
)

// ran returns the result of a script that the words run: the script's exports and the words of its
// command.
func ran(words, text string) (string, error) {
	around := Surroundings{
		Getenv: func(name string) string { return map[string]string{"WORLD": "16"}[name] },
		ReadFile: func(name string) ([]byte, error) {
			if name != "run.sh" {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		},
	}
	around.WorkDir, around.Hostname = "/job", "w1.site"
	script, err := OfScript(strings.Fields(words), around)
	come := strings.Join(script.Typed, "|")
	if script.Dir != "" && script.Dir != around.WorkDir {
		come += " in " + script.Dir
	}
	return come, err
}

func TestOfScript(t *testing.T) {
	for _, c := range []struct{ words, script, want string }{
		{"bash run.sh", "#!/bin/bash\nset -ex\n\nmkdir -p out\ntorchrun --nnodes 2 train.py", "torchrun|--nnodes|2|train.py"},
		{"sh -x run.sh", "torchrun \\\n  --nnodes 2 \\\n  train.py  # now\necho done; rm x", "torchrun|--nnodes|2|train.py"},
		{"run.sh a 'b", `exec deepspeed $1 "$@" --x`, "deepspeed|a|a|'b|--x"},
		{"bash run.sh", "NODES=2\nexport NCCL_DEBUG=INFO A='b c'\nexport NODES\nOMP_NUM_THREADS=4 torchrun --nnodes $NODES --nproc_per_node=${N:-8} ${WORLD} train.py",
			"NODES=2|NCCL_DEBUG=INFO|A=b c|OMP_NUM_THREADS=4|torchrun|--nnodes|2|--nproc_per_node=8|16|train.py"},
		{"bash run.sh", "ARGS=\"--nnodes 2\"\nM=$ARGS\ntorchrun $ARGS \"$ARGS\" $UNSET train.py 2>&1 | tee log", "torchrun|--nnodes|2|--nnodes 2|train.py"},
		{"bash run.sh", "python -m torch.distributed.run train.py > log", "python|-m|torch.distributed.run|train.py"},
		{"bash run.sh", `deepspeed "a\n\$b" c\ d '$e'`, `deepspeed|a\n$b|c d|$e`},
		{"bash run.sh", "cd /data\ntorchrun train.py", "torchrun|train.py in /data"},
		{"bash run.sh", `cd "$(dirname "$0")/.." || exit 1` + "\ntorchrun train.py", "torchrun|train.py in /"},
		{"bash run.sh", "cd sub && torchrun $PWD/train.py", "torchrun|/job/sub/train.py in /job/sub"},
		{"bash run.sh", `HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)` + "\ntorchrun \"$HERE/train.py\"", "torchrun|/job/train.py"},
		{"bash run.sh", "torchrun --rdzv_endpoint $(hostname || echo localhost):29400 train.py", "torchrun|--rdzv_endpoint|w1.site:29400|train.py"},
		{"bash run.sh", "torchrun --rdzv_endpoint $(hostname):29400 --log_dir `basename $0` train.py $HOSTNAME", "torchrun|--rdzv_endpoint|w1.site:29400|--log_dir|run.sh|train.py|w1.site"},
		{"bash run.sh", "ARGS=(--nnodes 2\n  --tag \"a b\" # why\n)\nARGS+=(\"$1\")\ntorchrun \"${ARGS[@]}\" train.py ${#ARGS[@]} ${ARGS[1]}", "torchrun|--nnodes|2|--tag|a b||train.py|5|2"},
		{"bash run.sh 4", "N=$(( $1 * 2 ))\nexport OPTS=a\nOPTS+=b\ntorchrun --nnodes $N ${OPTS%b} train.py && echo done", "OPTS=ab|torchrun|--nnodes|8|a|train.py"},
		{"bash run.sh", "WORLD=32\ntorchrun train.py", "WORLD=32|torchrun|train.py"}, // WORLD was exported before the script, so it stays exported
		{"bash run.sh", "echo 'a\nb' >> log\ntorchrun train.py", "torchrun|train.py"},
		{"torchrun run.sh", "", ""},
		{"bash -c run.sh", "", ""},
	} {
		if got, err := ran(c.words, c.script); err != nil || got != c.want {
			t.Errorf("%s of\n%s\nis %q (%v), want %q", c.words, c.script, got, err, c.want)
		}
	}
}

// TestScriptWithEmptyVariables: variables may be empty, unless the launch command then lacks a
// value.
func TestScriptWithEmptyVariables(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"set -x\ntorchrun --nnodes $NNODES --nproc_per_node 2 train.py", "torchrun: --nnodes needs a value; write a value that begins with a hyphen as --nnodes=-…; $NNODES of run.sh:2 is empty"},
		{"torchrun \\\n  --nnodes $NNODES \\\n  --max-restarts 2 train.py", "torchrun: --nnodes needs a value; write a value that begins with a hyphen as --nnodes=-…; $NNODES of run.sh:2 is empty"},
		{"A=$B\ntorchrun --nnodes=$A --node_rank=$RANK train.py", `torchrun: --node-rank/--node_rank takes a whole number, not ""; $A of run.sh:2, $RANK of run.sh:2 are empty`},
		{"M=$NONE\ntorchrun --nope train.py", ""}, // the error is reported when the command is parsed
		{"ENDS=(1)\nENDS+=x torchrun train.py", `run.sh:2: it appends a string to a list: write "preflight --" before the launch command in the script`},
		{"NNODES=2\nexport NNODES\nswift sft $MORE --model x", ""},
	} {
		come, err := ran("bash run.sh", c.script)
		got := ""
		if (err == nil) == (come == "") { // callers check the error by whether there is a result
			t.Errorf("%s\ncomes to %q, and %v", c.script, come, err)
		}
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s\nis refused with %q, want %q", c.script, got, c.want)
		}
	}
}

// TestScriptIsNotPlain checks scripts that only a shell can read. The error names the line and says
// what to do instead.
func TestScriptIsNotPlain(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"source env.sh\ntorchrun train.py", "run.sh:1: preflight does not know what source does before the launch"},
		{"\n\ncd", "run.sh:3: preflight does not know what cd does"},
		{"cd -", "run.sh:1: preflight does not know what cd does"},
		{"set -- a b", "run.sh:1: preflight does not know what set does"},
		{"N=$(nvidia-smi -L | wc -l)", "run.sh:1: only the shell knows the computed value"},
		{"A=$(scontrol show hostnames | head -n 1 || echo localhost)", "run.sh:1: if the command before || fails, the value is localhost, and every node meets only itself"},
		{"A=$(getent hosts w1 || printf '127.0.0.1\\n')", "run.sh:1: if the command before || fails, the value is 127.0.0.1, and every node meets only itself"},
		{"A=$(getent hosts w1 || echo w1)", "run.sh:1: only the shell knows the computed value"},
		{"A=1\nB=$(date +%s)", "run.sh:2: only the shell knows the computed value"},
		{"torchrun --rdzv_id $RANDOM train.py", "run.sh:1: only the shell knows the computed value"},
		{"torchrun train.py <(cat a)", "run.sh:1: only the shell knows the computed value"},
		{"torchrun train.py data/*.json", "run.sh:1: only the shell knows which files data/*.json matches"},
		{"A=1\nif [ $A = 1 ]; then\ntorchrun train.py\nfi", "run.sh:2: this does more than run one command"},
		{"declare -A A", "run.sh:1: this does more than run one command"},
		{"A[2]=b", "run.sh:1: it sets something other than plain variables and lists"},
		{"A=([2]=b)", "run.sh:1: it sets single elements of a list"},
		{"torchrun train.py &", "run.sh:1: it has a command after"},
		{"torchrun train.py < in", `run.sh:1: "<" does more than run one command`},
		{"A=1\necho 'a\nb", "run.sh:2: reached EOF without closing quote"},
		{"echo hello", "run.sh: it starts no launch"},
	} {
		got, err := ran("bash run.sh", c.script)
		if _, isUsage := errors.AsType[*launch.UsageError](err); !isUsage || !strings.HasPrefix(err.Error(), c.want) || !strings.Contains(err.Error(), `write "preflight --" before the launch`) {
			t.Errorf("%s\nis %q (%v), want %s", c.script, got, err, c.want)
		}
	}
	if _, err := OfScript([]string{"bash run.sh"}, Surroundings{}); err == nil || !strings.Contains(err.Error(), "remove the quotes") {
		t.Errorf("a command in quotes: %v", err)
	}
	if _, err := ran("bash other.sh", ""); err == nil || !strings.Contains(err.Error(), "other.sh cannot be read") {
		t.Errorf("a script that is not there: %v", err)
	}
}
