package main

import (
	"fmt"
	"slices"
	"strings"

	"preflight"
	"preflight/cmd/preflight/internal/usage"
	"preflight/launch"
	"preflight/remote"
	"preflight/remote/mpirun"
	"preflight/remote/srun"
	"preflight/remote/ssh"
)

// viaAuto is ssh. A step of a Slurm job is asked for by its name even where the launcher
// goes that way: it stands in the job's accounts, it needs Slurm 20.11 beside another step,
// and a node that srun cannot reach is no node that ssh cannot.
const viaAuto = "auto"

// carrier is a value of --via.
type carrier struct {
	name string
	open func(Config, preflight.Plan) (remote.Carrier, error)
}

// carriers are what can take us to the nodes.
var carriers = []carrier{
	{"ssh", func(c Config, plan preflight.Plan) (remote.Carrier, error) {
		return ssh.New(ssh.Options{Port: plan.Prediction.SSHPort, Timeout: c.Timeout})
	}},
	{srun.Name, func(_ Config, plan preflight.Plan) (remote.Carrier, error) {
		carrier, err := srun.New(launch.HostNames(plan.Prediction.Hosts))
		if err != nil {
			return nil, usage.WithHint(fmt.Errorf("--via srun: %w", err), "salloc --nodes N preflight --via srun; or leave --via out to go by ssh")
		}
		return carrier, nil
	}},
	{mpirun.Name, func(_ Config, plan preflight.Plan) (remote.Carrier, error) {
		carrier, err := mpirun.New(launch.HostNames(plan.Prediction.Hosts), plan.Prediction.LauncherArgs)
		if err != nil {
			return nil, usage.WithHint(fmt.Errorf("--via mpirun: %w", err), "put the launch's mpirun into PATH; or leave --via out to go by ssh")
		}
		return carrier, nil
	}},
}

func viaNames() []string {
	names := []string{viaAuto}
	for _, by := range carriers {
		names = append(names, by.name)
	}
	return names
}

// carrier is what --via names, whose value has been held to the choices.
func (c Config) carrier(plan preflight.Plan) (remote.Carrier, error) {
	name := c.Via
	if name == viaAuto || name == "" {
		name = carriers[0].name
	}
	i := slices.IndexFunc(carriers, func(by carrier) bool { return by.name == name })
	return carriers[i].open(c, plan)
}

var viaUsage = "what takes preflight to the nodes: " + strings.Join(viaNames(), ", ") + "; auto is ssh. srun takes a step of the Slurm job this is typed in, sees the environment that srun gives the ranks, and asks no ssh; mpirun has the one in PATH, Open MPI's, MPICH's or Intel MPI's, start it as it would the ranks: --ssh_port is then the launch's alone"
