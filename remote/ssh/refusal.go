// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"preflight/internal/text"
	"preflight/remote"
)

// closedAccount matches the messages that PAM modules, login classes and sshd itself send before
// they reject a user whose key was accepted.
var closedAccount = regexp.MustCompile(`(?i)account.{0,40}(expired|locked|disabled|not available)|not permitted to log in|denied for user|logins are (currently )?disabled|permission denied by pam`)

// noJob matches the messages with which Slurm's PAM modules reject users without a job on the node.
//
// Source: SchedMD/slurm 22.05, contribs/pam_slurm_adopt/pam_slurm_adopt.c and
// contribs/pam/pam_slurm.c.
var noJob = regexp.MustCompile(`(?i)no active jobs on this node|no slurm jobs found on node`)

// tooManyFailures matches the message with which OpenSSH (auth.c) and other servers end a login at
// MaxAuthTries.
var tooManyFailures = regexp.MustCompile(`(?i)too many authentication failures`)

// explain returns why a login failed. It prefers the server's own message, then the reason why an
// acceptable key cannot be used, then the keys that were rejected.
func (l *login) explain(err error) *remote.Error {
	banner := text.Escape(strings.TrimSpace(l.banner.String()))
	reason := text.Escape(strings.TrimSpace(disconnected(err)))
	detail := map[string]string{"user": l.target.user, "methods": strings.Join(l.methods, ",")}
	if banner != "" {
		detail["banner"] = banner
	}
	if reason != "" {
		detail["server"] = reason
	}
	if len(l.offered) > 0 {
		detail["offered"] = describe(l.offered)
	}
	e := &remote.Error{Stage: remote.StageLogin, Detail: detail}
	if short := l.short(); short != nil {
		return short
	}
	switch {
	case noJob.MatchString(banner + " " + reason):
		e.Cause, e.Err = remote.NoJob, fmt.Errorf("the server rejects %s: %s", l.target.user, strings.TrimSpace(banner+" "+reason))
	case closedAccount.MatchString(banner + " " + reason):
		e.Cause, e.Err = remote.AccountClosed, fmt.Errorf("the server rejects %s: %s", l.target.user, strings.TrimSpace(banner+" "+reason))
	case len(l.wanted) > 0:
		l.explainWanted(e, l.wanted[0])
	case errors.Is(l.signErr, errAgentSilent):
		detail["socket"] = l.target.agentSocket
		e.Cause, e.Err = remote.AgentUnreachable, fmt.Errorf("%w: it may be waiting for a confirmation or a touch", l.signErr)
	case l.signed != nil && len(l.partial) == 0:
		// If the signature is right and the server rejects the login, the reason is a rule about
		// the account.
		e.Cause = remote.AccountClosed
		e.Err = fmt.Errorf("the server accepts the key %s but rejects the login of %s: the account may be expired or locked", l.signed, l.target.user)
	case tooManyFailures.MatchString(reason):
		detail["untried"] = describe(l.untried)
		e.Cause = remote.KeysRefused
		e.Err = fmt.Errorf("the server stopped after %d keys (MaxAuthTries), with %d untried: set IdentityFile to the right one, and IdentitiesOnly yes", len(l.offered), len(l.untried))
	case err != nil && !errors.Is(err, errGivenUp) && lost(err):
		e.Cause, e.Err = remote.ConnectionLost, fmt.Errorf("during the login: %w", plainError(err))
	default:
		l.explainRefusal(e)
	}
	return e
}

// short returns the failure of the launching machine if it reached a limit and could not read a key
// or ask the agent, otherwise nil.
func (l *login) short() *remote.Error {
	problems := []error{l.agentProblem}
	for _, id := range slices.Concat(l.unknowable, l.wanted) {
		problems = append(problems, id.problem)
	}
	return remote.Short(remote.StageLogin, errors.Join(problems...))
}

