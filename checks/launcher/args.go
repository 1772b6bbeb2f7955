// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
)

var Args = checks.Check{
	ID:       "launcher-args",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionLauncher},
	OnHead:   true,
	Volatile: true,
	Run: func(v checks.View) []checks.Finding {
		var findings []checks.Finding
		for _, note := range v.Launch.Notes {
			known, isKnown := noteRules[note.ID]
			switch {
			case note.ID == "byte-order-mark" && slices.ContainsFunc(v.All, func(n facts.Node) bool {
				return strings.HasPrefix(n.Name, hostfile.ByteOrderMark) && n.SSH != nil && n.SSH.Cause == "name-unknown"
			}): // ssh-reach reports the name
			case known.exported, isKnown && v.Launch.Torchrun() && !known.torchrun:
			case known.look != nil:
				findings = append(findings, known.look(v, note)...)
			default:
				findings = append(findings, known.finding(v, note))
			}
		}
		return slices.Concat(findings, brokenElastic(v), torchrunArgs(v), lackMPINetwork(v))
	},
}

// finding returns the finding for a note. The note's message says what happens and how to avoid the
// problem.
func (r noteRule) finding(view checks.View, note hostfile.Note) checks.Finding {
	f := checks.Finding{Verdict: checks.Warn, Summary: note.Message, Remedy: lookAtLine(note), WouldSee: r.wouldSee}
	if note.Line > 0 && !r.inCommand {
		f.Got = fmt.Sprintf("line %d of the hostfile", note.Line)
	}
	if r.fatal {
		f.Verdict = checks.Fail
	}
	if r.fix != nil {
		f.Remedy = r.fix(view, note)
	}
	return f
}

// noteRule says which finding a note of the launch causes. The default is a warning with the note's
// message.
type noteRule struct {
	torchrun  bool // the note also concerns torchrun; other notes concern only DeepSpeed
	fatal     bool // the launch cannot start, or starts something other than intended
	inCommand bool // the mistake is in the command, even if the note names a line of the hostfile
	exported  bool // the note concerns the ranks' environment, so launcher-env reports it
	fix       func(checks.View, hostfile.Note) []fix.Command
	wouldSee  string
	// look returns the findings if the note alone does not decide. It is nil if the note does.
	look func(checks.View, hostfile.Note) []checks.Finding
}

