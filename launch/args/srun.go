// SPDX-License-Identifier: Apache-2.0

package args

import (
	"errors"
	"fmt"
	"path"
	"slices"
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

// srunOption is an option with its name as typed. It takes the words from one position to another.
type srunOption struct {
	name, value string
	from, to    int
}

// behindSrun returns the position in words of the command that srun starts, and srun's options.
// words begins with srun.
func behindSrun(words []string) (at int, options []srunOption) {
	for at = 1; at < len(words) && strings.HasPrefix(words[at], "-"); at++ {
		from := at
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
		options = append(options, srunOption{name, value, from, at + 1})
	}
	return at, options
}

// unredirected returns srun's words without the options that redirect output and input. An echo or a
// rehearsal must not write into the files of the training.
func unredirected(words []string) []string {
	_, options := behindSrun(words)
	words = slices.Clone(words)
	for _, o := range slices.Backward(options) {
		if slices.Contains(strings.Fields("-o --output -e --error -i --input"), o.name) {
			words = slices.Delete(words, o.from, o.to)
		}
	}
	return words
}

// srun returns the command that srun starts.
func srun(words []string, _ Surroundings) ([]string, error) {
	words = append([]string{srunName}, words...)
	at, _ := behindSrun(words)
	if at >= len(words) {
		return nil, refusedBehindSrun("it names no command to start: write srun torchrun …")
	}
	return words[at:], nil
}

func refusedBehindSrun(format string, values ...any) error {
	return &launch.UsageError{Program: srunName, Message: fmt.Sprintf(format, values...)}
}

// throughSrun returns the command that srun starts, given what [Parse] says of it. preflight knows
// what srun starts only if each node needs the same command. before holds srun and its options.
func throughSrun(before, command []string, typed Typed, err error) (Typed, error) {
	_, options := behindSrun(before)
	for _, o := range options {
		switch {
		case Begins(o.value):
			return Typed{}, refusedBehindSrun("preflight does not know its option %s, and reads %s as the value: write %[1]s=VALUE, or leave the option out", o.name, o.value)
		case o.name == "--chdir" || o.name == "-D":
			return Typed{}, refusedBehindSrun("write cd %s before it in place of %s, so that preflight looks for the script there", o.value, o.name)
		}
	}
	unknown, isUsage := errors.AsType[*launch.UsageError](err)
	name := path.Base(command[0])
	switch {
	case err == nil && typed.Hostfile == "" && typed.Rendezvous != "":
	case err == nil:
		return Typed{}, refusedBehindSrun("%s starts the ranks of all nodes itself: leave srun out, as in deepspeed --launcher slurm …", name)
	case pythonName.MatchString(name) && isUsage && unknown.Original == "":
		return Typed{}, refusedBehindSrun("if srun itself starts the ranks, check them without the command: preflight --via srun --launcher slurm")
	case isUsage && unknown.Original == "" && !strings.Contains(unknown.Message, "did you mean") && !Begins(command[0]):
		return Typed{}, refusedBehindSrun("preflight does not know what %s starts: write torchrun or accelerate launch directly behind srun's options, and variables before srun", name)
	default:
		return Typed{}, err
	}
	typed.Srun = unredirected(before)
	if typed.Rendezvous == launch.RendezvousStatic && typed.MaxNodes > 1 {
		typed.Notes = slices.DeleteFunc(typed.Notes, func(note hostfile.Note) bool { return note.ID == "node-rank-missing" })
		typed.Notes = append(typed.Notes, hostfile.Note{ID: "srun-node-rank", Message: fmt.Sprintf("srun starts the same command on every node, so every node is node %d of %d and waits for the others", typed.NodeRank, typed.MaxNodes)})
	}
	return typed, nil
}

// SrunOptions returns the values of srun's options if words are a command of srun, otherwise nil.
func SrunOptions(words []string) map[string]string {
	if len(words) == 0 || path.Base(words[0]) != srunName {
		return nil
	}
	values := map[string]string{}
	_, options := behindSrun(words)
	for _, o := range options {
		values[o.name] = o.value
	}
	return values
}
