package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"preflight/remote/meet"
)

// TokenVariable has the token that agents and their judge share, where no file has it. On a
// command line everybody on the machine could read it.
const TokenVariable = "PREFLIGHT_MEET_TOKEN"

// Token is that of a file, or of the environment.
func Token(file string) (string, error) {
	token := os.Getenv(TokenVariable)
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("the token: %w", err)
		}
		token = string(text)
	}
	if token = strings.TrimSpace(token); token == "" {
		return "", fmt.Errorf("no token: the node and its judge share one, in %s or in a file: --meet-token-file", TokenVariable)
	}
	return token, meet.Checked(token)
}

// again is how often a judge is called that is not there yet.
const again = time.Second

// answerJudge calls a judge that may yet have to start, is looked at by it, and fails unless
// its verdict lets the launch begin.
func answerJudge(args []string) error {
	flags := flag.NewFlagSet("preflight agent", flag.ContinueOnError)
	address := flags.String("meet", "", "HOST:PORT of the judge")
	node := flags.String("node", "", "this node's name in the judge's list of hosts (default: what the machine calls itself)")
	file := flags.String("meet-token-file", "", "the file that holds the shared token (default: "+TokenVariable+" in the environment)")
	patience := flags.Duration("meet-patience", 10*time.Minute, "for a judge that is not there yet")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	token, err := Token(*file)
	if err != nil {
		return err
	}
	os.Unsetenv(TokenVariable) // nobody whom the agent starts needs it
	if *node == "" {
		if *node, err = os.Hostname(); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	verdict, err := call(ctx, *address, *node, token, *patience)
	switch {
	case err != nil:
		return err
	case !verdict.Go:
		return errors.New("the judge does not let the launch begin: " + verdict.Why)
	}
	fmt.Fprintln(os.Stderr, "preflight: the launch may begin:", verdict.Why)
	return nil
}

// call waits for a judge. No link is tried twice: until there is one, nobody has answered.
func call(ctx context.Context, address, node, token string, patience time.Duration) (meet.Verdict, error) {
	enough := time.After(patience)
	for {
		verdict, err := meet.Call(ctx, address, node, token, func(in io.Reader, out io.Writer) error { return Run(ctx, in, out) })
		if !errors.Is(err, meet.ErrNotYet) {
			return verdict, err
		}
		select {
		case <-enough:
			return verdict, fmt.Errorf("%w within %s", err, patience)
		case <-ctx.Done():
			return verdict, context.Cause(ctx)
		case <-time.After(again):
		}
	}
}
