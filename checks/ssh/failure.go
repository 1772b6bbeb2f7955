// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// blame says what is broken, for a launch that needs no ssh. "" means that only ssh is broken (its
// server, keys and accounts), or only preflight's agent.
type blame string

const (
	// hostOrPort means that the machine is down, or that a firewall closes the ssh port. If a Slurm
	// job has the machine, the machine is up, so the firewall is the cause.
	hostOrPort blame = "host-or-port"
	// host means that no program can reach the machine: the machine or its network is down.
	host blame = "host"
)

// failureOf returns the failure for the cause of a failed login, and the check that fails. That is
// the cause's own check if it has one, otherwise the check of the stage. Unknown causes are
// reported as "unexpected".
func failureOf(ssh *facts.SSH) (check string, what failure) {
	if ssh.Carrier != "" && ssh.Stage == "inside" {
		return enterID, failureBy(ssh.Carrier, ssh.Cause)
	} else if ssh.Carrier != "" {
		return "agent-start", failureBy(ssh.Carrier, ssh.Cause)
	}
	table := failures()
	for check, causes := range table.Checks {
		if what, known := causes[ssh.Cause]; known {
			return check, what
		}
	}
	what, known := table.ByStage[ssh.Cause]
	if !known {
		what = table.ByStage["unexpected"]
	}
	return cmp.Or(checkOf[ssh.Stage], "ssh-reach"), what // for an unknown stage, fail the first check, because no check is known to have passed
}

// finding returns the finding for a node with this failure.
func (what failure) finding(node *facts.Node) checks.Finding {
	values := metOnTheWay(node.SSH)
	known := func(template string) string {
		text, complete := fillIn(template, values)
		if !complete {
			return ""
		}
		return text
	}
	f := checks.Finding{Verdict: what.Verdict, Nodes: []string{node.Name}, Got: known(what.Got), Want: known(what.Want), WouldSee: known(what.WouldSee)}
	f.Summary, _ = fillIn(what.Summary, values)
	if notes := openSSH(node.SSH); notes != "" {
		f.Got = strings.TrimPrefix(f.Got+"; "+notes, "; ")
	}
	commands := what.Fix
	if wrong := misspelt(node); wrong != "" {
		f.Summary, commands = wrong, []fix.Command{fix.Here("grep -nF %s {hostfile}   # the line to change", fix.Operand(node.Name)).As(fix.Look)}
		if strings.HasPrefix(node.Name, hostfile.ByteOrderMark) {
			commands = []fix.Command{fix.Here(`sed -i '1s/^\xef\xbb\xbf//' {hostfile}`)}
		}
	}
	if what.NoPlace {
		// A container needs other options, and a mount on its machine changes nothing inside.
		if started := remedy.WritableTmp(node); started != nil {
			commands = append(started, slices.DeleteFunc(slices.Clone(what.Fix), func(c fix.Command) bool { return c.Role() != fix.Look })...)
		}
	}
	if what.Installs {
		commands = append(installKey(node.SSH), what.Fix...)
	}
	args := typed(values)
	args["port_option"] = fix.Code("")
	if values["port"] != "22" {
		args["port_option"] = fix.Code("-p %s ", args["port"])
	}
	if node.SSH.Inside != nil {
		args["inside"] = fix.List[fix.Word](" ", node.SSH.Inside)
	}
	atTheNode := node.SSH.Inside != nil && slices.Contains(ofTheNode, checkOf[node.SSH.Stage])
	for _, command := range commands {
		if atTheNode {
			command = command.Outside()
		}
		if bound := command.Bind(args); !bound.Lacks() {
			f.Remedy = append(f.Remedy, bound)
		}
	}
	if len(f.Remedy) == 0 && f.Verdict != checks.Unknown {
		f.Remedy = []fix.Command{failures().Commands["try-by-ssh"]}
	}
	return f
}

