package launcher

import (
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

var Args = checks.Check{
	ID:       "launcher-args",
	Title:    "the launcher will read the command, the hostfile and the filters as they are meant",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionLauncher},
	OnHead:   true,
	Volatile: true,
	Doc: "A launch command can be valid and still start something else: DeepSpeed 0.15.2 to 0.19.6 drops a host that --include names without slots, " +
		"a single active host runs on the launching machine without ssh, --num_gpus does not ask the hostfile how many slots there are, pdsh reads " +
		"brackets, commas and colons in names and %n in arguments by rules of its own, and the shell of every node parses the script's arguments once more. " +
		"The command is parsed as that release of DeepSpeed parses it, or as torchrun does, and what will surprise is said here; where only a look decides " +
		"(is that single host this machine, has any node an eth0 for Open MPI, is torch too new for elastic training), the nodes were looked at.",
	WouldSee: "training on other hosts, slots or values than the command seems to say",
	Run: func(v checks.View) []checks.Finding {
		var findings []checks.Finding
		for _, note := range v.Launch.Notes {
			known, isKnown := traps[note.ID]
			switch {
			case known.exported, isKnown && v.Launch.Torchrun() && !known.torchrun:
			case known.look != nil:
				findings = append(findings, known.look(v, note)...)
			default:
				findings = append(findings, known.finding(v, note))
			}
		}
		return slices.Concat(findings, tornElastic(v), torchrunArgs(v))
	},
}

// finding is a note as it stands: its message says what happens and the way out.
func (t trap) finding(view checks.View, note hostfile.Note) checks.Finding {
	f := checks.Finding{Verdict: checks.Warn, Nodes: []string{view.Head.Name}, Summary: note.Message, Remedy: lookAtLine(note), WouldSee: t.wouldSee}
	if note.Line > 0 && !t.inCommand {
		f.Got = fmt.Sprintf("line %d of the hostfile", note.Line)
	}
	if t.fatal {
		f.Verdict = checks.Fail
	}
	if t.fix != nil {
		f.Remedy = t.fix(view, note)
	}
	return f
}

// trap is how one of the launch's notes is judged: a warning with the note's own
// words, unless it says otherwise.
type trap struct {
	torchrun  bool // torchrun falls into it too; the others are DeepSpeed's
	fatal     bool // the launch cannot come up, or not with what was asked for
	inCommand bool // the mistake is an argument's, whatever line of the hostfile it meets
	exported  bool // it is of what the ranks get to see: launcher-env's to judge
	fix       func(checks.View, hostfile.Note) []fix.Command
	wouldSee  string
	// look judges where the note alone does not decide.
	look func(checks.View, hostfile.Note) []checks.Finding
}

