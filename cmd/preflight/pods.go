// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"preflight/cmd/preflight/internal/usage"
	"preflight/hostfile"
	"preflight/remote"
	"preflight/remote/kubectl"
)

func podFlags(flags *pflag.FlagSet) {
	flags.String("namespace", "", "with --via kubectl: the pods' namespace (default: kubectl's current namespace)")
	flags.String("context", "", "with --via kubectl: kubectl context (default: the current context)")
	flags.String("selector", "", "with --via kubectl: label selector for the pods to check, such as app=train")
	flags.String("job", "", "with --via kubectl: the pods' owner; KIND is job, pytorchjob, mpijob, jobset, leaderworkerset, podgroup or vcjob")
	flags.String("container", "", "with --via kubectl: the ranks' container (default: the container that kubectl exec enters)")
}

// askForPods asks the cluster for the pods. The pods are also the hosts of the launch, unless an
// option or a hostfile names hosts.
func (c *Config) askForPods(ctx context.Context) error {
	if c.Via != kubectl.Name {
		var given []string
		for _, flag := range [][2]string{{"namespace", c.Namespace}, {"context", c.Context}, {"selector", c.Selector}, {"job", c.Job}, {"container", c.Container}} {
			if flag[1] != "" {
				given = append(given, c.origin(flag[0]))
			}
		}
		if given != nil {
			return usage.WithHint(fmt.Errorf("needs --via kubectl: %s", strings.Join(given, ", ")), "add --via kubectl, or leave this out")
		}
		return nil
	}
	var err error
	if c.pods, err = kubectl.New(ctx, kubectl.Options{Namespace: c.Namespace, Context: c.Context, Selector: c.Selector, Job: c.Job, Container: c.Container, Timeout: c.Timeout}); err != nil {
		return usage.WithHint(fmt.Errorf("--via kubectl: %w", err), "install kubectl, and see preflight help via")
	}
	return nil
}

// podHosts returns the pods as hosts.
func (c Config) podHosts() ([]hostfile.Host, error) {
	if c.Selector == "" && c.Job == "" {
		return nil, usage.WithHint(errors.New("--via kubectl: no pods selected"), "select them with --selector app=train or --job pytorchjob/NAME, or name them in a hostfile or with -w")
	}
	hosts, err := c.pods.Hosts()
	if failure, is := errors.AsType[*remote.Error](err); is {
		why := fmt.Errorf("--via kubectl: %w", failure.Err)
		switch failure.Cause {
		case remote.Interrupted:
			return nil, why
		case remote.NotLoggedIn:
			return nil, usage.WithHint(why, "log in to the cluster; this must succeed: kubectl auth can-i get pods")
		case remote.Forbidden:
			return nil, usage.WithHint(why, "ask an administrator for get and list on pods and create on pods/exec in namespace %s; or name the pods with -w, which needs no list", cmp.Or(c.Namespace, "default"))
		case remote.NoPod:
			return nil, usage.WithHint(why, "to list all pods: kubectl get pods --all-namespaces --show-labels")
		}
		return nil, usage.WithHint(why, "to test the cluster: kubectl cluster-info; to list the known ones: kubectl config get-contexts")
	}
	return hosts, err
}
