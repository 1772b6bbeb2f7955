package launch

import (
	"cmp"
	"fmt"
	"strconv"

	"preflight/hostfile"
)

// standardLauncher is accelerate's name for torchrun, started on every machine.
const standardLauncher = "standard"

// parseAccelerate reads what follows `accelerate launch`, and then the command
// that accelerate builds of it: deepspeed's over ssh or without, or torchrun's,
// which it is itself.
//
// Source: huggingface/accelerate 1.14, commands/launch.py, launch_command.
func parseAccelerate(p program, deepspeed string, around Surroundings) (Typed, error) {
	a := &accelerateArgs{backend: RendezvousStatic}
	parser := argumentParser{program: ProgramAccelerate, prog: p.prog, outer: p.outer, options: a.options(), required: "training_script, training_script_args"}
	r, err := parser.parse(p.words)
	if err != nil {
		return Typed{}, err
	}
	a.script, a.arguments = r.script, r.arguments
	if err := a.configure(around); err != nil {
		return Typed{}, err
	}
	var t Typed
	switch {
	case a.cpu, a.isSimple():
		return Typed{}, refuseAccelerate("", "this starts one process, and nothing that meets other nodes (without --use_deepspeed or --multi_gpu, on the command line or as distributed_type in its configuration): add what is meant")
	case a.tpu:
		return Typed{}, refuseAccelerate("", "preflight does not know TPUs: start the training without it")
	case a.useDeepSpeed && a.machines() > 1 && a.launcher != standardLauncher:
		t, err = a.deepSpeed(deepspeed, around)
	default:
		t, err = a.torchrun(around)
	}
	if err != nil {
		return Typed{}, err
	}
	t.Program, t.ConfigFile = ProgramAccelerate, a.deepspeedConfig
	return t, nil
}

func refuseAccelerate(said, format string, values ...any) *UsageError {
	return &UsageError{Program: ProgramAccelerate, Said: said, Message: fmt.Sprintf(format, values...)}
}

// isSimple is whether accelerate starts the script by itself, without torchrun. A
// machine of many accelerators gets torchrun unasked where no configuration says
// otherwise.
func (a *accelerateArgs) isSimple() bool {
	if a.useDeepSpeed || a.useFSDP || a.useMegatron || a.multiGPU || a.tpu {
		return false
	}
	return a.configured || a.processes != nil && *a.processes <= 1
}

// machines are at least one, whatever was asked for.
func (a *accelerateArgs) machines() int { return max(orElse(a.numMachines, 1), 1) }

// orElse is an optional number, or another one.
func orElse(n *int, other int) int {
	if n == nil {
		return other
	}
	return *n
}

// perMachine is how many processes accelerate starts on each machine.
func (a *accelerateArgs) perMachine() (int, error) {
	if a.processes == nil {
		return 0, refuseAccelerate("", "without --num_processes it takes the number of accelerators of this machine and divides them among the %d machines: give the total of all machines", a.machines())
	}
	n := *a.processes / a.machines()
	if *a.processes < n*a.machines() {
		n-- // Python divides downwards
	}
	return n, nil
}