// misspelt returns the reason why a name can never resolve: its line in the hostfile has the syntax
// of another program. It returns "" for any other name.
func misspelt(node *facts.Node) string {
	switch {
	case node.SSH.Cause != "name-unknown":
		return ""
	case strings.HasPrefix(node.Name, hostfile.ByteOrderMark):
		return "the hostfile begins with a byte order mark, which becomes a part of the name"
	case strings.HasSuffix(node.Name, ":"):
		return "the name does not resolve: remove the colon from its end in the hostfile"
	case strings.ContainsAny(node.Name, "[]"):
		return "DeepSpeed does not expand ranges in a hostfile: write one line for each node"
	}
	return ""
}

// spelling returns the command for a name that does not resolve because it is misspelt. If the name
// that the user meant is unknown, the command shows where the name is from.
func spelling(name string, p launch.Prediction) []fix.Command {
	meant := p.Meant[name]
	switch {
	case meant != "":
		var names []string
		for _, host := range p.Hosts {
			names = append(names, cmp.Or(p.Meant[host.Name], host.Name))
		}
		return []fix.Command{fix.Here("preflight -w %s   # did you mean %s? Add the other options of this run", fix.Word(hostfile.Fold(names)), fix.Word(meant))}
	case p.HostsFile != "":
		return []fix.Command{fix.Here("grep -nF {host} {hostfile}   # is the name spelled correctly?").As(fix.Look)}
	}
	return nil
}

// weighed returns the finding with the verdict that it has for this launch. If the launch starts
// its ranks without ssh, a closed ssh port affects only preflight, and the node is unknown.
func (what failure) weighed(f checks.Finding, node *facts.Node, p launch.Prediction) checks.Finding {
	if node.SSH.Cause == "name-unknown" && misspelt(node) == "" {
		f.Remedy = append(spelling(node.Name, p), f.Remedy...)
	}
	why, by := p.WithoutSSH(node.Name), p.StartedBy()
	switch {
	case node.SSH.Carrier != "" && node.SSH.Carrier != "mpirun":
		if by.SSH && f.Verdict != checks.Unknown && what.Blames != host {
			f.Verdict, f.WouldSee = checks.Unknown, ""
			f.Summary += onlyPreflight(by.Program() + " starts the ranks over ssh")
		}
		return f
	case why == "" && by.Name != "" && !by.SSH: // DeepSpeed itself connects to this host over ssh
		f.WouldSee = fmt.Sprintf("RuntimeError: Using hostfile at %s but host=%s was not reachable via ssh.", p.HostsFile, node.Name)
		f.Remedy = append([]fix.Command{fix.Here("deepspeed --no_ssh_check --master_addr=<address of {node}> …   # DeepSpeed itself asks the first host over ssh; %s does not", fix.Name(by.Program())).As(fix.Or)}, f.Remedy...)
		return f
	case why == "", f.Verdict == checks.Unknown, what.Blames == host, what.Blames == hostOrPort && !p.SlurmJob:
		return f
	}
	f.Verdict, f.WouldSee = checks.Unknown, ""
	f.Summary += onlyPreflight(why)
	way := failures().Commands["via-salloc"]
	switch {
	case p.SlurmJob:
		way = failures().Commands["via-srun"]
	case by.Allocation == "":
		return f
	}
	commands := []fix.Command{way}
	for _, command := range f.Remedy {
		if role := command.Role(); role == fix.Fix || role == fix.Then {
			command = command.As(fix.Or)
		}
		if !command.As(way.Role()).Is(way) {
			commands = append(commands, command)
		}
	}
	f.Remedy = commands
	return f
}

// onlyPreflight returns the end of the summary of a failure that does not affect the launch itself.
// why is the reason why it does not.
func onlyPreflight(why string) string { return " (this affects only preflight: " + why + ")" }

// metOnTheWay returns the values for the placeholders in the texts of a failure.
func metOnTheWay(ssh *facts.SSH) map[string]string {
	values := map[string]string{"message": ssh.Message, "user": ssh.User, "port": "22"}
	if ssh.Port != 0 {
		values["port"] = strconv.Itoa(ssh.Port)
	}
	maps.Copy(values, ssh.Detail)
	return values
}

