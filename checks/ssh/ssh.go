package ssh

import (
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
)

// ladder is the order in which a login meets the ssh checks, each at the rung of its place. A
// node fails the one its cause belongs to, passes those before and never gets to those after.
var ladder = []string{"ssh-reach", "ssh-host-key", "ssh-login", "ssh-shell", "agent-start"}

// rungOf is the check that a stage of the login belongs to.
var rungOf = map[string]string{
	"resolve": "ssh-reach", "connect": "ssh-reach", "greet": "ssh-reach", "negotiate": "ssh-reach",
	"host-key": "ssh-host-key",
	"login":    "ssh-login",
	"session":  "ssh-shell", "shell": "ssh-shell",
	"deliver": "agent-start", "start": "agent-start", "talk": "agent-start",
}

var Reach = checks.Check{
	ID:       "ssh-reach",
	Rung:     1,
	Stopped:  stoppedAt,
	Title:    "every node's name resolves, its SSH port answers and an SSH server greets",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionSSH},
	Doc: "Goes the way ssh goes: name, TCP connection (through ProxyJump where the ssh configuration says so), the server's greeting, " +
		"a common set of algorithms. The launcher starts every node through ssh, and DeepSpeed itself tests the first node only: " +
		"any other dead node leaves the rest waiting at the rendezvous until it times out.",
	WouldSee: "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 24/32 clients joined.",
	Run:      stopped("ssh-reach"),
}

var HostKey = checks.Check{
	ID:       "ssh-host-key",
	Rung:     2,
	Stopped:  stoppedAt,
	Title:    "every node's host key is known and unchanged",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionSSH},
	Doc: "Verifies the host key as OpenSSH would, by the known_hosts files its configuration names. A launcher has no terminal to ask on, " +
		"so what is a question in a shell is a refusal in a launch. A changed key is never waved through: either the node was installed anew, " +
		"or something else answers under its name.",
	WouldSee: "{node}: Host key verification failed.",
	Run:      stopped("ssh-host-key"),
}

var Login = checks.Check{
	ID:       "ssh-login",
	Rung:     3,
	Stopped:  stoppedAt,
	Title:    "a key or the agent logs in to every node without any prompt",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionSSH},
	Doc: "Logs in with the keys ssh would offer, in its order: the agent's, then the files of the configuration. No password and no passphrase " +
		"is ever asked for, because a launcher cannot answer either. Where ssh itself would act differently from preflight on a node that let us in, " +
		"this check warns with what ssh would do.",
	WouldSee: "{node}: Permission denied (publickey,password).",
	Run:      stopped("ssh-login"),
}

var AgentStart = checks.Check{
	ID:       "agent-start",
	Rung:     5,
	Stopped:  stoppedAt,
	Title:    "preflight's own program runs on every node",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionSSH},
	Doc: "The facts of a node are gathered by this same program, copied there once into a private directory. This check says what kept it from " +
		"running or from finishing its answer: another architecture, no directory to run from, no space, a killed process, a frozen machine. " +
		"Nothing else can be judged on such a node.",
	WouldSee: "nothing by itself; but what keeps a small static program from running often keeps the launch from running too",
	Run:      stopped("agent-start"),
}

// stopped is a Run that fails the nodes whose way in ended at this check.
func stopped(check string) func(checks.View) []checks.Finding {
	return func(v checks.View) []checks.Finding {
		var findings []checks.Finding
		for _, node := range v.Nodes {
			if node.SSH.Cause != "" && rung(node.SSH) == check {
				findings = append(findings, cureOf(node.SSH).finding(node))
			}
			if check == "ssh-login" && node.SSH.Cause == "" && len(node.SSH.OpenSSH) > 0 {
				findings = append(findings, checks.Finding{
					Verdict: checks.Warn, Nodes: []string{node.Name},
					Summary:  "preflight logged in, but ssh itself, which the launch uses, does not act quite alike",
					Got:      openSSH(node.SSH),
					Want:     "a login by ssh without any prompt",
					Remedy:   []fix.Command{fix.Here("ssh -v -o BatchMode=yes {node} true")},
					WouldSee: "{node}: ssh exited with exit code 255",
				})
			}
		}
		return findings
	}
}

// stoppedAt is at which rung the way in to a node ended, and why.
func stoppedAt(node *facts.Node) (at int, f checks.Finding) {
	if node.SSH == nil || node.SSH.Cause == "" {
		return 0, checks.Finding{}
	}
	return slices.Index(ladder, rung(node.SSH)) + 1, cureOf(node.SSH).finding(node)
}

// rung is the check that a failed login fails: its cause's own, else that of
// the stage at which it happened.
func rung(ssh *facts.SSH) string {
	if check := cureOf(ssh).check; check != "" {
		return check
	}
	if check, known := rungOf[ssh.Stage]; known {
		return check
	}
	return "ssh-reach" // an unknown stage: nothing can be said to have passed
}
