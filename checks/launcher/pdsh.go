// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/nccl"
)

// pdshFanOut is the number of hosts on which DeepSpeed allows pdsh to run at the same time.
// Source: deepspeed/launcher/constants.py, PDSH_MAX_FAN_OUT, 0.19.6 of development.
const pdshFanOut = 1024

func pdshFindings(view checks.View, pdsh *facts.PDSH) []checks.Finding {
	var findings []checks.Finding
	add := func(f checks.Finding) { findings = append(findings, f) }
	switch {
	case pdsh == nil:
		add(checks.Finding{
			Summary: "pdsh is not in PATH of the launching machine",
			Remedy:  fix.Install(fix.Here, remedy.SystemOf(view.Head), "pdsh", "pdsh pdsh-rcmd-ssh"),
		})
	case len(pdsh.Insecure) > 0:
		f := checks.Finding{
			Summary:  "pdsh refuses its module directory because of its owner or mode",
			Got:      strings.Join(pdsh.Insecure, ", "),
			Want:     "every directory up to / owned by root or the user, and not writable by others",
			WouldSee: fmt.Sprintf("module path %q insecure. … Couldn't load any pdsh modules", pdsh.ModuleDir),
		}
		for _, entry := range pdsh.Insecure {
			directory, _, _ := strings.Cut(entry, " ")
			f.Remedy = append(f.Remedy, fix.Here("sudo chown root:root %s && sudo chmod go-w %[1]s", fix.Path(directory)))
		}
		add(f)
	case !slices.Contains(pdsh.Modules, "ssh") && pdsh.Problem != "":
		add(checks.Finding{
			Summary:  "pdsh cannot load its modules",
			Got:      pdsh.Problem,
			WouldSee: pdsh.Problem,
			Remedy:   []fix.Command{fix.Here("%s -V", fix.Path(pdsh.Path)).As(fix.Look)},
		})
	case !slices.Contains(pdsh.Modules, "ssh"):
		add(checks.Finding{
			Summary:  "pdsh has no ssh module",
			Got:      "modules " + strings.Join(pdsh.Modules, ", "),
			WouldSee: `pdsh: No such rcmd module "ssh"`,
			Remedy:   fix.Install(fix.Here, remedy.SystemOf(view.Head), "pdsh", "pdsh-rcmd-ssh"),
		})
	}
	if hosts, most := len(view.Launch.Hosts), fanOut(view.Launch.LauncherArgs); hosts > most {
		add(checks.Finding{
			Summary:  fmt.Sprintf("pdsh runs on only %d hosts at a time, so the others never start", most),
			Got:      fmt.Sprintf("%d hosts", hosts),
			Want:     fmt.Sprintf("at most %d", most),
			WouldSee: "Timed out after … seconds waiting for clients. …/… clients joined",
			Remedy:   []fix.Command{fix.Here("deepspeed --launcher_args='-f %s' …", fix.Number(hosts))},
		})
	}
	if findings == nil { // if there are findings, pdsh fails for a reason that is already reported
		findings = rehearsalFindings(view)
	}
	findings = append(findings, pdshEnv(view, pdsh)...)
	return append(findings, endsOthers(view)...)
}

// endsOthers warns about other DeepSpeed jobs that Ctrl-C of this launch ends. DeepSpeed then runs
// pkill -f on all nodes of the launch, with a pattern that matches every job of the interpreter.
// With --venv_script, it runs pkill with a pattern that matches no job.
//
// Source: deepspeed/launcher/runner.py, sigkill_handler; multinode_runner.py, PDSHRunner.get_cmd,
// 0.15.1 and 0.19.8.
func endsOthers(view checks.View) (findings []checks.Finding) {
	if view.Launch.Interpreter == "" || view.Launch.VenvScript != "" {
		return nil
	}
	for _, node := range view.All {
		if node.Host == nil {
			continue
		}
		var jobs, pids []string
		for _, job := range node.Host.Launches {
			if job.Interpreter == view.Launch.Interpreter && (job.User == node.Host.User || node.Host.User == "root") {
				jobs = append(jobs, fmt.Sprintf("%s of %s (pid %d)", cmp.Or(job.Script, "a job"), job.User, job.PID))
				pids = append(pids, strconv.Itoa(job.PID))
			}
		}
		if jobs != nil {
			findings = append(findings, checks.Finding{
				Verdict: checks.Warn, Nodes: []string{node.Name}, Summary: "Ctrl-C of this launch would also end another DeepSpeed job",
				Got: strings.Join(jobs, ", "), Want: "no other deepspeed.launcher.launch of this interpreter",
				WouldSee: "nothing, until Ctrl-C or SIGTERM: DeepSpeed then runs pkill -f on every node, which ends both jobs",
				Remedy: []fix.Command{
					fix.On("ps -o pid,user,lstart,cmd -p %s", fix.Name(strings.Join(pids, ","))).As(fix.Look),
					fix.Note("wait until the other job has ended, or launch on other nodes"),
				},
			})
		}
	}
	return findings
}

