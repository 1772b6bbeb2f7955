// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"preflight/internal/text"
)

func to(nodes ...string) Audience {
	return Audience{Nodes: nodes, Hostfile: "hostfile", IsRoot: func(string) bool { return false }}
}

func TestAddressed(t *testing.T) {
	one, two := to("w1"), to("user@w1", "user@w3")
	port := Audience{Nodes: []string{"w1", "w2"}, Port: 2222, Hostfile: "my hosts", IsRoot: func(node string) bool { return node != "" }}
	for _, c := range []struct {
		command Command
		to      Audience
		want    string
	}{
		{On("date"), one, "ssh -n w1 date"},
		{On("date"), two, "pdsh -R ssh -w 'user@w[1,3]' date"},
		{On("date"), port, "PDSH_SSH_ARGS_APPEND='-p 2222' pdsh -R ssh -w 'w[1-2]' date"},
		{On("date").At("w7"), port, "ssh -n -p 2222 w7 date"},
		{On("date").At(), one, "ssh -n w1 date"},
		{On("ulimit -n"), Audience{Nodes: []string{"w1"}, Srun: []string{}, IsRoot: one.IsRoot}, "srun --input=none --overlap --nodes=1 --ntasks=1 --nodelist=w1 sh -c 'ulimit -n'"},
		{On("df -h | tail -n 1"), Audience{Nodes: []string{"w1", "w3"}, Port: 2222, Srun: []string{}, IsRoot: one.IsRoot}, "srun --input=none --overlap --nodes=2 --ntasks=2 --nodelist='w[1,3]' sh -c 'df -h | tail -n 1'"},
		{On("ulimit -n"), Audience{Nodes: []string{"w1"}, Srun: []string{"--jobid=118", "--container-image=a b"}, IsRoot: one.IsRoot}, "srun --input=none --overlap --jobid=118 '--container-image=a b' --nodes=1 --ntasks=1 --nodelist=w1 sh -c 'ulimit -n'"},
		{Here("squeue -j {slurm_job}"), Audience{Nodes: []string{"w1"}, Srun: []string{"--jobid=118"}, IsRoot: one.IsRoot}, "squeue -j 118"},
		{Here("squeue -j {slurm_job}"), Audience{Nodes: []string{"w1"}, Srun: []string{}, IsRoot: one.IsRoot}, "squeue -j $SLURM_JOB_ID"},
		{On("ulimit -n"), Audience{Nodes: []string{"w1"}, Pods: []string{"--namespace=ml", "--context=a b"}, IsRoot: one.IsRoot}, "kubectl exec w1 --namespace=ml '--context=a b' -- sh -c 'ulimit -n'"},
		{Here("kubectl get pod {host}{pods}   # kubectl get nodes{cluster}"), Audience{Nodes: []string{"w1"}, Pods: []string{"--context=a b", "--namespace=ml", "--container=train"}, IsRoot: one.IsRoot}, "kubectl get pod w1 '--context=a b' --namespace=ml   # kubectl get nodes '--context=a b'"},
		{Console("sudo true"), Audience{Nodes: []string{"w1"}, Pods: []string{}, IsRoot: func(string) bool { return true }}, "sudo true"},
		{On("df -h | tail -n 1"), Audience{Nodes: []string{"w1", "w3"}, Pods: []string{}, IsRoot: one.IsRoot}, "for pod in w1 w3; do kubectl exec $pod -- sh -c 'df -h | tail -n 1'; done"},
		{On("date").Locally(), to(), "date"},
		{On("ls %s", Path("/a b")), one, `ssh -n w1 "ls '/a b'"`},
		{On("ls %s", Path("/a$b")), one, `ssh -n w1 'ls '\''/a$b'\'''`},
		{On("ls %s | wc", Path("/a")), one, "ssh -n w1 'ls /a | wc'"},
		{On(`printf 'a\nb' | tee x`), one, `ssh -n w1 "printf 'a\nb' | tee x"`},
		{On("grep -n '^%s=' %s", Variable("A"), Path("/a")), one, `ssh -n w1 "grep -n '^A=' /a"`},
		{On("ls %s", Name("a b")), one, "ssh w1   # and look there by hand: a value in it is no text to paste into a shell"},
		{On("grep '%s' x", Path("a b")), one, "ssh w1   # and look there by hand: a value in it is no text to paste into a shell"},
		{Here("ls %s", Path("-rf")), one, "# by hand: a value in it is no text to paste into a shell"},
		{Here("ls %s %s %[1]s", Path("a"), Number(7)), one, "ls a 7 a"},
		{Here("date +%%s +%H"), one, "date +%s +%H"},
		{Here("ping {host} {node} {nodes} {hosts} -- {hostfile}"), two, "ping w1 user@w1 'user@w[1,3]' w1 w3 -- hostfile"},
		{Here("cat {hostfile} {none}"), port, "cat 'my hosts' {none}"},
		{Here("ssh {ssh_port}{node}"), port, "ssh -p 2222 w1"},
		{Here("ssh {ssh_port}{node}"), one, "ssh w1"},
		{EachHost("scp %s $host:", Path("$host")), two, "for host in w1 w3; do scp '$host' $host:; done"},
		{EachHost("scp %s $host:", Path("$host")), one, "scp '$host' w1:"},
		{CopyTo("/a b/"), port, "for host in w1 w2; do rsync -as -e 'ssh -p 2222' '/a b/' $host:'/a b/'; done"},
		{CopyFrom("w9", "/a"), one, "ssh -n w9 rsync -a /a w1:/a"},
		{Note("take {nodes} out of {hostfile}, %s", Text("as said")), two, "# take 'user@w[1,3]' out of hostfile, as said"},
		{Note("see %s", Text("$(x)")), one, "# see '$(x)'"},
		{Note("see %s", Text("a\nb")), one, "# see …"},
		{Here("a   # b %s", Text("c")).Remark("d").Remark(", e"), one, "a   # b c; d, e"},
		{On("sudo a; xsudo b; sudoedit c"), one, "ssh -t w1 'sudo a; xsudo b; sudoedit c'"},
		{On("sudo a; xsudo b && sudoedit c   # sudo d"), port, "PDSH_SSH_ARGS_APPEND='-p 2222' pdsh -R ssh -w 'w[1-2]' 'a; xsudo b && vi c'   # sudo d"},
		{Console("sudo a   # on {node}'s console"), port, "a   # on w1's console"},
		{Here("sudo a"), port, "sudo a"},
		{On("sudo a").At("w1"), port, "ssh -n -p 2222 w1 a"},
		{On(`sed "s/ %s / /"`, Pattern("w1.a")), one, `ssh -n w1 'sed "s/ w1\.a / /"'`},
		{On(`sed "s/ %s / /"`, Pattern("w1/e")), one, "ssh w1   # and look there by hand: a value in it is no text to paste into a shell"},
		{Here("a {gpus}").Bind(map[string]Arg{"gpus": Name("0,1")}), one, "a 0,1"},
		{Here("%sa%s", Code("sudo "), Code(" -s %s", Name("x"))), one, "sudo a -s x"},
		{Here("sed -i '%s' {hostfile}", Join(";", Code("%sd", Number(1)), Code("%sd", Number(2)))), one, "sed -i '1d;2d' hostfile"},
		{Here("pip install %s", List[Package](" ", []string{"a<2", "b"})), one, "pip install 'a<2' b"},
		{Here("pip install %s", List[Package](" ", nil)), one, "# by hand: a value in it is no text to paste into a shell"},
		{Here("export %s", Setting{"A", "b c"}), one, "export 'A=b c'"},
		{Stated("{ssh} 'date +%s; ls {hostfile} {node}'"), one, "ssh w1 'date +%s; ls hostfile w1'"},
		{Stated("{ssh} 'sudo cat {hostfile}'"), port, "PDSH_SSH_ARGS_APPEND='-p 2222' pdsh -R ssh -w 'w[1-2]'   # and look there by hand: a value in it is no text to paste into a shell"},
		{On("a"), to("w1", "-oProxyCommand=x"), "# by hand: what these machines are called is no text to paste into a shell"},
		{Pip{Python: "/usr/bin/python3", Managed: true}.Run("install -U x   # here too"), one, "ssh -n w1 env PIP_BREAK_SYSTEM_PACKAGES=1 /usr/bin/python3 -m pip install -U x   # here too; better: use a venv for the launch"},
	} {
		if got := asPasted(c.command, c.to); got != c.want {
			t.Errorf("%q\n got %s\nwant %s", c.command, got, c.want)
		}
	}
}

