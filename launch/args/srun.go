// SPDX-License-Identifier: Apache-2.0

package args

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"preflight/hostfile"
	"preflight/launch"
)

// srunName is the program with which Slurm starts a command on every node of a job.
const srunName = "srun"

// srunFlags lists the options of srun, and of its plugin pyxis, that take no value from the next
// word. Those in short form are single letters.
//
// Source: srun --help of Slurm 22.05; NVIDIA/pyxis v0.20, args.c.
var srunFlags = strings.Fields(`E H I k K l O Q s u v X Z h V
--preserve-env --hold --immediate --no-kill --kill-on-bad-exit --label --multi-prog --overcommit --overlap --pty
--quit-on-interrupt --quiet --reboot --oversubscribe --spread-job --unbuffered --use-min-nodes --verbose --disable-status
--contiguous --no-allocate --exact --exclusive --resv-ports --compress --nice --propagate --send-libs --x11 --help --usage --version
--container-mount-home --no-container-mount-home --container-remap-root --no-container-remap-root --container-entrypoint
--no-container-entrypoint --container-writable --container-readonly`)

// behindSrun returns the position in words of the command that srun starts, and the values of
// srun's options under the names as typed. words begins with srun.
func behindSrun(words []string) (at int, options map[string]string) {
	options = map[string]string{}
	for at = 1; at < len(words) && strings.HasPrefix(words[at], "-"); at++ {
		name, value, isWhole := strings.Cut(words[at], "=")
		if name == "--" {
			return at + 1, options
		}
		if !strings.HasPrefix(name, "--") { // letters, of which the last may have a value
			letters := strings.TrimLeftFunc(words[at][1:], func(letter rune) bool { return slices.Contains(srunFlags, string(letter)) })
			if letters == "" {
				continue
			}
			name, value = "-"+letters[:1], letters[1:]
			isWhole = value != ""
		}
		if !isWhole && !slices.Contains(srunFlags, name) && at+1 < len(words) {
			at++
			value = words[at]
		}
		options[name] = value
	}
	return at, options
}

// srun returns the command that srun starts.
func srun(words []string, _ Surroundings) ([]string, error) {
	words = append([]string{srunName}, words...)
	at, _ := behindSrun(words)
	if at >= len(words) {
		return nil, refusedBehindSrun
	}
	return words[at:], nil
}

var refusedBehindSrun = &launch.UsageError{Program: srunName, Message: "preflight knows what srun starts only if that is torchrun or accelerate launch; if srun starts the ranks itself, leave the command out, and name the launcher and the hosts: preflight -H hostfile --launcher slurm"}

// throughSrun returns the command that srun starts, given what [Parse] says of it. preflight knows
// what srun starts only if each node needs the same command.
func throughSrun(typed Typed, err error, words []string, around Surroundings) (Typed, error) {
	if unknown := (*launch.UsageError)(nil); errors.As(err, &unknown) && unknown.Original != "" {
		return typed, err
	}
	if err != nil || typed.Hostfile != "" || typed.Rendezvous == "" {
		return Typed{}, refusedBehindSrun
	}
	typed.Srun, typed.Notes = true, append(typed.Notes, srunTasks(words, around)...)
	if typed.Rendezvous == launch.RendezvousStatic && typed.MaxNodes > 1 {
		typed.Notes = slices.DeleteFunc(typed.Notes, func(note hostfile.Note) bool { return note.ID == "node-rank-missing" })
		typed.Notes = append(typed.Notes, hostfile.Note{ID: "srun-node-rank", Message: fmt.Sprintf("srun starts the same command on every node, so every node is node %d of %d and waits for the others", typed.NodeRank, typed.MaxNodes)})
	}
	return typed, nil
}

// srunTasks reports a command that srun does not start exactly once on each node. In a job, its
// number of tasks counts more than --ntasks-per-node (tried with Slurm 22.05).
func srunTasks(words []string, around Surroundings) []hostfile.Note {
	_, options := behindSrun(words)
	number := func(values ...string) int {
		for _, value := range values {
			if n, err := strconv.Atoi(value); err == nil {
				return n
			}
		}
		return 0
	}
	nodes := number(options["-N"], options["--nodes"], around.Getenv("SLURM_JOB_NUM_NODES"))
	tasks := number(options["-n"], options["--ntasks"], around.Getenv("SLURM_NTASKS"), strconv.Itoa(nodes*max(number(options["--ntasks-per-node"]), 1)))
	if nodes == 0 || tasks == nodes {
		return nil
	}
	return []hostfile.Note{{ID: "srun-tasks", Message: fmt.Sprintf("srun starts the launcher %d times on %d nodes, but it must start once on each: give srun --nodes=%d --ntasks=%[2]d", tasks, nodes, nodes)}}
}

// SrunOptions returns the values of srun's options if words are a command of srun, otherwise nil.
func SrunOptions(words []string) map[string]string {
	if len(words) == 0 || path.Base(words[0]) != srunName {
		return nil
	}
	_, options := behindSrun(words)
	return options
}