// fanOut returns the number of hosts on which pdsh runs at the same time. The last -f wins, and
// --launcher_args come after DeepSpeed's own options.
func fanOut(launcherArgs []string) int {
	most := pdshFanOut
	for i, word := range launcherArgs {
		text, isFanOut := strings.CutPrefix(word, "-f")
		if text == "" && i+1 < len(launcherArgs) {
			text = launcherArgs[i+1]
		}
		if n, err := strconv.Atoi(text); isFanOut && err == nil {
			most = n
		}
	}
	return most
}

// pdshVariables lists the variables that pdsh reads and DeepSpeed does not override. (DeepSpeed
// overrides PDSH_RCMD_TYPE, and FANOUT with -f.) Source: chaos/pdsh 2.34, opt.c and
// modules/sshcmd.c; tried with that version. Its NEWS dates the two time limits to 2.32.
var pdshVariables = []struct {
	Name     string
	Since    string // the first pdsh release that reads the variable, "" for any
	Tried    bool   // whether the test run of pdsh uses the variable, and so shows more than this check
	Verdict  checks.Verdict
	Alters   func(value string) bool
	Summary  string
	WouldSee string
}{
	{"PDSH_COMMAND_TIMEOUT", "2.32", false, checks.Fail, nccl.IsOn, "PDSH_COMMAND_TIMEOUT ends the training after that many seconds", "HOST: command timeout"},
	{"PDSH_CONNECT_TIMEOUT", "2.32", false, checks.Warn, func(v string) bool { n, isNumber := nccl.Number(v); return isNumber && n > 0 && n < 5 },
		"PDSH_CONNECT_TIMEOUT is shorter than a busy node needs", "ssh: connect to host … port 22: Connection timed out"},
	{"PDSH_SSH_ARGS", "", true, checks.Warn, isSet, "PDSH_SSH_ARGS replaces pdsh's own ssh options -2 -a -x",
		"any error of ssh with these options"},
	{"DSHPATH", "", false, checks.Warn, isSet, "DSHPATH replaces PATH on every node, so ranks do not find compilers and tools", "ninja, nvcc or gcc: command not found"},
}

func isSet(value string) bool { return value != "" }

func pdshEnv(view checks.View, pdsh *facts.PDSH) []checks.Finding {
	var findings []checks.Finding
	for _, variable := range pdshVariables {
		value, _ := launch.Lookup(view.Head.Env, variable.Name)
		unread := pdsh != nil && variable.Since != "" && hostfile.Before(pdsh.Version, variable.Since)
		if !variable.Alters(value) || unread || variable.Tried && view.Head.Rehearsal != nil {
			continue
		}
		findings = append(findings, checks.Finding{
			Verdict:  variable.Verdict,
			Summary:  variable.Summary,
			Got:      variable.Name + "=" + value,
			WouldSee: variable.WouldSee,
			Remedy:   []fix.Command{fix.Here("unset %s", fix.Variable(variable.Name))},
		})
	}
	return findings
}

// rehearsalFindings compares the answers that pdsh received from the nodes with the results of
// preflight's own logins. The ssh checks report nodes that preflight did not reach.
func rehearsalFindings(view checks.View) []checks.Finding {
	tried := view.Head.Rehearsal
	answers := func(n facts.RehearsalNode) bool { return len(n.Ranks)+len(n.Errors) > 0 }
	reached := slices.ContainsFunc(view.All, func(n facts.Node) bool { return n.Reached })
	switch reason := view.Head.Missing[facts.SectionRehearsal]; {
	case slices.ContainsFunc(view.Launch.Notes, func(n hostfile.Note) bool { return strings.HasPrefix(n.ID, "pdsh-") }):
		return nil // launcher-args reports node names that pdsh reads differently
	case tried == nil && reached && reason != "":
		return []checks.Finding{checks.UnknownFor(view.Head, "preflight did not test pdsh: "+reason)}
	case tried == nil:
		return nil
	case len(tried.Complaints) > 0 && !slices.ContainsFunc(tried.Nodes, answers):
		return []checks.Finding{{
			Nodes: []string{view.Head.Name}, Summary: "pdsh fails before it reaches any node",
			Got: tried.Complaints[0], WouldSee: tried.Complaints[0], Remedy: []fix.Command{fix.Here("env | grep -E '^(PDSH|DSH|FANOUT|WCOLL)'").As(fix.Look), fix.Here("pdsh -S -w %s echo %n   # add the --launcher_args of the launch", fix.Word(strings.Join(launch.HostNames(view.Launch.Hosts), ","))).As(fix.Look)},
		}}
	}
	var findings []checks.Finding
	for rank, answer := range tried.Nodes {
		findings = append(findings, rehearsedNode(view, rank, answer)...)
	}
	return findings
}

