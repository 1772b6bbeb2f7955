// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/lazyregexp"
	"preflight/probe/machine"
)

const (
	// smiLimit is for one nvidia-smi. It asks all GPUs before it prints a word, and
	// those that sleep take some seconds each to wake up.
	smiLimit = 2 * nvmlQuiet
	// smiOutput caps what is kept of one answer. The document of a GPU has up to
	// 120 KiB, nearly all of it the clocks that could be set.
	smiOutput = 8 << 20
)

// askSMI has nvidia-smi say what NVML would: its document (-q -x) and, of GPUs
// that are well, what only its tables tell. path is the program. How it fails is
// part of the facts; an error is no word about the driver: we were interrupted, or
// had too little time for it.
//
// It does not tell the library's version and what is at the far ends of NVLinks.
// Memory comes in whole MiB.
func askSMI(ctx context.Context, path string) (*facts.NVML, error) {
	return smi{path: path, limit: smiLimit}.ask(ctx)
}

// smi is an nvidia-smi, and how long it may take for one answer.
type smi struct {
	path  string
	limit time.Duration
}

func (s smi) ask(ctx context.Context) (*facts.NVML, error) {
	seen := &facts.NVML{Source: "nvidia-smi", Asked: true, Cards: []facts.Card{}}
	answer, err := s.run(ctx, "-q", "-x")
	if err != nil {
		return nil, err
	}
	around := readSMI(answer.stdout, seen)
	seen.Failure = smiFailure(answer, around, seen)
	// How tables count GPUs where some are hidden is not known.
	if seen.Failure == nil && seen.Hidden == 0 && !errors.Is(answer.err, context.DeadlineExceeded) {
		s.askTables(ctx, seen)
	}
	return seen, nil
}

// smiAnswer is how one nvidia-smi came to its end.
type smiAnswer struct {
	stdout, stderr string
	err            error         // how the process ended, nil for well
	ended          bool          // false: it was killed in vain
	took           time.Duration // that it was waited for
}

// run starts nvidia-smi and waits for it within its limit.
func (s smi) run(ctx context.Context, args ...string) (smiAnswer, error) {
	inTime, early := hostsys.WithTimeLeft(ctx, 2*nvmlEnding) // what is seen by then has to be handed in before its end
	defer early()
	asking, stop := hostsys.WithTimeout(inTime, s.limit)
	defer stop()
	started := hostsys.Worked()
	answer, err := machine.Within(asking, func() (smiAnswer, error) {
		out := hostsys.Output{Limit: smiOutput}
		// Its words are read: they shall be those of no other language.
		stderr, err := hostsys.Child{Path: s.path, Args: args, Env: append(os.Environ(), "LC_ALL=C")}.Stream(asking, &out)
		return smiAnswer{stdout: out.String(), stderr: stderr, err: err, ended: true}, nil
	})
	if err != nil { // abandoned
		answer.err = asking.Err()
	}
	answer.took = hostsys.Worked() - started
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return answer, ctx.Err()
	case errors.Is(answer.err, context.DeadlineExceeded) && answer.took < s.limit/4: // it may yet have answered
		return answer, errors.New("there was too little time to ask nvidia-smi: give the node more with --timeout")
	}
	return answer, nil
}

// smiErrors are what nvidia-smi says when it fails, with the codes of nvmlReturn_t,
// which are its exit codes as well, up to 255 (nvidia-smi(1), RETURN VALUE; texts of
// nvmlErrorString and of the program itself, drivers 390 to 590).
var smiErrors = []struct {
	words, kind string
	code        int
}{
	{"Driver/library version mismatch", facts.FailureMismatch, 18},
	{"couldn't communicate with the NVIDIA driver", facts.FailureNoDriver, 9},
	{"Driver Not Loaded", facts.FailureNoDriver, 9},
	{"Insufficient Permissions", facts.FailureNoPermission, 4},
	{"No devices were found", facts.FailureNotFound, 6},
	{"couldn't find libnvidia-ml.so", facts.FailureNoLibrary, 12},
	{"GPU is lost", facts.FailureLost, 15},
	{"GPU requires reset", facts.FailureReset, 16},
	{"Unknown Error", facts.FailureUnknown, 999},
	{"ERR!", facts.FailureUnknown, 999},
}

