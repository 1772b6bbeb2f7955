package main

import (
	"github.com/spf13/cobra"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/catalogue"
	"preflight/checks/engine"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/report/formats"
)

// judgeCommand judges a saved run again.
func judgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judge FILE",
		Short: "Judge a saved run again, offline",
		Args:  arguments(1, 1, "needs one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := readConfig(cmd, nil)
			if err != nil {
				return err
			}
			policy, err := config.policy()
			if err != nil {
				return err
			}
			if err := readOnce(args[0], config.Baseline); err != nil {
				return err
			}
			saved, err := readReport(args[0])
			if err != nil {
				return err
			}
			if err := config.writable(outputs.Run(), map[string]string{"the run that is judged": args[0], "the baseline": config.Baseline}); err != nil {
				return err
			}
			if policy.Baseline, err = config.baseline(saved.Launch); err != nil {
				return err
			}
			judged := rejudge(saved, policy)
			if err := config.write(judged); err != nil {
				return err
			}
			return verdictCode(judged)
		},
	}
	judgeFlags(cmd, formats.Names())
	hostListFlags(cmd.Flags())
	baselineFlag(cmd.Flags())
	return cmd
}

// rejudge judges the facts of a saved run by today's catalogue. That the run was
// interrupted or is normalized stays true.
func rejudge(saved checks.Report, policy checks.Policy) checks.Report {
	catalogue := catalogue.Catalogue
	if saved.Normalized {
		catalogue = agreement.Lasting(catalogue)
	}
	judged := engine.Evaluate(catalogue, saved.Fleet, saved.Launch, policy)
	judged.Version, judged.Hostfile, judged.Began, judged.Seconds = Version, saved.Hostfile, saved.Began, saved.Seconds
	judged.Interrupted, judged.Normalized = saved.Interrupted, saved.Normalized
	judged.Conclude(policy.Strict)
	return judged
}