// deepSpeed is the deepspeed command that accelerate starts, read as DeepSpeed
// reads it.
//
// Source: huggingface/accelerate 1.14, utils/launch.py, prepare_deepspeed_cmd_env.
func (a *accelerateArgs) deepSpeed(deepspeed string, around Surroundings) (Typed, error) {
	isByHand := a.launcher == "nossh"
	if isByHand && hostfile.Before(deepspeed, "0.14.5") {
		return Typed{}, refuseAccelerate("ValueError: nossh launcher requires DeepSpeed >= 0.14.5", "--deepspeed_multinode_launcher nossh needs DeepSpeed 0.14.5, and here is %s: install that, or take another launcher", deepspeed)
	}
	if err := a.refused(); err != nil {
		return Typed{}, err
	}
	if a.hostfile == "" {
		return Typed{}, refuseAccelerate("", "without --deepspeed_hostfile it starts deepspeed --hostfile None, and DeepSpeed trains on this machine alone: name the hostfile")
	}
	words := []string{"--hostfile", a.hostfile}
	if isByHand {
		words = append(words, "--node_rank", strconv.Itoa(*a.machineRank), "--no_ssh")
	} else {
		words = append(words, "--no_local_rank", "--launcher", cmp.Or(a.launcher, DefaultLauncher))
	}
	notes := []hostfile.Note{{Trap: "accelerate-writes-env", Message: "accelerate appends its whole environment to .deepspeed_env in the working directory, at every launch anew, and DeepSpeed exports all of that to every node, PATH and LD_LIBRARY_PATH included: move it away before each launch, and keep lines of your own in ~/.deepspeed_env"}}
	switch {
	case a.exclusion != "":
		words = append(words, "--exclude", a.exclusion)
	case a.inclusion != "":
		words = append(words, "--include", a.inclusion)
	default:
		each, err := a.perMachine()
		if err != nil {
			return Typed{}, err
		}
		words = append(words, "--num_gpus", strconv.Itoa(each))
		if left := *a.processes - each*a.machines(); left != 0 {
			notes = append(notes, hostfile.Note{Trap: "accelerate-uneven-processes", Message: fmt.Sprintf(
				"--num_processes %d on %d machines leaves %d over: accelerate starts %d on each and forgets the rest; make it a multiple", *a.processes, a.machines(), left, each)})
		}
	}
	if a.ip != "" {
		words = append(words, "--master_addr", a.ip)
	}
	words = append(words, "--master_port", strconv.Itoa(a.masterPort()))
	switch {
	case a.isModule:
		words = append(words, "--module")
	case a.noPython:
		words = append(words, "--no_python")
	}
	words = append(append(words, a.script), a.arguments...)
	t, err := parseDeepSpeed(ProgramDeepSpeed, words, deepspeed, around)
	t.Notes = append(t.Notes, notes...)
	return t, err
}

// masterPort is what accelerate takes for --main_process_port; 0 is any free one,
// which is looked for when the launch begins.
func (a *accelerateArgs) masterPort() int { return orElse(a.port, DefaultMasterPort) }

// refused is what accelerate refuses whatever it would start.
func (a *accelerateArgs) refused() error {
	switch {
	case a.isModule && a.noPython:
		return refuseAccelerate("ValueError: --module and --no_python cannot be used together", "--module and --no_python exclude each other: drop one")
	case a.machines() > 1 && a.machineRank == nil:
		return refuseAccelerate("TypeError: int() argument must be a string, a bytes-like object or a real number, not 'NoneType'", "--machine_rank is missing, without which it dies: add --machine_rank 0 on the first machine")
	case a.machines() > 1 && a.masterPort() == 0:
		return refuseAccelerate("", "--main_process_port 0 is any free port, which nobody would tell the other machines: give one, like %d", DefaultMasterPort)
	}
	return nil
}

// torchrun is what accelerate hands to torch.distributed.run, which it calls as a
// function.
//
// Source: huggingface/accelerate 1.14, utils/launch.py, prepare_multi_gpu_env and
// prepare_deepspeed_cmd_env, which agree.
func (a *accelerateArgs) torchrun(around Surroundings) (Typed, error) {
	if err := a.refused(); err != nil {
		return Typed{}, err
	}
	each := "gpu" // as many as there are
	if a.processes != nil || a.machines() > 1 {
		n, err := a.perMachine()
		if err != nil {
			return Typed{}, err
		}
		each = strconv.Itoa(n)
	}
	run := torchrunArgs{nnodes: strconv.Itoa(a.machines()), perNode: each, backend: a.backend, conf: a.rdzvConf, redirects: "0", tee: "0", isModule: a.isModule, noPython: a.noPython}
	port := a.masterPort()
	switch {
	case a.machines() == 1:
		run.masterPort = &port
	case a.ip == "":
		return Typed{}, refuseAccelerate("", "--main_process_ip is missing, and it would look for a host named None: give the address of the first machine")
	case a.sameNetwork:
		run.masterAddr, run.masterPort = a.ip, &port
	default:
		run.endpoint = fmt.Sprintf("%s:%d", a.ip, port)
	}
	run.nodeRank = orElse(a.machineRank, 0)
	t, err := run.typed()
	if err != nil {
		return Typed{}, err
	}
	t.Script, t.Arguments, t.Interpreter = a.script, a.arguments, ranksPython(around)
	return t, nil
}
