// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/facts"
	"preflight/launch"
)

var inPod = map[string]string{"namespace": "ml", "container": "train", "reason": "ImagePullBackOff"}

// met maps each cause to an example of its facts.
var met = map[string]facts.SSH{
	"name-unknown":             {Stage: "resolve", Detail: map[string]string{"resolver": "no such host", "name": "w2"}},
	"refused":                  {Stage: "connect", Detail: map[string]string{"address": "10.0.0.2"}},
	"black-hole":               {Stage: "session", Detail: map[string]string{"direction": "to", "mtu": "1500", "size": "1472"}},
	"timed-out":                {Stage: "connect", Detail: map[string]string{"address": "10.0.0.2", "after": "10s"}},
	"no-route":                 {Stage: "connect", Detail: map[string]string{"address": "10.0.0.2"}},
	"jump-failed":              {Stage: "connect", Detail: map[string]string{"jump": "bastion", "cause": "refused"}},
	"proxy-failed":             {Stage: "connect", Detail: map[string]string{"command": "nc %h %p"}},
	"not-ssh":                  {Stage: "greet", Detail: map[string]string{"greeting": "HTTP/1.1 400 Bad Request"}},
	"closed-before-banner":     {Stage: "greet"},
	"silent":                   {Stage: "greet"},
	"no-common-algorithm":      {Stage: "negotiate", Detail: map[string]string{"kind": "key exchange", "offered": "diffie-hellman-group1-sha1"}},
	"host-key-unknown":         {Stage: "host-key", Detail: map[string]string{"file": "/k", "fingerprint": "SHA256:f", "type": "ssh-ed25519", "name": "w2"}},
	"host-key-changed":         {Stage: "host-key", Detail: map[string]string{"file": "/k", "line": "3", "fingerprint": "SHA256:f", "type": "ssh-ed25519", "name": "w2"}},
	"host-key-revoked":         {Stage: "host-key", Detail: map[string]string{"file": "/k", "line": "3", "name": "w2"}},
	"host-key-other-algorithm": {Stage: "host-key", Detail: map[string]string{"file": "/k", "known": "ssh-rsa", "type": "ssh-ed25519", "name": "w2"}},
	"no-key":                   {Stage: "login", Detail: map[string]string{"looked": "/home/train/.ssh/id_rsa, no agent"}},
	"keys-refused":             {Stage: "login", Detail: map[string]string{"offered": "RSA SHA256:f (agent)", "user": "train"}},
	"key-locked":               {Stage: "login", Detail: map[string]string{"file": "/home/train/.ssh/id_rsa"}},
	"key-permissions":          {Stage: "login", Detail: map[string]string{"file": "/home/train/.ssh/id_rsa", "mode": "0644"}},
	"key-unreadable":           {Stage: "login", Detail: map[string]string{"file": "/home/train/.ssh/id_rsa", "reason": "permission denied"}},
	"key-broken":               {Stage: "login", Detail: map[string]string{"file": "/home/train/.ssh/id_rsa", "reason": "it is a directory"}},
	"known-hosts-unreadable":   {Stage: "host-key", Detail: map[string]string{"file": "/home/train/.ssh/known_hosts", "reason": "permission denied"}},
	"agent-unreachable":        {Stage: "login", Detail: map[string]string{"socket": "/tmp/agent"}},
	"password-only":            {Stage: "login", Detail: map[string]string{"methods": "password,keyboard-interactive"}},
	"account-closed":           {Stage: "login", Detail: map[string]string{"banner": "expired"}},
	"no-job":                   {Stage: "login", Detail: map[string]string{"banner": "Access denied by pam_slurm_adopt: you have no active jobs on this node"}},
	"session-refused":          {Stage: "session"},
	"no-shell":                 {Stage: "shell"},
	"forced-command":           {Stage: "shell", Detail: map[string]string{"output": "menu"}},
	"needs-pty":                {Stage: "session"},
	"shell-broken":             {Stage: "shell", Detail: map[string]string{"output": "bye"}},
	"not-in-job":               {Stage: "session"},
	"step-failed":              {Stage: "session"},
	"no-engine":                {Stage: "inside", Detail: map[string]string{"program": "docker"}},
	"engine-denied":            {Stage: "inside", Detail: map[string]string{"program": "docker", "output": "permission denied"}},
	"engine-down":              {Stage: "inside", Detail: map[string]string{"program": "docker", "output": "Cannot connect"}},
	"no-container":             {Stage: "inside", Detail: map[string]string{"program": "docker", "output": "No such container: train"}},
	"container-stopped":        {Stage: "inside", Detail: map[string]string{"program": "docker", "output": "is not running"}},
	"no-shell-inside":          {Stage: "inside", Detail: map[string]string{"program": "docker", "output": "stat /bin/sh"}},
	"other-arch":               {Stage: "inside", Detail: map[string]string{"program": "docker", "output": "exec format error"}},
	"no-input":                 {Stage: "inside", Detail: map[string]string{"program": "docker"}},
	"not-entered":              {Stage: "inside", Detail: map[string]string{"program": "docker", "output": "usage"}},
	"given-terminal":           {Stage: "inside"},
	"no-pyxis":                 {Stage: "session"},
	"pyxis-failed":             {Stage: "session"},
	"no-cluster":               {Stage: "resolve"},
	"not-logged-in":            {Stage: "resolve"},
	"forbidden":                {Stage: "session", Detail: inPod},
	"no-pod":                   {Stage: "resolve", Detail: inPod},
	"pod-pending":              {Stage: "connect", Detail: inPod},
	"pod-unready":              {Stage: "connect", Detail: inPod},
	"pod-ended":                {Stage: "connect", Detail: inPod},
	"no-pod-container":         {Stage: "connect", Detail: inPod},
	"kubelet-down":             {Stage: "session", Detail: inPod},
	"not-come":                 {Stage: "connect"},
	"wrong-token":              {Stage: "login"},
	"name-twice":               {Stage: "login"},
	"other-wire":               {Stage: "login"},
	"root-refused":             {Stage: "session"},
	"daemon-missing":           {Stage: "session"},
	"daemon-mismatch":          {Stage: "session"},
	"no-callback":              {Stage: "session"},
	"mpirun-failed":            {Stage: "session"},
	"no-overlap":               {Stage: "session"},
	"job-over":                 {Stage: "session"},
	"slurm-silent":             {Stage: "session"},
	"slurm-distrusts":          {Stage: "session"},
	"no-directory":             {Stage: "deliver", Detail: map[string]string{"tried": "/home/train read-only"}},
	"no-programs":              {Stage: "deliver", Detail: map[string]string{"tried": "/home/train/.cache/preflight: sh: 1: mkdir: not found"}},
	"disk-full":                {Stage: "deliver", Detail: map[string]string{"tried": "/tmp full"}},
	"noexec":                   {Stage: "deliver", Detail: map[string]string{"tried": "/tmp noexec"}},
	"file-limit":               {Stage: "deliver", Detail: map[string]string{"tried": "/tmp/preflight-0: File size limit exceeded"}},
	"restricted-shell":         {Stage: "shell", Detail: map[string]string{"output": "rbash: line 1: exec: restricted"}},
	"shell-hangs":              {Stage: "shell"},
	"squatted":                 {Stage: "deliver", Detail: map[string]string{"tried": "/tmp/preflight-0: (taken: drwx------ of mallory)"}},
	"no-unpacker":              {Stage: "deliver"},
	"wrong-arch":               {Stage: "deliver", Detail: map[string]string{"arch": "arm64", "want": "amd64"}},
	"wrong-os":                 {Stage: "deliver", Detail: map[string]string{"os": "FreeBSD"}},
	"libc-too-old":             {Stage: "start", Detail: map[string]string{"message": "GLIBC_2.34 not found"}},
	"agent-killed":             {Stage: "talk", Detail: map[string]string{"signal": "KILL"}},
	"no-address-space":         {Stage: "start", Detail: map[string]string{"message": "fatal error: failed to reserve page summary memory"}},
	"agent-exited":             {Stage: "start", Detail: map[string]string{"status": "3", "stderr": "oops"}},
	"frozen":                   {Stage: "talk", Detail: map[string]string{"after": "10s"}},
	"garbage":                  {Stage: "talk", Detail: map[string]string{"text": "%%%"}},
	"too-much":                 {Stage: "talk", Detail: map[string]string{"limit": "32 MiB"}},
	"truncated":                {Stage: "talk"},
	"connection-lost":          {Stage: "talk"},
	"head-limit":               {Stage: "connect", Detail: map[string]string{"files": "128"}},
	"head-stood":               {Stage: "connect"},
	"head-busy":                {Stage: "connect"},
	"interrupted":              {Stage: "connect"},
	"unexpected":               {Stage: "connect"},
}