// explainWanted sets the failure for a key that the server would accept but that we cannot use.
func (l *login) explainWanted(e *remote.Error, id *identity) {
	e.Cause = id.unusable
	if e.Cause == remote.Unexpected { // the key is on a security key, which needs a person
		e.Cause = remote.KeyLocked
	}
	if e.Cause == remote.NoKey {
		e.Detail["looked"] = fmt.Sprintf("%s: %v", id.from, id.problem)
	}
	e.Detail["file"], e.Detail["reason"] = id.from, reason(id.problem)
	e.Detail["mode"] = fmt.Sprintf("%04o", id.mode)
	e.Err = fmt.Errorf("the server would accept the key %s, but %w", id, id.problem)
}

// reason returns what is wrong with a file, without the file's name.
func reason(problem error) string {
	if at, ok := errors.AsType[*fs.PathError](problem); ok {
		problem = at.Err
	}
	return problem.Error()
}

// explainRefusal sets the failure for a server that accepted none of our keys.
func (l *login) explainRefusal(e *remote.Error) {
	publicKey := slices.Contains(l.methods, "publickey") && l.target.publicKey
	var noted error
	switch {
	case len(l.partial) > 0 && l.signed != nil:
		e.Cause = remote.PasswordOnly
		noted = fmt.Errorf("the key is not enough: the server also asks for %s", strings.Join(l.methods, ", "))
	case !l.target.publicKey && slices.Contains(l.methods, "publickey"):
		e.Cause, e.Detail["looked"] = remote.NoKey, "nowhere: the ssh configuration disables public keys"
		noted = errors.New("the ssh configuration disables public keys (PubkeyAuthentication or PreferredAuthentications)")
	case !publicKey:
		e.Cause = remote.PasswordOnly
		noted = fmt.Errorf("the server accepts %s only", strings.Join(l.methods, ", "))
	case len(l.unknowable) > 0 && len(l.offered) == 0:
		l.explainWanted(e, l.unknowable[0])
		noted = fmt.Errorf("the only key is %s, and %w", l.unknowable[0], l.unknowable[0].problem)
	case l.agentProblem != nil:
		e.Cause, e.Detail["socket"] = remote.AgentUnreachable, l.target.agentSocket
		noted = fmt.Errorf("could not query the ssh-agent at %s (%w), and no other key was accepted", l.target.agentSocket, l.agentProblem)
	case len(l.offered) == 0:
		e.Cause, e.Detail["looked"] = remote.NoKey, strings.Join(l.looked(), ", ")
		noted = fmt.Errorf("no key to offer: looked for keys in %s", e.Detail["looked"])
	default:
		e.Cause = remote.KeysRefused
		noted = fmt.Errorf("%s@%s accepts none of the keys offered: %s", l.target.user, l.target.host, e.Detail["offered"])
		if len(l.unknowable) > 0 {
			e.Detail["locked"] = describe(l.unknowable)
		}
		for _, id := range l.unknowable { // one of these may be the key that is needed
			e.Detail["offered"] += fmt.Sprintf("; not offered: %s: %s", id.from, reason(id.problem))
		}
	}
	e.Err = noted
}

// looked returns the places where keys were looked for.
func (l *login) looked() []string {
	places := slices.Clone(l.target.identities)
	if l.target.agentSocket == "" {
		return append(places, "no agent")
	}
	return append(places, "the agent at "+l.target.agentSocket)
}

// remaining returns the login methods that ssh would still try when we have no method left.
func (l *login) remaining() (sentences []string) {
	for _, method := range []struct {
		on            bool
		name, keyword string
	}{
		{l.target.hostbased, "hostbased", "HostbasedAuthentication"},
		{l.target.gssapi, "gssapi-with-mic", "GSSAPIAuthentication"},
	} {
		if method.on && slices.Contains(l.methods, method.name) {
			sentences = append(sentences, fmt.Sprintf("ssh would also try %s (%s is on), which preflight cannot", method.name, method.keyword))
		}
	}
	return sentences
}

func describe(ids []*identity) string { return strings.Join(text.Map(ids, (*identity).String), ", ") }
