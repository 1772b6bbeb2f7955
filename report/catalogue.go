package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/explain"
	"preflight/facts"
)

// Catalogue lists the checks: the severity of each and when it passes.
func Catalogue(w io.Writer, catalogue []checks.Check, style Style) error {
	p := &page{style: style}
	rows := [][]string{{"check", "severity", "passes when"}}
	for _, check := range catalogue {
		rows = append(rows, []string{check.ID, string(check.Severity), check.Title})
	}
	p.entries(rows)
	return p.writeTo(w)
}

// Check explains one check.
func Check(w io.Writer, check checks.Check, style Style) error {
	p := &page{style: style}
	p.wrapped("", check.ID+": passes when "+check.Title)
	p.line("")
	p.wrapped("", check.Doc)
	p.line("")
	var needs []string
	for _, section := range check.Needs {
		needs = append(needs, string(section))
	}
	where := "on every node"
	if check.OnHead {
		where = "on the launching machine"
	}
	if check.FromPolicy {
		needs = []string{"what the policy names,"}
	}
	p.field("severity", string(check.Severity))
	p.field("looks at", strings.Join(needs, ", ")+" "+where)
	p.field("symptom", check.WouldSee)
	return p.writeTo(w)
}

// CatalogueMarkdown writes the catalogue as a page: docs/checks.md is this.
func CatalogueMarkdown(w io.Writer, catalogue []checks.Check) error {
	var out strings.Builder
	out.WriteString("# The checks\n\nWritten by `make docs` from the catalogue; edit the checks, not this page.\n\n")
	out.WriteString("| check | severity | passes when |\n| --- | --- | --- |\n")
	for _, check := range catalogue {
		fmt.Fprintf(&out, "| [%s](#%s) | %s | %s |\n", check.ID, check.ID, check.Severity, check.Title)
	}
	for _, check := range catalogue {
		fmt.Fprintf(&out, "\n## %s\n\nPasses when %s.\n\n%s\n", check.ID, check.Title, check.Doc)
		if check.WouldSee != "" {
			fmt.Fprintf(&out, "\nWithout it a launch may end with:\n\n```text\n%s\n```\n", check.WouldSee)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Causes lists what a launch can die of.
func Causes(w io.Writer, c *explain.Catalogue, style Style) error {
	p := &page{style: style}
	var rows [][]string
	for _, cause := range c.Causes {
		rows = append(rows, []string{cause.ID, cause.Title})
	}
	p.entries(rows)
	return p.writeTo(w)
}

// Cause explains one cause: why it happens, what logs say of it, what to do.
func Cause(w io.Writer, c *explain.Catalogue, cause explain.Cause, style Style) error {
	p := &page{style: style}
	p.wrapped("", cause.ID+": "+cause.Title)
	p.line("")
	p.wrapped("", cause.Doc)
	p.line("")
	p.field("checks", strings.Join(cause.Checks, ", "))
	p.commands("fix", explain.Plain(cause.Fix))
	var symptoms []string
	for _, s := range signaturesOf(c, cause.ID) {
		symptoms = append(symptoms, s.Examples[0])
	}
	p.commands("symptom", symptoms)
	return p.writeTo(w)
}

// CausesMarkdown writes the causes as a page: docs/causes.md is this.
func CausesMarkdown(w io.Writer, c *explain.Catalogue) error {
	var out strings.Builder
	out.WriteString("# What launches die of\n\nWritten by `make docs` from the causes and signatures of `explain/`; edit those, not this page.\n\n")
	out.WriteString("| cause | what is wrong | says so before the launch |\n| --- | --- | --- |\n")
	for _, cause := range c.Causes {
		fmt.Fprintf(&out, "| [%s](#%s) | %s | %s |\n", cause.ID, cause.ID, cause.Title, links(cause.Checks))
	}
	for _, cause := range c.Causes {
		fmt.Fprintf(&out, "\n## %s\n\n%s. %s\n", cause.ID, capital(cause.Title), cause.Doc)
		if len(cause.Checks) > 0 {
			fmt.Fprintf(&out, "\nBefore the launch: `preflight -H hostfile --only %s`\n", strings.Join(cause.Checks, ","))
		}
		fmt.Fprintf(&out, "\n```sh\n%s\n```\n", strings.Join(explain.Plain(cause.Fix), "\n"))
		if signatures := signaturesOf(c, cause.ID); len(signatures) > 0 {
			out.WriteString("\nLogs say:\n\n```text\n")
			for _, s := range signatures {
				out.WriteString(Escape(s.Examples[0]) + "\n")
			}
			out.WriteString("```\n")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// MessagesMarkdown writes an index from messages to causes: docs/from-error.md is this.
func MessagesMarkdown(w io.Writer, c *explain.Catalogue) error {
	var out strings.Builder
	out.WriteString("# From a message to its cause\n\nWritten by `make docs` from the signatures of `explain/`. `preflight explain LOG` looks all of them up at once\nand says which of several came first.\n")
	examples := map[string]string{}
	for _, family := range c.Families {
		for _, s := range family.Signatures {
			examples[s.ID] = s.Examples[0]
		}
	}
	for _, family := range c.Families {
		fmt.Fprintf(&out, "\n## %s\n\n| message | what it means |\n| --- | --- |\n", strings.ReplaceAll(family.Name, "_", " "))
		for _, s := range family.Signatures {
			if s.Kind != explain.Context && s.Kind != explain.Success {
				fmt.Fprintf(&out, "| %s | %s |\n", cell(s.Examples[0]), meaning(s, examples))
			}
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// meaning is what a message says, and what else beside others, of which one is shown.
func meaning(s *explain.Signature, examples map[string]string) string {
	var text string
	switch {
	case s.Cause != "":
		text = link(s.Cause)
	case s.Kind == explain.Noise:
		text = "harmless: " + plainSummary(s)
	default:
		text = plainSummary(s)
	}
	var others []string
	for _, beside := range s.Beside {
		words := "harmless"
		if beside.Cause != "" {
			words = link(beside.Cause)
		}
		others = append(others, fmt.Sprintf("; beside %s %s", cell(examples[beside.Any[0]]), words))
	}
	return strings.ReplaceAll(text, "|", `\|`) + strings.Join(others, "")
}

func plainSummary(s *explain.Signature) string { return explain.Plain([]string{s.Summary})[0] }

func link(cause string) string { return fmt.Sprintf("[%s](causes.md#%s)", cause, cause) }

// signaturesOf are the messages of a cause, and those that mean it beside others.
func signaturesOf(c *explain.Catalogue, cause string) []*explain.Signature {
	var all []*explain.Signature
	for _, family := range c.Families {
		for _, s := range family.Signatures {
			if s.Cause == cause || slices.ContainsFunc(s.Beside, func(b explain.Beside) bool { return b.Cause == cause }) {
				all = append(all, s)
			}
		}
	}
	return all
}

// widestCell is how much of a message the index shows.
const widestCell = 160

// cell is a message as code in a table.
func cell(message string) string {
	message = Escape(strings.Join(strings.Fields(message), " "))
	if len(message) > widestCell {
		message = strings.ToValidUTF8(message[:widestCell], "") + " …"
	}
	return "`" + strings.NewReplacer("|", `\|`, "`", "'").Replace(message) + "`"
}

func links(checks []string) string {
	var all []string
	for _, id := range checks {
		all = append(all, fmt.Sprintf("[%s](checks.md#%s)", id, id))
	}
	return strings.Join(all, ", ")
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// statedAs is what a policy may state of a fact.
func statedAs(d facts.Description) string {
	switch {
	case d.Kind == facts.List:
		return `a list: "absent" alone`
	case d.Kind == facts.Text:
		return "text or version"
	case d.Kind == facts.Truth:
		return "true or false"
	case d.Unit == "bytes":
		return "size: 16GiB"
	case d.Unit == "bit/s":
		return "rate: 100Gbit/s"
	case d.Unit != "":
		return "number, in " + d.Unit
	}
	return "number"
}

// FactNames lists the facts that a policy can state, with what it can state of each.
func FactNames(w io.Writer, all []facts.Description, style Style) error {
	p := &page{style: style}
	rows := [][]string{{"fact", "value"}}
	for _, d := range all {
		rows = append(rows, []string{d.Path, statedAs(d)})
	}
	p.entries(rows)
	return p.writeTo(w)
}

// FactNamesMarkdown writes the same as a page, a table for each section.
func FactNamesMarkdown(w io.Writer, all []facts.Description) error {
	var out strings.Builder
	out.WriteString("# Facts\n\nWhat [preflight.yaml](policy.md) can state of nodes, `preflight diff` compares and the check `drift` holds against a baseline;\n" +
		"written by `preflight facts --format markdown`. `*` stands for the name of an entry: an interface, a package, a GPU's\n" +
		"index. Written in a policy it means each of them.\n")
	section := ""
	for _, d := range all {
		if own, _, _ := strings.Cut(d.Path, "."); own != section {
			section = own
			fmt.Fprintf(&out, "\n## %s\n\n| fact | value |\n| --- | --- |\n", section)
		}
		fmt.Fprintf(&out, "| `%s` | %s |\n", d.Path, statedAs(d))
	}
	_, err := io.WriteString(w, out.String())
	return err
}
