package launch

import (
	"preflight/facts"
	"preflight/hostfile"
)

// Prediction is what the launch will do.
type Prediction struct {
	Hosts    []hostfile.Host `json:"hosts"`    // active hosts in rank order
	Launcher string          `json:"launcher"` // pdsh, openmpi, mpich, impi, mvapich, slurm
	// MasterAddr is the address given, "" when DeepSpeed will take the first
	// word that `hostname -I` prints on the first host.
	MasterAddr string `json:"master_addr"`
	MasterPort int    `json:"master_port"`
	SSHPort    int    `json:"ssh_port,omitempty"`
	// Accelerator is cuda or cpu. With cpu a slot is a process.
	Accelerator string `json:"accelerator"`
	WorkDir     string `json:"workdir"` // absolute, on the launching machine and on every node
	// Interpreter is the python every node will be told to run, "" when
	// nothing here says which; InterpreterFrom says how we know.
	Interpreter     string `json:"interpreter"`
	InterpreterFrom string `json:"interpreter_from"` // "--python", "/usr/bin/deepspeed", ""
	// Exports are the variables the launcher sets on every node: those of the
	// launching machine it picks by prefix, then .deepspeed_env.
	Exports []facts.Setting `json:"exports,omitempty"`
	// Notes are the traps of the hostfile and the filters.
	Notes []hostfile.Note `json:"notes,omitempty"`
}