// rehearsedNode checks the answer that pdsh received from the node with this rank.
func rehearsedNode(view checks.View, rank int, answer facts.RehearsalNode) []checks.Finding {
	i := slices.IndexFunc(view.All, func(n facts.Node) bool { return n.Name == answer.Node })
	if i >= 0 && !view.All[i].Reached {
		return nil
	}
	f := checks.Finding{Nodes: []string{answer.Node}}
	names := fix.Word(strings.Join(launch.HostNames(view.Launch.Hosts), ","))
	switch {
	case i < 0:
		f.Nodes = []string{view.Head.Name}
		f.Summary = fmt.Sprintf("pdsh reads a name of the hostfile as %s, which is not in it", answer.Node)
		f.Got, f.Want = ranksOf(answer), "the hosts of the hostfile, in its order"
		f.Remedy = []fix.Command{fix.Here("pdsh -R ssh -Q -w %s   # how pdsh reads the names", names).As(fix.Look)}
		f.WouldSee = "IndexError: list index out of range, on the node whose rank has no entry"
	case len(answer.Ranks) == 0:
		return []checks.Finding{noEcho(view, answer)}
	case !slices.Equal(answer.Ranks, []int{rank}):
		f.Summary = "pdsh gives the node another rank than the hostfile does"
		f.Got, f.Want = ranksOf(answer), fmt.Sprintf("node rank %d", rank)
		f.Remedy = []fix.Command{fix.Here("pdsh -R ssh -Q -w %s   # how pdsh reads the names", names).As(fix.Look)}
		f.WouldSee = "two nodes that start the same ranks, and a rendezvous that waits for the missing ones"
	case len(answer.Noise) > 0 && (view.All[i].SSH == nil || len(view.All[i].SSH.Noise) == 0):
		f.Verdict = checks.Warn
		f.Summary = "prints lines when pdsh logs in, but not when preflight does"
		f.Got = answer.Noise[0]
		f.Remedy = []fix.Command{pdshLogin().Remark("what this prints comes from start-up files")}
		f.WouldSee = "these lines in the training log"
	default:
		return nil
	}
	return []checks.Finding{f}
}

func ranksOf(answer facts.RehearsalNode) string {
	if len(answer.Ranks) == 0 {
		return "no answer under that name"
	}
	return "node rank " + strings.Trim(strings.ReplaceAll(fmt.Sprint(answer.Ranks), " ", " and "), "[]")
}

