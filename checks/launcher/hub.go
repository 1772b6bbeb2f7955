// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
)

var HubReach = checks.Check{
	ID:       "hub-reach",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionHub},
	Volatile: true,
	Run: func(view checks.View) (findings []checks.Finding) {
		var shut, reaching []*facts.Node
		for _, node := range view.Nodes {
			switch hub := node.Hub; {
			case hub.Unneeded != "":
			case hub.Failed == "":
				reaching = append(reaching, node)
			case hub.Outcome == facts.PathUntried, hub.Outcome == facts.PathBroken:
				findings = append(findings, checks.UnknownFor(node, fmt.Sprintf("could not try %s: %s", through(hub), hub.Error)))
			default:
				shut = append(shut, node)
			}
		}
		for _, group := range compare.GroupBy(shut, barred) {
			findings = append(findings, offTheHub(view, group.Nodes, reaching))
		}
		return findings
	},
}

// barred returns the reason why a node cannot reach the Hub. Nodes with the same reason have the
// same fix.
func barred(node *facts.Node) string {
	hub := *node.Hub
	hub.Address, hub.Seconds = "", 0
	return fmt.Sprint(hub)
}

// through returns the machine to which a node connected: the Hub, or the proxy in front of it.
func through(hub *facts.Hub) string {
	if hub.Proxy != "" {
		return "the proxy " + hub.Proxy
	}
	return hub.Endpoint
}

// offTheHub returns the finding for nodes that cannot reach the Hub for the same reason.
func offTheHub(view checks.View, nodes []string, reaching []*facts.Node) checks.Finding {
	first := slices.IndexFunc(view.Nodes, func(n *facts.Node) bool { return n.Name == nodes[0] })
	hub := view.Nodes[first].Hub
	f := checks.Finding{Nodes: nodes, Got: hub.Error, Want: "a connection to " + hub.Endpoint}
	host := hub.Endpoint
	if endpoint, err := url.Parse(hub.Endpoint); err == nil {
		host = cmp.Or(endpoint.Hostname(), host)
	}
	if hub.Address != "" && hub.Failed == facts.HopConnect {
		f.Got = fmt.Sprintf("%s: %s", hub.Address, hub.Error)
	}
	switch hub.Failed {
	case facts.HopResolve:
		f.Summary = "cannot resolve the name of " + through(hub)
		f.Remedy = []fix.Command{fix.On("getent hosts %s", fix.Host(host)).As(fix.Look)}
		if hub.Proxy != "" {
			f.Remedy = []fix.Command{lookForProxy}
		}
	case facts.HopConnect:
		why := whyShut[hub.Outcome]
		if hub.Outcome == facts.PathRefused {
			why = "no server listens there, or a firewall resets connections"
		}
		f.Summary = fmt.Sprintf("cannot reach %s: %s", through(hub), why)
		f.Remedy = []fix.Command{behindProxy}
		if hub.Proxy != "" {
			f.Remedy = []fix.Command{lookForProxy}
		}
	case facts.HopProxy:
		f.Summary = fmt.Sprintf("the proxy %s refuses connections to %s", hub.Proxy, host)
		f.Remedy = []fix.Command{fix.Note("allow %s in the proxy, or set HTTPS_PROXY to another proxy", fix.Text(host))}
		if strings.HasPrefix(hub.Error, "407") {
			f.Remedy = []fix.Command{fix.Note("put the user and password of the proxy into HTTPS_PROXY")}
		}
	case facts.HopStore:
		f.Summary = "cannot read the file of trusted certificates"
		f.Got, f.Want = fmt.Sprintf("%s: %s", hub.Store, hub.Error), "a readable file of certificates in PEM format"
		f.Remedy = []fix.Command{fix.On("ls -l %s", fix.Path(hub.Store)).As(fix.Look)}
	case facts.HopTrust:
		f.Summary = fmt.Sprintf("does not trust the certificate of %s", host)
		f.Got, f.Want = fmt.Sprintf("%s, with the certificates of %s", hub.Error, hub.Store), "a certificate that is signed by a trusted one"
		f.Remedy = []fix.Command{fix.Note("if a proxy decrypts TLS, set %s of the ranks to a file that also has the proxy's certificate", trusts(hub))}
		f.WouldSee = "SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: " + hub.Error
	default:
		f.Summary = fmt.Sprintf("reaches %s, but TLS fails: a firewall or proxy blocks it", host)
		f.Remedy = []fix.Command{behindProxy}
	}
	f.Remedy = append(f.Remedy, cached(view))
	if isFirst := func(n *facts.Node) bool { return n.Name == names.FirstHost(view) }; slices.ContainsFunc(reaching, isFirst) {
		f.Summary += fmt.Sprintf("; %s, which has rank 0, can", names.FirstHost(view))
	} else if reaching != nil {
		f.Summary += fmt.Sprintf("; %s can", hostfile.Fold(checks.NamesOf(reaching)))
	}
	return f
}

// trusts returns the variable that names the trusted certificates of the node's HTTP client.
func trusts(hub *facts.Hub) fix.Variable {
	if hub.Client == "httpx" {
		return "SSL_CERT_FILE"
	}
	return "REQUESTS_CA_BUNDLE"
}