// noteRules holds the rules for the notes of packages hostfile and launch. Notes without a rule are
// warnings. A test compares this list with the lists of the packages.
var noteRules = map[string]noteRule{
	// Notes about lines of the hostfile.
	"byte-order-mark": {fatal: true, fix: command(fix.Here("sed -i '1s/^\\xef\\xbb\\xbf//' {hostfile}")), wouldSee: "ssh: Could not resolve hostname …: Name or service not known"},
	"comment-in-name": {wouldSee: "ssh: Could not resolve hostname …#…: Name or service not known"},
	"quoted-name":     {wouldSee: "Using hostfile at … but host=… was not reachable via ssh."},
	"ignored-text":    {fix: command(fix.Here(`sed -E -i '{line}s/^(\s*\S+\s+slots=[0-9]+).*/\1/' {hostfile}`))},
	"zero-slots":      {look: zeroSlots},
	"pdsh-operator":   {fatal: true},
	"pdsh-option":     {fatal: true, wouldSee: "nothing: the command has run"},
	"pdsh-range":      {fatal: true, wouldSee: "IndexError: list index out of range, on the node whose rank has no entry"},
	"pdsh-list":       {fatal: true, wouldSee: "IndexError: list index out of range, on the node whose rank has no entry"},
	"pdsh-rcmd":       {fatal: true, fix: portOut, wouldSee: `pdsh: No such rcmd module "…"`},

	// Notes about the hosts and slots that take part.
	"include-drops-host":          {inCommand: true, fix: command(fix.Here("deepspeed --include {include} …   # names the slots of every host"))},
	"include-unchecked-slots":     {look: moreSlots(command(fix.Here("deepspeed --include 'NAME:0,1,…' …   # only slots of line {line} of the hostfile; the first is 0").As(fix.Or)))},
	"num-gpus-beyond-slots":       {look: moreSlots(fewestDevices)},
	"num-nodes-beyond-hostfile":   {fix: command(fix.Here("deepspeed --num_nodes {host_count} …   # or add the missing hosts to the hostfile"))},
	"single-host-runs-here":       {look: startsHere},
	"local-in-slurm-job":          {fix: command(hostfileOfJob), wouldSee: "training on one node"},
	"hostfile-ignored":            {fix: command(fix.Here("deepspeed --launcher_args {nodelist} …")), wouldSee: "training on other hosts than those of the hostfile"},
	"slurm-filter":                {fatal: true, fix: command(fix.Here("deepspeed --launcher_args {nodelist} …")), wouldSee: "srun: unrecognized option '--include'"},
	"accelerate-uneven-processes": {torchrun: true, inCommand: true, fix: command(fix.Here("accelerate launch --num_processes {slot_count} …")), wouldSee: "fewer ranks than requested"},
	"autotuning":                  {fix: command(fix.Here("deepspeed …   # without --autotuning"))},

	// Notes about the address and port of the rendezvous.
	"master-addr-ignored": {fix: command(fix.Here("deepspeed --launcher=pdsh …   # passes --master_addr on; or leave the option out"))},
	"master-port-range":   {fatal: true, fix: command(fix.Here("deepspeed --master_port 29500 …")), wouldSee: "ValueError: port must have value from 0 to 65535"},
	"no-ssh-asks-ssh":     {fix: command(fix.Here("deepspeed --no_ssh --master_addr {first_address} …   # the same on every node")), wouldSee: "CalledProcessError: Command '['ssh', …, 'hostname', '-I']' returned non-zero exit status 255."},
	"rdzv-backend-unknown": {torchrun: true, look: func(v checks.View, note hostfile.Note) []checks.Finding {
		return []checks.Finding{checks.UnknownFor(v.Head, note.Message)} // preflight cannot test an external rendezvous service
	}},
	"log-level-unknown": {torchrun: true, fatal: true, fix: takenOut, wouldSee: "ValueError: Unknown level: …"},
	"srun-node-rank":    {torchrun: true, fatal: true, fix: meetsWithoutRank, wouldSee: waitsForNode},
	"node-rank-range":   {torchrun: true, fatal: true, fix: ownNodeRank, wouldSee: waitsForNode},
	"node-rank-missing": {torchrun: true, look: oneNodeRankForAll},
	"local-addr-loopback": {torchrun: true, fatal: true, fix: command(fix.Here("unset PET_LOCAL_ADDR   # and leave out --local-addr")),
		wouldSee: "DistNetworkError: The client socket has timed out after … while trying to connect to (127.0.0.1, …)."},
	"openmpi-eth0":      {look: openMPIInterface},
	"openmpi-line-ends": {fatal: true, fix: command(fix.Here(`sed -i 's/\r$//' {hostfile}`)), wouldSee: "Open RTE detected a parse error in the hostfile"},
	"openmpi-needs-mpi": {fix: command(fix.Here("deepspeed --launcher=pdsh …")), wouldSee: "EnvironmentError: MPI environment variables are not set."},

	// Notes about options and arguments that are lost, or parsed again, on the way to the nodes.
	"option-after-script":  {torchrun: true, fix: optionsFirst, wouldSee: "unrecognized arguments, or a training on fewer nodes than intended"},
	"option-not-forwarded": {fix: command(fix.Here("deepspeed …   # without the options named above"))},
	"argument-split":       {fix: command(fix.Here("pip install --upgrade deepspeed   # on every node; or remove blanks and quotes from the arguments"))},
	"argument-reread":      {look: rereadArguments},
	"script-reread":        {fatal: true, fix: command(fix.Here("mv -- {script} {plain_script}   # on every node")), wouldSee: "python: can't open file '…': [Errno 2] No such file or directory"},
	"workdir-reread":       {look: rereadWorkDir},
	"interpreter-reread":   {fatal: true, fix: command(fix.Here("python3 -m venv ~/venv   # on every node: a path without blanks and special characters")), wouldSee: "bash: line 1: …: No such file or directory"},
	"venv-script-unended":  {fix: command(fix.Here("deepspeed --venv_script {ended_venv} …"))},
	"ssh-port-append":      {fix: command(fix.Here("export PDSH_SSH_ARGS_APPEND=")), wouldSee: "KeyError: 'PDSH_SSH_ARGS_APPEND'"},

	// Notes about the effects of --launcher_args on pdsh.
	"launcher-args-hosts":   {fatal: true, wouldSee: "IndexError: list index out of range, on the node whose rank has no entry"},
	"launcher-args-module":  {fatal: true, fix: command(fix.Here("deepspeed …   # without -R in --launcher_args")), wouldSee: "pdsh: connect: Connection refused"},
	"launcher-args-timeout": {fatal: true, fix: command(fix.Here("deepspeed …   # without -u in --launcher_args")), wouldSee: "HOST: command timeout"},
	"launcher-args-fanout":  {look: func(checks.View, hostfile.Note) []checks.Finding { return nil }}, // launcher-ready compares the fan-out with the number of hosts

	// Notes about the environment of the ranks.
	"export-reread":         {exported: true, fix: takenOut},
	"export-keeps-quotes":   {exported: true, fix: takenOut},
	"exports-forgotten":     {exported: true, fix: command(fix.Here("pip install --upgrade deepspeed   # on every node")), wouldSee: "ranks without the variables of the launching machine"},
	"timeout-no-number":     {exported: true, fatal: true, fix: takenOut, wouldSee: "ValueError: invalid literal for int() with base 10"},
	"timeout-not-positive":  {exported: true, fatal: true, fix: takenOut, wouldSee: "DistNetworkError: The client socket has timed out after 0ms"},
	"accelerate-writes-env": {exported: true, fix: command(fix.Here("mv --backup=numbered .deepspeed_env .deepspeed_env.old   # before each accelerate launch; keep your own lines in ~/.deepspeed_env, which accelerate does not change")), wouldSee: "the PATH and LD_LIBRARY_PATH of the launching machine on every node"},
}