// pdshRefusals lists the errors of the ssh that pdsh starts, for nodes that accepted preflight's
// login. The texts are those of OpenSSH 9.2.
var pdshRefusals = []struct {
	says    string
	summary string
	fix     []fix.Command
}{
	{"Host key verification failed", "the ssh of pdsh does not know the host key", []fix.Command{fix.Here("ssh {node} true   # asks, and saves the key under the right name if ~/.ssh/config sets HostName or ProxyJump")}},
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", "the ssh of pdsh has another host key for it", []fix.Command{fix.Here("ssh-keygen -F {host}   # which file has which key").As(fix.Look)}},
	{"Permission denied", "the node refuses the login of pdsh's ssh", nil},
	{"Too many authentication failures", "the ssh of pdsh offers more keys than the server accepts", []fix.Command{fix.Here("ssh-add -l").As(fix.Look)}},
	{"Could not resolve hostname", "the ssh of pdsh cannot resolve the name", []fix.Command{fix.Here("ssh -G {node} | grep -i ^hostname").As(fix.Look)}},
	{"Connection refused", "the ssh of pdsh connects to a port without an SSH server", []fix.Command{fix.Here("ssh -G {node} | grep -E '^(hostname|port) '").As(fix.Look)}},
	{"timed out", "the ssh of pdsh gets no answer within its 10 s", nil},
	{"Bad configuration option", "ssh does not understand its own configuration", nil},
	{"Bad owner or permissions", "ssh refuses its configuration file because of its owner or mode", []fix.Command{fix.Here("chmod go-w ~/.ssh ~/.ssh/config")}},
	{"Cannot execute command-line and remote command", "RemoteCommand in ~/.ssh/config stops pdsh's ssh",
		[]fix.Command{fix.Here("ssh -G {node} | grep -i ^remotecommand").As(fix.Look), fix.Here(`sed -i.before "s/^[[:space:]]*RemoteCommand/#&/I" ~/.ssh/config   # or move it to a Host block of another name`)}},
	{"Could not request local forwarding", "LocalForward in ~/.ssh/config lets only one ssh run at a time",
		[]fix.Command{fix.Here("ssh -G {node} | grep -iE '^(localforward|exitonforwardfailure)'").As(fix.Look), fix.Here(`sed -i.before "s/^[[:space:]]*ExitOnForwardFailure/#&/I" ~/.ssh/config   # or move LocalForward to a Host block of another name`)}},
	{"unix_listener: cannot bind to path", "pdsh's ssh cannot create its ControlPath socket",
		[]fix.Command{fix.Here(`mkdir -p -m 700 "$(dirname "$(ssh -G {node} | sed -n "s/^controlpath //p")")"`)}},
	{"No such rcmd module", "pdsh reads a part of the name as one of its modules", nil},
	{"command timeout", "pdsh ended the command at its own time limit", []fix.Command{fix.Here("unset PDSH_COMMAND_TIMEOUT")}},
}

// noEcho returns the finding for a node that accepted preflight's login but sent no echo to pdsh.
func noEcho(view checks.View, answer facts.RehearsalNode) checks.Finding {
	f := checks.Finding{
		Nodes: []string{answer.Node}, Summary: "pdsh gets no answer from it",
		Got: "neither output nor an error", WouldSee: "nothing: the node runs no rank, and the others wait for it",
	}
	if words := lastLine(answer.Errors); words != "" {
		// If the text named the node, equal findings would not fold.
		words = ownSocket.ReplaceAllString(words, "")
		f.Got = strings.ReplaceAll(words, hostfile.Bare(answer.Node), "…")
		f.WouldSee = "{node}: " + strings.ReplaceAll(words, hostfile.Bare(answer.Node), "{host}")
	}
	refused := slices.ContainsFunc(answer.Errors, func(line string) bool { return strings.Contains(line, exitWords) })
	for _, refusal := range pdshRefusals {
		if slices.ContainsFunc(answer.Errors, func(line string) bool { return strings.Contains(line, refusal.says) }) {
			refused, f.Summary = true, refusal.summary
			f.Remedy = slices.Clone(refusal.fix)
			break
		}
	}
	if problem := view.Head.Rehearsal.Problem; problem != "" && !refused {
		return checks.Finding{Verdict: checks.Unknown, Nodes: f.Nodes, Summary: fmt.Sprintf("preflight could not test pdsh on this node (pdsh: %s)", problem)}
	}
	f.Summary += ", although preflight logged in"
	f.Remedy = append(f.Remedy, pdshLogin().Remark("the command that pdsh runs"))
	for _, name := range []string{"PDSH_SSH_ARGS", "PDSH_SSH_ARGS_APPEND"} {
		if value, _ := launch.Lookup(view.Head.Env, name); value != "" {
			f.Remedy = append(f.Remedy, fix.Here("unset %s   # its value is %s", fix.Variable(name), fix.Word(value)))
		}
	}
	return f
}

// ownSocket matches the end of the name with which ssh creates the socket of its ControlPath. It would
// keep equal findings apart.
var ownSocket = regexp.MustCompile(`\.[A-Za-z0-9]{16}\b`)

// exitWords is the text with which pdsh reports an ssh that failed (modules/sshcmd.c).
const exitWords = "exited with exit code"

// lastLine returns the most informative line. That is the last line that is not pdsh's message
// about the exit code of ssh.
func lastLine(errors []string) string {
	for _, line := range slices.Backward(errors) {
		if !strings.Contains(line, exitWords) && line != "…" {
			return line
		}
	}
	if len(errors) == 0 {
		return ""
	}
	return errors[0]
}

// pdshLogin returns the command that logs in as pdsh's ssh module does (pdsh 2.34,
// modules/sshcmd.c). It does not include variables that change the login.
func pdshLogin() fix.Command {
	return fix.Here("ssh -v -oConnectTimeout=10 {ssh_port}-2 -a -x {node} true").As(fix.Look)
}