// traps are the notes of packages hostfile and launch; a test holds them
// together. One that is not here is a warning to whomever it concerns.
var traps = map[string]trap{
	// Lines of the hostfile.
	"byte-order-mark": {fatal: true, fix: always(fix.Here("sed -i '1s/^\\xef\\xbb\\xbf//' {hostfile}")), wouldSee: "ssh: Could not resolve hostname …: Name or service not known"},
	"comment-in-name": {wouldSee: "ssh: Could not resolve hostname …#…: Name or service not known"},
	"quoted-name":     {wouldSee: "Using hostfile at … but host=… was not reachable via ssh."},
	"ignored-text":    {fix: lineCommand(fix.Code(`s/^(\s*\S+\s+slots=[0-9]+).*/\1/`))},
	"zero-slots":      {look: zeroSlots},
	"pdsh-operator":   {fatal: true},
	"pdsh-range":      {fatal: true, wouldSee: "IndexError: list index out of range, on the node whose rank has no entry"},
	"pdsh-list":       {fatal: true, wouldSee: "IndexError: list index out of range, on the node whose rank has no entry"},
	"pdsh-rcmd":       {fatal: true, fix: portOut, wouldSee: `pdsh: No such rcmd module "…"`},

	// Who takes part, and where.
	"include-drops-host":          {inCommand: true, fix: namedInFull},
	"include-unchecked-slots":     {look: moreSlots(slotsGiven)},
	"num-gpus-beyond-slots":       {look: moreSlots(fewestDevices)},
	"num-nodes-beyond-hostfile":   {fix: fewerNodes},
	"single-host-runs-here":       {look: startsHere},
	"hostfile-ignored":            {fix: slurmNodes, wouldSee: "training on other hosts than the hostfile names"},
	"slurm-filter":                {fatal: true, fix: slurmNodes, wouldSee: "srun: unrecognized option '--include'"},
	"accelerate-uneven-processes": {inCommand: true, fix: evenProcesses, wouldSee: "fewer ranks than were asked for"},
	"autotuning":                  {fix: always(fix.Here("deepspeed …   # without --autotuning"))},

	// Where the ranks meet.
	"master-addr-ignored":  {fix: always(fix.Here("deepspeed --launcher=pdsh …   # it hands --master_addr on; or leave the option out"))},
	"master-port-range":    {fatal: true, fix: always(fix.Here("deepspeed --master_port 29500 …")), wouldSee: "ValueError: port must have value from 0 to 65535"},
	"no-ssh-asks-ssh":      {fix: firstAddress, wouldSee: "CalledProcessError: Command '['ssh', …, 'hostname', '-I']' returned non-zero exit status 255."},
	"rdzv-backend-unknown": {torchrun: true, look: notForeseen},
	"openmpi-eth0":         {look: openMPIInterface},
	"openmpi-needs-mpi":    {fix: always(fix.Here("deepspeed --launcher=pdsh …")), wouldSee: "EnvironmentError: MPI environment variables are not set."},

	// What gets lost or read again on the way.
	"option-not-forwarded": {fix: always(fix.Here("deepspeed …   # without the options named above"))},
	"argument-split":       {fix: always(fix.Here("pip install --upgrade deepspeed   # on every node; or take blanks and quotes out of the arguments"))},
	"argument-reread":      {look: rereadArguments},
	"script-reread":        {fatal: true, fix: renamed, wouldSee: "python: can't open file '…': [Errno 2] No such file or directory"},
	"workdir-reread":       {look: rereadWorkDir},
	"interpreter-reread":   {fatal: true, fix: always(fix.Here("python3 -m venv ~/venv   # a python without blanks and signs in its path, on every node")), wouldSee: "bash: line 1: …: No such file or directory"},
	"venv-script-unended":  {fix: endedVenv},
	"ssh-port-append":      {fix: always(fix.Here("export PDSH_SSH_ARGS_APPEND=")), wouldSee: "KeyError: 'PDSH_SSH_ARGS_APPEND'"},

	// What --launcher_args does to pdsh.
	"launcher-args-hosts":   {fatal: true, wouldSee: "IndexError: list index out of range, on the node whose rank has no entry"},
	"launcher-args-module":  {fatal: true, fix: always(fix.Here("deepspeed …   # without -R in --launcher_args")), wouldSee: "pdsh: connect: Connection refused"},
	"launcher-args-timeout": {fatal: true, fix: always(fix.Here("deepspeed …   # without -u in --launcher_args")), wouldSee: "HOST: command timeout"},
	"launcher-args-fanout":  {look: countedElsewhere},

	// What the ranks get to see.
	"export-reread":         {exported: true, fix: takenOut},
	"export-keeps-quotes":   {exported: true, fix: takenOut},
	"exports-forgotten":     {exported: true, fix: always(fix.Here("pip install --upgrade deepspeed   # on every node")), wouldSee: "ranks without any variable of the launching machine"},
	"timeout-no-number":     {exported: true, fatal: true, fix: takenOut, wouldSee: "ValueError: invalid literal for int() with base 10"},
	"timeout-not-positive":  {exported: true, fatal: true, fix: takenOut, wouldSee: "DistNetworkError: The client socket has timed out after 0ms"},
	"accelerate-writes-env": {exported: true, fix: always(fix.Here("mv --backup=numbered .deepspeed_env .deepspeed_env.old   # before each accelerate launch; what you wrote yourself goes into ~/.deepspeed_env, which it leaves alone")), wouldSee: "the PATH and LD_LIBRARY_PATH of the launching machine on every node"},
}