// command returns a fix that consists of one command. Names in braces are replaced by values of
// this launch.
func command(template fix.Command) func(checks.View, hostfile.Note) []fix.Command {
	return func(view checks.View, note hostfile.Note) []fix.Command {
		slots, address, p := 0, "ADDRESS", view.Launch
		for _, host := range p.Hosts {
			slots += len(host.Slots)
		}
		if len(view.All) > 0 && text.IsPlain(view.All[0].Address) {
			address = view.All[0].Address
		}
		return []fix.Command{template.Bind(map[string]fix.Arg{
			"line":          fix.Number(note.Line),
			"include":       fix.Word(fullInclude(p)),
			"host_count":    fix.Number(len(p.Hosts)),
			"slot_count":    fix.Number(slots),
			"nodelist":      fix.Word(fmt.Sprintf("--nodelist=%s --nodes=%d", hostfile.Fold(launch.HostNames(p.Hosts)), len(p.Hosts))),
			"first_address": fix.Host(address),
			"script":        fix.Path(p.Script),
			"plain_script":  fix.Path(plain(p.Script)),
			"workdir":       fix.Path(p.WorkDir),
			"plain_workdir": fix.Path(plain(p.WorkDir)),
			"ended_venv":    fix.Word(p.VenvScript + ";"),
		})}
	}
}

// plain returns a path with every character that a shell interprets replaced by "_".
func plain(path string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || text.IsPlain(string(r)) {
			return r
		}
		return '_'
	}, path)
}

// writtenOut matches the end of a note that says which text must replace a bare name.
var writtenOut = regexp.MustCompile(`: write (\S+:\d+(?:,\d+)*)$`)

// fullInclude returns the --include that the user intended. It lists the remaining hosts, and the
// hosts that were dropped because they have no slots, in hostfile order.
func fullInclude(prediction launch.Prediction) string {
	specs := map[int][]string{} // the part of each host, by line of the hostfile
	for _, host := range prediction.Hosts {
		specs[host.Line] = append(specs[host.Line], host.Name+":"+strings.Trim(strings.ReplaceAll(fmt.Sprint(host.Slots), " ", ","), "[]"))
	}
	for _, note := range prediction.Notes {
		if note.ID != "include-drops-host" {
			continue
		}
		written := writtenOut.FindStringSubmatch(note.Message)
		if written == nil {
			return "NAME:0,1,2,3,4,5,6,7"
		}
		specs[note.Line] = append(specs[note.Line], written[1])
	}
	var include []string
	for _, line := range slices.Sorted(maps.Keys(specs)) {
		include = append(include, specs[line]...)
	}
	return strings.Join(include, "@")
}

// lookAtLine returns the command that shows the line with a mistake. Only the author of the line
// can correct the mistake.
func lookAtLine(note hostfile.Note) []fix.Command {
	if note.Line == 0 {
		return []fix.Command{fix.Here("deepspeed --help   # change the option that is named above").As(fix.Look)}
	}
	return []fix.Command{fix.Here("sed -n %sp {hostfile}   # the line to change", fix.Number(note.Line)).As(fix.Look)}
}