// TestReadOnce checks that the local shell passes special characters on to the remote shell.
func TestReadOnce(t *testing.T) {
	for _, c := range []struct {
		command Command
		want    string
	}{
		{On("a $x"), "'a $x'"}, {On("a `x`"), "'a `x`'"}, {On("a *"), "'a *'"}, {On("a ?"), "'a ?'"}, {On("a [b]"), "'a [b]'"}, {On("a ~"), "'a ~'"},
		{On("a #b"), "'a #b'"}, {On("a {b,c}"), "'a {b,c}'"}, {On("a <b"), "'a <b'"}, {On("a >b"), "'a >b'"}, {On("(a)"), "'(a)'"}, {On(`a \b`), `'a \b'`},
		{On("a & b"), "'a & b'"}, {On("a; b"), "'a; b'"}, {On("a | b"), "'a | b'"}, {On("! a"), "'! a'"}, {On(`a "b"`), `'a "b"'`}, {On("a\nb"), "'a\nb'"},
		{On("a 'b'"), `"a 'b'"`}, {On(`a 'b\n'`), `"a 'b\n'"`}, {On(`a 'b\\'`), `'a '\''b\\'\'''`}, {On(`a 'b' "c"`), `'a '\''b'\'' "c"'`},
		{On("a 'b' $c"), `'a '\''b'\'' $c'`}, {On("a 'b' `c`"), `'a '\''b'\'' ` + "`c`'"}, {On("! a 'b'"), `'! a '\''b'\'''`},
	} {
		if got := asPasted(c.command, to("w1")); got != "ssh -n w1 "+c.want {
			t.Errorf("%s, not %s", got, c.want)
		}
	}
}