// typed returns the values as arguments of commands, each with the type that its quoting needs.
func typed(values map[string]string) map[string]fix.Arg {
	args := map[string]fix.Arg{}
	for name, value := range values {
		if value == "" {
			continue
		}
		switch name {
		case "file":
			args[name] = fix.Path(value)
		case "name":
			args[name] = fix.Word(value)
		case "user":
			args[name] = fix.Operand(value)
		case "jump":
			args[name] = fix.Host(value)
		default:
			args[name] = fix.Name(value)
		}
	}
	return args
}

// openSSH describes what the system's ssh would do differently. It removes the host's name from
// each sentence, so that equal findings fold.
func openSSH(ssh *facts.SSH) string {
	var notes []string
	for _, note := range append(ssh.OpenSSH[:len(ssh.OpenSSH):len(ssh.OpenSSH)], ssh.Detail["openssh"]) {
		if host, rest, found := strings.Cut(note, ": "); found && !strings.Contains(host, " ") {
			note = rest
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	return strings.Join(notes, "; ")
}

var Placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// UnknownDetail replaces an unknown value in a summary.
const UnknownDetail = "(unknown)"

// fillIn replaces the placeholders of a template, and reports whether all values are known. It does
// not replace the placeholders of Finding, which are replaced after folding.
func fillIn(template string, values map[string]string) (string, bool) {
	complete := true
	text := Placeholder.ReplaceAllStringFunc(template, func(name string) string {
		switch name {
		case "{node}", "{nodes}", "{host}":
			return name
		}
		value := values[strings.Trim(name, "{}")]
		if value == "" {
			complete = false
			return UnknownDetail
		}
		return value
	})
	return text, complete
}

//go:embed failures.yaml
var failuresFile []byte

// failureTable is the content of failures.yaml.
type failureTable struct {
	Commands  map[string]fix.Command        // the commands by name
	Checks    map[string]map[string]failure // failures by the check that fails, then by the cause
	ByStage   map[string]failure            `yaml:"by_stage"` // failures by the cause; the stage of the login decides which check fails
	Carriers  map[string]map[string]failure // failures by the carrier, then by the cause
	AllSilent failure                       `yaml:"all_silent"`
}

// failure describes one way in which preflight can fail to reach a node. The head of failures.yaml
// explains the fields.
type failure struct {
	Verdict  checks.Verdict
	Blames   blame
	Summary  string
	Got      string
	Want     string
	NoPlace  bool `yaml:"no_place"`
	Installs bool
	Fix      []fix.Command
	WouldSee string `yaml:"would_see"`
}

// failures returns the content of failures.yaml. The file is parsed on first use.
var failures = sync.OnceValue(func() (table failureTable) {
	decoder := yaml.NewDecoder(bytes.NewReader(failuresFile))
	decoder.KnownFields(true)
	if err := decoder.Decode(&table); err != nil {
		panic("checks/ssh: failures.yaml: " + err.Error())
	}
	return table
})

// ofLaunchingMachine lists the causes that are on the launching machine. Their texts do not depend
// on the carrier, the program that reaches the nodes.
var ofLaunchingMachine = []string{"head-limit", "head-stood", "head-busy", "interrupted"}

// failureBy returns the failure for a cause if a carrier other than ssh reached the node.
func failureBy(carrier, cause string) failure {
	table := failures()
	own, known := table.Carriers[carrier]
	if !known {
		own = table.Carriers["srun"]
	}
	families := []map[string]failure{own, table.Checks[enterID], table.Checks["agent-start"]}
	if carrier == "mpirun" { // mpirun itself uses ssh, so ssh's failures apply
		families = append(families, table.Checks["ssh-reach"], table.Checks["ssh-host-key"], table.Checks["ssh-login"], table.Checks["ssh-shell"])
	}
	for _, causes := range families {
		if what, known := causes[cause]; known {
			return what
		}
	}
	if slices.Contains(ofLaunchingMachine, cause) {
		return table.Checks["ssh-reach"][cause]
	}
	return own["unexpected"]
}