// checksOf maps every cause to its own check, or to "" if the stage decides.
func checksOf() map[string]string {
	all := map[string]string{}
	for cause := range failures().ByStage {
		all[cause] = ""
	}
	for check, causes := range failures().Checks {
		for cause := range causes {
			all[cause] = check
		}
	}
	return all
}

// TestEveryCauseFailsOneCheck checks that only the check of the cause fails on the node. The checks
// before it must pass. The checks after it, and all other checks, must report that they did not
// reach the node.
func TestEveryCauseFailsOneCheck(t *testing.T) {
	for cause, own := range checksOf() {
		ssh, documented := met[cause]
		if !documented {
			t.Errorf("%s: a failure by a cause this test does not know", cause)
			continue
		}
		ssh.User, ssh.Port, ssh.Cause, ssh.Message = "train", 22, cause, "in the words of "+cause
		fails(t, cmp.Or(own, checkOf[ssh.Stage]), ssh)
		ssh.Stage, ssh.Detail = "", nil // the cause must give a fix even without a stage and details
		fails(t, cmp.Or(own, "ssh-reach"), ssh)
	}
	for cause := range met {
		if _, known := checksOf()[cause]; !known {
			t.Errorf("nothing is said of %s", cause)
		}
	}
}

// fails makes the login to one of three nodes fail, and expects one finding of the given check.
func fails(t *testing.T, check string, ssh facts.SSH) {
	t.Helper()
	cause, other := ssh.Cause, checks.Check{ID: "other", Needs: []facts.Section{facts.SectionHost}, Run: func(checks.View) []checks.Finding { return nil }}
	var fleet facts.Fleet
	for i := range 3 {
		fleet.Nodes = append(fleet.Nodes, facts.Node{Name: fmt.Sprintf("w%d", i+1), Reached: i != 1, Facts: facts.Facts{SSH: &facts.SSH{User: "train", Port: 22, Inside: []string{"docker", "exec", "-i", "train"}}, Host: &facts.Host{}}})
	}
	ssh.Inside = []string{"docker", "exec", "-i", "train"}
	fleet.Nodes[1].Facts = facts.Facts{SSH: &ssh}
	report := engine.Evaluate([]checks.Check{Reach, HostKey, Login, Shell, Inside, AgentStart, other}, fleet, launch.Prediction{Launcher: launch.DefaultLauncher}, checks.DefaultPolicy())
	if len(report.Findings) != 1 {
		t.Errorf("%s: %d findings: %+v", cause, len(report.Findings), report.Findings)
		return
	}
	finding := report.Findings[0]
	if !slices.Equal(finding.Nodes, []string{"w2"}) {
		t.Errorf("%s: blamed %v", cause, finding.Nodes)
	}
	if finding.Check != check {
		t.Errorf("%s at stage %q fails %s, want %s", cause, ssh.Stage, finding.Check, check)
	}
	if finding.Summary == "" || finding.Verdict != checks.Unknown && (len(finding.Fix) == 0 || finding.WouldSee == "") {
		t.Errorf("%s: nothing to be done about %+v", cause, finding)
	}
	own := slices.Index(ladder, check)
	for _, outcome := range report.Checks {
		want, reason, at := checks.Pass, "w2 not reached", slices.Index(ladder, outcome.Check)
		switch {
		case at >= 0 && at < own:
			reason = ""
		case slices.Contains([]string{"interrupted", "head-limit", "head-stood", "head-busy", "not-in-job", "no-overlap", "job-over", "no-cluster", "not-logged-in", "forbidden", "no-pod-container", "wrong-token", "other-wire",
			"squatted", "noexec", "file-limit", "no-unpacker", "wrong-arch"}, cause): // these causes make the check unknown
			want, reason = checks.Unknown, outcome.Reason
		case at == own:
			want, reason = checks.Fail, ""
		}
		if outcome.Verdict != want || outcome.Reason != reason {
			t.Errorf("%s: %s is %s (%s), want %s (%s)", cause, outcome.Check, outcome.Verdict, outcome.Reason, want, reason)
		}
		if want == checks.Unknown && at != own && outcome.Reason != "w2 not reached" {
			t.Errorf("%s: %s is unknown because of %q", cause, outcome.Check, outcome.Reason)
		}
	}
}