func TestLacks(t *testing.T) {
	command := Here("a {node} {port}   # {user}")
	for _, c := range []struct {
		bound map[string]Arg
		want  bool
	}{
		{nil, true},
		{map[string]Arg{"port": Number(1)}, true},
		{map[string]Arg{"port": Number(1), "user": Operand("u")}, false},
	} {
		if got := command.Bind(c.bound).Lacks(); got != c.want {
			t.Errorf("with %v lacks is %v", c.bound, got)
		}
	}
}

// TestLiteralsHaveTheirArguments compares the number of arguments with the number of verbs, as vet
// does for fmt.
func TestLiteralsHaveTheirArguments(t *testing.T) {
	verb := regexp.MustCompile(`%%|%(?:\[(\d)\])?s`)
	takes := map[string]bool{"On": true, "Here": true, "EachHost": true, "Console": true, "Note": true, "Code": true, "Remark": true, "Run": true}
	seen := 0
	for _, pattern := range []string{"*.go", "../*.go", "../*/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, isCall := n.(*ast.CallExpr)
				if !isCall || len(call.Args) == 0 || call.Ellipsis.IsValid() || !takes[called(call.Fun)] {
					return true
				}
				code, isText := constant(call.Args[0])
				if !isText {
					return true
				}
				seen++
				most, next := 0, 0
				for _, v := range verb.FindAllStringSubmatch(code, -1) {
					if v[0] == "%%" {
						continue
					}
					if v[1] != "" {
						next, _ = strconv.Atoi(v[1])
						next--
					}
					next++
					most = max(most, next)
				}
				if given := len(call.Args) - 1; given != most {
					t.Errorf("%s: %q takes %d arguments and is given %d", files.Position(call.Pos()), code, most, given)
				}
				return true
			})
		}
	}
	if seen < 300 {
		t.Errorf("only %d literals were looked at", seen)
	}
}

func called(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.SelectorExpr:
		return fun.Sel.Name
	case *ast.Ident:
		return fun.Name
	}
	return ""
}

// constant returns the text of a literal or of a concatenation of literals. It does not resolve
// names.
func constant(e ast.Expr) (text string, is bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		left, isLeft := constant(e.X)
		right, isRight := constant(e.Y)
		return left + right, isLeft && isRight
	}
	return "", false
}
func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"w3": "w3", "user@w3.a": "user@w3.a", "": "''", "w[1,3]": "'w[1,3]'", "a b": "'a b'", "it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'",
	} {
		if got := text.Quote(word); got != want {
			t.Errorf("Quote(%q) = %s, want %s", word, got, want)
		}
	}
}

// TestUnmarshalYAML reads rows in the form that tables use. A percent sign in a row is not a verb.
func TestUnmarshalYAML(t *testing.T) {
	var all []Command
	if err := yaml.Unmarshal([]byte("- here: date +%s {nodes}\n- inside: 'sudo df   # of {nodes}'\n- note: do it"), &all); err != nil {
		t.Fatal(err)
	}
	for i, want := range []Command{Here("date +%%s {nodes}"), On("sudo df   # of {nodes}").Inside(), Note("do it")} {
		if !all[i].Is(want) || all[i].side != want.side {
			t.Errorf("got %+v, want %+v", all[i], want)
		}
	}
	for _, row := range []string{"{here: a, note: b}", "{}", "{head: a}", "{here: [a]}", "a"} {
		if err := yaml.Unmarshal([]byte(row), new(Command)); err == nil {
			t.Errorf("%s was read as a command", row)
		}
	}
}