var (
	behindProxy  = fix.Note("allow the connection in the firewall, or set HTTPS_PROXY of the ranks to your proxy, or HF_ENDPOINT to a mirror")
	lookForProxy = fix.On("env | grep -i _proxy   # correct the variable with this proxy").As(fix.Look)
)

// cached returns the note that describes how to launch without the Hub: copy the models into the
// nodes' caches.
func cached(view checks.View) fix.Command {
	all := text.Map(view.Launch.Models, func(named facts.ModelNamed) string { return named.Name })
	return fix.Note("or copy %s into the nodes' caches before the launch, from a machine that reaches the Hub", fix.Text(strings.Join(all, " and ")))
}

var ModelCached = checks.Check{
	ID:       "model-cached",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionFiles, facts.SectionEnv},
	Volatile: true,
	Run: func(view checks.View) (findings []checks.Finding) {
		if len(view.Launch.Models) == 0 {
			return checks.Skipped("the command names no model or data set of the Hub")
		}
		for _, named := range view.Launch.Models {
			findings = append(findings, judgeModel(view, named)...)
		}
		return findings
	},
}

func judgeModel(view checks.View, named facts.ModelNamed) (findings []checks.Finding) {
	var has, lacking, local []*facts.Node
	for _, node := range view.Nodes {
		switch model := launch.CachedModel(node, named); {
		case model == nil:
			findings = append(findings, checks.UnknownFor(node, fmt.Sprintf("files: preflight did not look for %s", named.Name)))
		case model.Problem != "":
			findings = append(findings, checks.UnknownFor(node, fmt.Sprintf("files: %s in %s: %s", named.Name, model.Cache, model.Problem)))
		case model.Local:
			local = append(local, node)
		case model.Commit == "":
			lacking = append(lacking, node)
		default:
			has = append(has, node)
		}
	}
	if others := slices.Concat(has, lacking); local != nil && others != nil {
		findings = append(findings, checks.Finding{
			Nodes:   checks.NamesOf(others),
			Summary: fmt.Sprintf("%s comes from the Hub here, but is a local directory on %s", named.Name, hostfile.Fold(checks.NamesOf(local))),
			Want:    "the directory on every node, or on none",
			Remedy:  []fix.Command{fix.On("ls -ld %s", fix.Path(view.Launch.WorkDir+"/"+named.Name)).As(fix.Look)},
		})
		return findings
	}
	offlineBy := func(n *facts.Node) string { return launch.HubOffline(ranks.Env(view, n), named) }
	isOffline := func(n *facts.Node) bool { return offlineBy(n) != "" }
	for _, node := range lacking {
		by := offlineBy(node)
		if by == "" && has == nil {
			continue // no node has the model, so all nodes download it at the start
		}
		f := checks.Finding{
			Nodes: []string{node.Name}, Summary: fmt.Sprintf("%s is not in the cache, and %s forbids the download", named.Name, by),
			Got: "nothing for revision " + named.Revision, Want: "the same revision on every node", Remedy: []fix.Command{download(view, named)},
		}
		if by == "" {
			f.Verdict = checks.Warn
			f.Summary = fmt.Sprintf("%s is not in the cache, so the other nodes wait for the download", named.Name)
			f.WouldSee = "429 Client Error: Too Many Requests, or the watchdog's timeout of the first collective"
		}
		findings = append(findings, f)
	}
	return append(findings, unlikeModels(view, named, has, slices.ContainsFunc(has, isOffline))...)
}

// unlikeModels returns findings for nodes whose caches differ. Ranks that may connect to the Hub
// use the version that is current there.
func unlikeModels(view checks.View, named facts.ModelNamed, has []*facts.Node, isOffline bool) []checks.Finding {
	differences := compare.Differences(
		compare.Among(has, named.Revision, func(n *facts.Node) string { return short(launch.CachedModel(n, named).Commit) }),
		compare.Among(has, "files", func(n *facts.Node) string { return launch.CachedModel(n, named).Files }),
	)
	common := checks.Finding{WouldSee: "wrong results without an error, or a rank that does not find a file", Remedy: []fix.Command{download(view, named)}}
	if !isOffline {
		common.Verdict, common.WouldSee = checks.Warn, "nothing if every node reaches the Hub; otherwise wrong results without an error"
	}
	return compare.Findings("the cached copies of "+named.Name, differences, common)
}

// download returns the command that downloads a model or data set into the cache of {nodes}. The
// command needs access to the Hub.
func download(view checks.View, named facts.ModelNamed) fix.Command {
	first, last := fix.Code(""), fix.Code("")
	if named.CacheDir != "" {
		first, last = fix.Code("env HF_DATASETS_CACHE=%s ", fix.Path(named.CacheDir)), fix.Code(" --cache-dir %s", fix.Path(named.CacheDir))
	}
	if named.DataSet {
		return fix.On("%s%s -c 'import sys, datasets; datasets.load_dataset(sys.argv[1])' %s", first, fix.Path(cmp.Or(view.Launch.Interpreter, "python3")), fix.Operand(named.Name)).
			Remark("add its configuration if it has several; needs access to the Hub")
	}
	return fix.On("hf download %s --revision %s%s", fix.Operand(named.Name), fix.Operand(named.Revision), last).
		Remark("needs access to the Hub; before release 0.34: huggingface-cli download")
}
