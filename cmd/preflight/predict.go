// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"preflight"
	"preflight/cmd/preflight/internal/outputs"
	"preflight/internal/secret"
	"preflight/launch"
	"preflight/report"
)

func predictCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "predict [flags] [-- deepspeed … train.py …]",
		Short: "Show where each rank would run, without contacting any node",
		Long: `Show what a launch would do, without contacting any node. predict shows:

  - which ranks would run on which nodes and devices
  - the address where the ranks would meet
  - the interpreter, directory and variables that they would use
  - the exact command that DeepSpeed would execute

predict reads the launch in the same way as the DeepSpeed release on the launching machine,
or as the release that --deepspeed-version names.

Exit codes: 0 the launch was predicted, 2 DeepSpeed would refuse the launch, or the launch
cannot be read.`,
		Example: `  preflight predict -H hostfile --include w1@w2:0,1
  preflight predict -- deepspeed --hostfile hostfile train.py --deepspeed ds.json
  preflight predict --format json -- deepspeed --hostfile hostfile train.py`,
		Args: commandOnly,
		RunE: launching(func(cmd *cobra.Command, config Config, args []string) error {
			if err := config.askForJob(cmd.Context(), nil); err != nil {
				return err
			}
			intent, err := config.intent(args)
			if err != nil {
				return err
			}
			plan, err := preflight.NewPlan(cmd.Context(), intent)
			if err == nil {
				err = fatalEnvFiles(plan)
			}
			var prediction report.Prediction
			switch {
			case err == nil:
				prediction = report.NewPrediction(plan.Prediction, plan.Head)
				prediction.Hostfile = plan.Hostfile
			case config.Format == "json":
				prediction = report.Refused(err)
				complain(os.Stderr, err)
				err = exitCode(exitTrouble)
			default:
				return err
			}
			prediction.Version = Version
			secret.Within(&prediction)
			style := outputs.TerminalStyle(os.Stdout)
			style.Verbose = config.Verbose
			if config.Format == "json" {
				return errors.Join(report.PredictionJSON(os.Stdout, prediction), err)
			}
			return report.PredictionText(os.Stdout, prediction, style)
		}),
	}
	launchFlags(cmd.Flags())
	for _, name := range []string{"via", "in", "timeout"} { // no node is contacted
		cmd.Flags().Lookup(name).Hidden = true
	}
	formatFlag(cmd, plainFormats...)
	cmd.Flags().BoolP("verbose", "v", false, "show every node")
	return cmd
}

// fatalEnvFiles returns the errors with which DeepSpeed would fail on its files of variables. In a
// run, the check launcher-env reports these errors.
func fatalEnvFiles(plan preflight.Plan) error {
	if plan.Head.Launcher == nil || len(plan.Prediction.Exports) == 0 {
		return nil
	}
	var all *multierror.Error
	for _, file := range plan.Head.Launcher.EnvFiles {
		_, problems := launch.ParseEnvFile(file)
		for _, problem := range problems {
			if problem.DeepSpeed != "" {
				all = multierror.Append(all, &problem)
			}
		}
	}
	return all.ErrorOrNil()
}