// smiComplaint is the failure that a text names, nil for none.
func smiComplaint(text string) *facts.NVMLFailure {
	for line := range strings.Lines(text) {
		for _, known := range smiErrors {
			if strings.Contains(line, known.words) {
				return &facts.NVMLFailure{Kind: known.kind, Code: known.code, Text: machine.Clipped(line)}
			}
		}
	}
	return nil
}

// libraryVersion follows the words for a mismatch since driver 525.
var libraryVersion = lazyregexp.New(`NVML library version: (\S+)`)

// smiFailure is why the document is missing or ends early, nil when it is whole.
// around is what was printed beside it: of a GPU that cannot be asked there is a
// line, after which nvidia-smi goes on since driver 530 or so and ends before.
func smiFailure(answer smiAnswer, around string, seen *facts.NVML) *facts.NVMLFailure {
	switch {
	case len(seen.Cards) > 0 && seen.Driver != "" && strings.Contains(answer.stdout, "</nvidia_smi_log>"):
		return nil // however it ended: a damaged infoROM has an exit code of its own, and closing GPUs may hang
	case !answer.ended:
		return &facts.NVMLFailure{Kind: facts.FailureStuck, Text: fmt.Sprintf("nvidia-smi did not answer within %s, and is stuck in the kernel, where no signal reaches it", answer.took.Round(100*time.Millisecond))}
	case errors.Is(answer.err, context.DeadlineExceeded):
		return &facts.NVMLFailure{Kind: facts.FailureHung, Text: fmt.Sprintf("nvidia-smi did not answer within %s, and was killed", answer.took.Round(100*time.Millisecond))}
	}
	around += "\n" + answer.stderr
	if match := libraryVersion.FindStringSubmatch(around); match != nil {
		seen.Library = match[1]
	}
	failure := smiComplaint(around)
	var exit *exec.ExitError
	switch {
	case failure != nil:
		return failure
	case errors.As(answer.err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() || strings.Contains(around, "symbol lookup error") {
			return &facts.NVMLFailure{Kind: facts.FailureCrashed, Text: "nvidia-smi ended: " + machine.Clipped(hostsys.Complaint(around, answer.err))}
		}
		for _, known := range smiErrors {
			if known.code == exit.ExitCode() {
				return &facts.NVMLFailure{Kind: known.kind, Code: known.code, Text: machine.Clipped(hostsys.Complaint(around, answer.err))}
			}
		}
		return &facts.NVMLFailure{Kind: facts.FailureOther, Code: exit.ExitCode(), Text: machine.Clipped(hostsys.Complaint(around, answer.err))}
	case answer.err != nil:
		return &facts.NVMLFailure{Kind: facts.FailureOther, Text: machine.Clipped("nvidia-smi cannot be run: " + answer.err.Error())}
	case len(seen.Cards) > 0 || len(answer.stdout) >= smiOutput:
		return &facts.NVMLFailure{Kind: facts.FailureOther, Text: "the document of nvidia-smi -q -x is cut off"}
	case seen.Driver != "":
		return &facts.NVMLFailure{Kind: facts.FailureNotFound, Code: 6, Text: "nvidia-smi shows no GPU"}
	}
	last := cmp.Or(strings.TrimSpace(around), "nothing")
	return &facts.NVMLFailure{Kind: facts.FailureOther, Text: "nvidia-smi -q -x gave no document, but " + machine.Clipped(last[strings.LastIndex(last, "\n")+1:])}
}

// cutDocument takes the document out of what was printed, and leaves the lines around it.
func cutDocument(text string) (document, around string) {
	const root = "nvidia_smi_log>"
	start := strings.Index(text, "<"+root)
	if start < 0 {
		return "", text
	}
	end := strings.LastIndex(text, "</"+root)
	if end < start {
		return text[start:], text[:start]
	}
	end += len("</" + root)
	return text[start:end], text[:start] + "\n" + text[end:]
}

// printable drops what XML does not allow, such as what a process put in its name.
func printable(text string) string {
	return string(bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return -1
		}
		return r
	}, bytes.ToValidUTF8([]byte(text), []byte("?"))))
}