// TestFailuresFile checks every row of failures.yaml. People paste the fixes, so no fix may accept
// a host key that nobody has compared.
func TestFailuresFile(t *testing.T) {
	table := failures()
	families := map[string]map[string]failure{"by_stage": table.ByStage, "all": {"all_silent": table.AllSilent}}
	for check, causes := range table.Checks {
		families[check] = causes
		if !slices.Contains(ladder, check) {
			t.Errorf("%s is no ssh check", check)
		}
	}
	for carrier, causes := range table.Carriers {
		families[carrier] = causes
		if _, known := causes["unexpected"]; !known {
			t.Errorf("%s has no words for a cause that it does not know", carrier)
		}
	}
	for family, causes := range families {
		for cause, what := range causes {
			if what.Summary == "" || what.Verdict != "" && what.Verdict != checks.Unknown || !slices.Contains([]blame{"", host, hostOrPort}, what.Blames) {
				t.Errorf("%s: %s: %+v", family, cause, what)
			}
			for _, command := range what.Fix {
				text := command.String()
				if strings.Contains(text, "StrictHostKeyChecking") || strings.Contains(text, "UserKnownHostsFile") {
					t.Errorf("%s: %s: %q", family, cause, text)
				}
			}
		}
	}
	for _, name := range []string{"copy-id", "try-by-ssh", "via-salloc", "via-srun"} {
		if _, known := table.Commands[name]; !known {
			t.Errorf("there is no command %s, which the code uses", name)
		}
	}
	for _, check := range slices.Sorted(maps.Values(checkOf)) {
		if !slices.Contains(ladder, check) {
			t.Errorf("a stage leads to %s, which is no ssh check", check)
		}
	}
}

// TestMisspeltNames checks the finding for a name that can never resolve. It must show the name's
// line in the hostfile, and must not ask for an address.
func TestMisspeltNames(t *testing.T) {
	for name, want := range map[string]string{
		"w[1-4]": "does not expand ranges",
		"w1:":    "remove the colon",
		"w1":     "on the launching machine",
	} {
		node := &facts.Node{Name: name, Facts: facts.Facts{SSH: &facts.SSH{Stage: "resolve", Cause: "name-unknown"}}}
		_, what := failureOf(node.SSH)
		f := what.finding(node)
		shows := strings.Contains(f.Remedy[0].String(), "grep -nF")
		if !strings.Contains(f.Summary, want) || shows == (name == "w1") {
			t.Errorf("%s: %s; %v", name, f.Summary, f.Remedy)
		}
	}
}
