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
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// given matches the variables that launchers and resource managers set for every rank.
var given = regexp.MustCompile(`^((LOCAL_|CROSS_|NODE_|GROUP_|ROLE_)?RANK|(LOCAL_|CROSS_|GROUP_|ROLE_)?(WORLD_)?SIZE|MASTER_(ADDR|PORT)|CUDA_VISIBLE_DEVICES|ROLE_NAME|(OMPI|MPI|PMI|PMIX|SLURM|TORCHELASTIC|ACCELERATE|HYDRA|MV2)_.*)$`)

// unset returns findings for variables that the script reads with os.environ["NAME"], and that its
// ranks do not have. Python ends with a KeyError there.
func unset(view checks.View) (findings []checks.Finding) {
	lacking, always := map[string][]string{}, map[string]bool{}
	for _, node := range view.Nodes {
		script := ranks.ScriptAt(view.Launch, node)
		if script == nil {
			continue
		}
		for _, variable := range script.Unset {
			if _, isExported := ranks.Exported(view, variable.Name); !isExported && !given.MatchString(variable.Name) {
				lacking[variable.Name] = append(lacking[variable.Name], node.Name)
				always[variable.Name] = variable.Always
			}
		}
	}
	typed := ranks.ScriptAt(view.Launch, view.Head)
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		isTyped := typed != nil && !slices.ContainsFunc(typed.Unset, func(u facts.Unset) bool { return u.Name == name })
		if isTyped && (view.Launch.StartedBy().Environment == launch.EnvironmentWhole || view.Launch.Program == "accelerate") {
			continue
		}
		f := checks.Finding{
			Nodes: lacking[name], Verdict: checks.Warn,
			Summary:  fmt.Sprintf("the script reads %s, which its ranks do not have", name),
			Got:      "not set on " + hostfile.Fold(lacking[name]),
			Want:     fmt.Sprintf("%s in the environment of every rank", name),
			WouldSee: fmt.Sprintf("KeyError: '%s'", name),
			Remedy:   []fix.Command{ranks.ExportOwn(view.Launch, name).Remark("after you have set %s in this shell", fix.Variable(name))},
		}
		if isTyped {
			f.Got += "; set in the launching shell, but the launch does not export it"
			f.Remedy = []fix.Command{ranks.ExportOwn(view.Launch, name)}
		}
		switch {
		case !always[name]:
			f.WouldSee += ", if the script gets there"
		case view.Launch.StartedBy().Environment == launch.EnvironmentExported:
			f.Verdict = checks.Fail
		}
		findings = append(findings, f)
	}
	return findings
}

// services lists the modules that need the token in a variable. Modules that also work without it,
// such as those of Hugging Face with public models, are left out. A tracker is often started by rank 0
// alone. login describes another way to give a node the token.
var services = []struct {
	variable string
	modules  []string
	tracker  bool
	login    []fix.Command // nil for none
	wouldSee string
}{
	{"WANDB_API_KEY", []string{"wandb"}, true, []fix.Command{fix.Note("run wandb login on {nodes}, or set WANDB_MODE=offline for the ranks").As(fix.Or)},
		"wandb.errors.errors.UsageError: No API key configured. Use `wandb login` to log in."},
	{"COMET_API_KEY", []string{"comet_ml"}, true, []fix.Command{fix.Note("run comet login on {nodes}").As(fix.Or)}, "ValueError: Comet.ml requires an API key"},
	{"NEPTUNE_API_TOKEN", []string{"neptune"}, true, nil, "NeptuneMissingApiTokenException"},
	{"CLEARML_API_SECRET_KEY", []string{"clearml"}, true, []fix.Command{fix.Note("run clearml-init on {nodes}").As(fix.Or)}, "clearml.backend_api.session.defs.MissingConfigError"},
	{"AWS_SECRET_ACCESS_KEY", []string{"boto3", "botocore", "s3fs", "s3torchconnector", "streaming"}, false, []fix.Command{fix.Note("run aws configure on {nodes}, or give the machines a role that may read the data").As(fix.Or)},
		"botocore.exceptions.NoCredentialsError: Unable to locate credentials, unless the machine has a role"},
	{"GOOGLE_APPLICATION_CREDENTIALS", []string{"google", "gcsfs"}, false, []fix.Command{fix.Note("run gcloud auth application-default login on {nodes}").As(fix.Or)},
		"google.auth.exceptions.DefaultCredentialsError, unless the machine has a service account"},
	{"KAGGLE_KEY", []string{"kaggle", "kagglehub"}, false, nil, "OSError: Could not find kaggle.json"},
	{"OPENAI_API_KEY", []string{"openai"}, false, nil, "openai.OpenAIError: The api_key client option must be set"},
	{"ANTHROPIC_API_KEY", []string{"anthropic"}, false, nil, "anthropic.AuthenticationError: Could not resolve authentication method"},
}

// lackingTokens warns about tokens that only the launching machine has, if the script imports a
// library that needs them.
func lackingTokens(view checks.View) (findings []checks.Finding) {
	for _, s := range services {
		head := tokenOf(view.Head, s.variable)
		if _, isExported := ranks.Exported(view, s.variable); head == "" || isExported {
			continue
		}
		isInEnvironment := head == "environment"
		if isInEnvironment && (view.Launch.StartedBy().Environment == launch.EnvironmentWhole || view.Launch.Program == "accelerate") {
			continue
		}
		var lacking []string
		for _, node := range view.Nodes {
			script := ranks.ScriptAt(view.Launch, node)
			if node.Env == nil || script == nil || tokenOf(node, s.variable) != "" || s.tracker && node.Name != names.FirstHost(view) {
				continue
			}
			isImported := slices.ContainsFunc(s.modules, func(module string) bool { return slices.Contains(script.Imports, module) }) ||
				s.tracker && slices.ContainsFunc(view.Launch.Arguments, func(a string) bool { return strings.TrimPrefix(a, "--report_to=") == s.modules[0] })
			needsKeyError := slices.ContainsFunc(script.Unset, func(u facts.Unset) bool { return u.Name == s.variable })
			if isImported && !needsKeyError && !isOffline(ranks.Env(view, node), s.variable) {
				lacking = append(lacking, node.Name)
			}
		}
		if lacking == nil {
			continue
		}
		f := checks.Finding{
			Nodes: lacking, Verdict: checks.Warn,
			Summary:  fmt.Sprintf("only the launching machine has %s: it does not reach the ranks", s.variable),
			Got:      fmt.Sprintf("from %s on the launching machine; on %s neither the variable nor a file that replaces it", head, hostfile.Fold(lacking)),
			Want:     s.variable + " or its file on every node that uses it",
			WouldSee: s.wouldSee,
		}
		if isInEnvironment {
			f.Remedy = []fix.Command{ranks.ExportOwn(view.Launch, s.variable)}
		}
		f.Remedy = append(f.Remedy, s.login...)
		findings = append(findings, f)
	}
	return findings
}

// tokenOf returns the place from which a machine gets a token, or "" if it has none.
func tokenOf(machine *facts.Node, variable string) string {
	if machine == nil || machine.Env == nil {
		return ""
	}
	for _, token := range machine.Env.Tokens {
		if token.Variable == variable {
			return token.From
		}
	}
	return ""
}

// isOffline reports whether the ranks' environment keeps a library from using its service.
func isOffline(env launch.Env, variable string) bool {
	isOff := slices.Contains([]string{"offline", "disabled", "dryrun"}, env.Get("WANDB_MODE").Value) || env.Get("WANDB_DISABLED").Value != ""
	return variable == "WANDB_API_KEY" && isOff
}