// portOut returns the commands that remove the port from a host's name and pass the port to ssh
// instead.
func portOut(view checks.View, note hostfile.Note) []fix.Command {
	i := slices.IndexFunc(view.Launch.Hosts, func(h hostfile.Host) bool { return h.Line == note.Line })
	if i < 0 {
		return lookAtLine(note)
	}
	host, port, _ := strings.Cut(view.Launch.Hosts[i].Name, ":")
	if strings.Trim(port, "0123456789") != "" || port == "" || !text.IsPlain(host) {
		return lookAtLine(note)
	}
	return []fix.Command{
		fix.Here("sed -i '%ss/:%s//' {hostfile}", fix.Number(note.Line), fix.Name(port)),
		fix.Here("deepspeed --ssh_port %s …", fix.Name(port)).Remark("or set Port %s for %s in ~/.ssh/config, if other hosts use another port", fix.Name(port), fix.Host(host)).As(fix.Then),
	}
}

// rereadArguments returns the findings for script arguments that pdsh and the shell of every node
// parse again. An operator in an argument ends the command. Anything else only changes a value.
func rereadArguments(view checks.View, note hostfile.Note) []checks.Finding {
	if !slices.ContainsFunc(view.Launch.Arguments, func(a string) bool { return handedOn(a) != a && !meant(a) }) {
		return nil
	}
	f := noteRule{fatal: slices.ContainsFunc(sentArguments(view), breaksUp), wouldSee: "a script that gets other arguments than you typed"}.finding(view, note)
	if f.Verdict == checks.Fail {
		f.WouldSee = "bash: -c: line 1: syntax error near unexpected token, or a part of the argument runs as a command"
	}
	f.Remedy = []fix.Command{fix.Here("deepspeed … %s %s", fix.Path(view.Launch.Script), fix.List[fix.Word](" ", retyped(view.Launch.Arguments)))}
	if hostfile.Before(view.Launch.DeepSpeed, "0.12.5") { // older releases quote by other rules
		f.Remedy = []fix.Command{fix.Here("pip install --upgrade deepspeed   # on every node; or let the script read the value from a file")}
	}
	return []checks.Finding{f}
}

// rereadWorkDir returns the finding for a working directory to which the nodes' shell cannot
// change. Scripts with relative paths are then not found.
func rereadWorkDir(view checks.View, note hostfile.Note) []checks.Finding {
	return []checks.Finding{noteRule{
		fatal: !strings.HasPrefix(view.Launch.Script, "/"), fix: command(fix.Here("mv -- {workdir} {plain_workdir}   # on every node, and launch from there")), wouldSee: "bash: line 1: cd: too many arguments",
	}.finding(view, note)}
}

// sentArguments returns the script's arguments in the form in which DeepSpeed passes them to pdsh.
// Some releases quote some of the arguments.
func sentArguments(view checks.View) []string {
	command, count := view.Launch.Command, len(view.Launch.Arguments)
	if len(command) < count {
		return nil
	}
	return command[len(command)-count:]
}

// breaksUp reports whether a shell would find an operator or an unclosed quote in a word.
func breaksUp(word string) bool {
	var quote rune
	escaped := false
	for _, r := range word {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case strings.ContainsRune(";&|<>()\n", r):
			return true
		}
	}
	return quote != 0 || escaped
}

// retyped returns the arguments as a person must type them so that the script gets the original
// arguments.
func retyped(arguments []string) []string {
	var words []string
	for _, argument := range arguments {
		if !meant(argument) {
			argument = handedOn(argument)
		}
		words = append(words, argument)
	}
	return words
}

// handedOn returns the text that a person must type so that the script gets an argument. It is
// correct for DeepSpeed 0.12.5 and later. DeepSpeed itself puts arguments with blanks in double
// quotes.
//
// Source: deepspeed/launcher/multinode_runner.py, PDSHRunner.parse_user_args, 0.12.5 to 0.19.8, and
// pdsh 2.34, which replaces %h, %u, %n and %% in every word.
func handedOn(argument string) string {
	if strings.Contains(argument, " ") {
		return pdshWord(strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`").Replace(argument))
	}
	return pdshWord(text.Quote(argument))
}

// meant reports whether an argument is already quoted for the shells that parse it again on the way
// to the script.
func meant(argument string) bool {
	word := strings.ReplaceAll(argument, "%%", "%")
	if strings.Contains(word, " ") {
		got := strings.NewReplacer(`\\`, `\`, `\$`, "$", "\\`", "`").Replace(word)
		return handedOn(got) == argument
	}
	words, err := launch.SplitWords(word)
	return err == nil && len(words) == 1 && handedOn(words[0]) == argument
}

// pdshWord doubles each percent sign that pdsh would otherwise replace.
func pdshWord(word string) string {
	var text strings.Builder
	for i, r := range word {
		text.WriteRune(r)
		if r == '%' && i+1 < len(word) && strings.ContainsRune("hun%", rune(word[i+1])) {
			text.WriteByte('%')
		}
	}
	return text.String()
}
