// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// warned is a fleet with one warning and no failure.
var warned = fleet{nodes: "w1,w4", only: "ssh-*"}

// TestPlugin checks the plugin's status line and exit code. The codes are those of the Monitoring
// Plugins' guidelines, which differ from preflight's.
func TestPlugin(t *testing.T) {
	for name, c := range map[string]struct {
		fleet fleet
		code  int
		said  string
	}{
		"OK":       {healthy, 0, "PREFLIGHT OK - "},
		"WARNING":  {warned, 1, "PREFLIGHT WARNING - "},
		"CRITICAL": {faulty, 2, "PREFLIGHT CRITICAL - "},
		"UNKNOWN":  {dark, 3, "PREFLIGHT UNKNOWN - "},
	} {
		d := newDesk(t, c.fleet, "hosts")
		out, code := d.run(t, absolute(t, "nagios/check_preflight"), "-H", "hosts")
		if code != c.code || !strings.HasPrefix(out, c.said) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit code %d, want %d:\n%s", name, code, c.code, out)
		}
	}
	for name, c := range map[string]struct {
		flags []string
		said  string
	}{
		"a flag that is not there":              {[]string{"--hostfiel", "hosts"}, "PREFLIGHT UNKNOWN - exit code 70: preflight: unknown flag: --hostfiel: did you mean \"--hostfile\"? "},
		"all is well, and the report is lost":   {[]string{"-o", "json=/dev/full"}, "PREFLIGHT UNKNOWN - exit code 2: preflight: -o json=/dev/full cannot be written"},
		"the report is lost, the line is there": {[]string{"-o", "-", "-o", "json=/dev/full"}, "PREFLIGHT UNKNOWN - exit code 2: preflight: -o json=/dev/full cannot be written"},
	} {
		d := newDesk(t, healthy, "hosts")
		if out, code := d.run(t, append([]string{absolute(t, "nagios/check_preflight"), "-H", "hosts"}, c.flags...)...); code != 3 || !strings.HasPrefix(out, c.said) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit code %d\n%s", name, code, out)
		}
	}
}

// TestPluginLine runs the plugin with programs that replace preflight. The status line must come
// first in the output, and it must count only if the exit code agrees with it.
func TestPluginLine(t *testing.T) {
	for name, c := range map[string]struct {
		says  string
		exits int
		code  int
		out   string
	}{
		"a word before the line": {"echo careful >&2; echo 'PREFLIGHT OK - all | n=1'", 0, 0, "PREFLIGHT OK - all | n=1\ncareful\n"},
		"killed behind it":       {"echo 'PREFLIGHT OK - all | n=1'", 137, 3, "PREFLIGHT UNKNOWN - exit code 137: \n"},
		"nothing said":           {":", 0, 3, "PREFLIGHT UNKNOWN - exit code 0: \n"},
	} {
		d, bin := newDesk(t, healthy), t.TempDir()
		script := "#!/bin/sh\n" + c.says + "\nexit " + strconv.Itoa(c.exits) + "\n"
		if err := os.WriteFile(filepath.Join(bin, "preflight"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		d.env["PATH"] = bin + ":" + d.env["PATH"]
		if out, code := d.run(t, absolute(t, "nagios/check_preflight")); code != c.code || out != c.out {
			t.Errorf("%s: exit code %d, want %d; it printed %q, want %q", name, code, c.code, out, c.out)
		}
	}
}

// directives maps the kinds of objects in the example to their directives. Nagios Core 4 accepts
// all of these directives, and they include the required ones (Nagios manual, "Object
// Definitions").
var directives = map[string][]string{
	"command": {"command_name", "command_line"},
	"service": {"use", "host_name", "service_description", "check_command", "check_interval", "retry_interval", "max_check_attempts"},
}

var (
	definition = regexp.MustCompile(`(?m)^define (\w+) \{\n((?:    \w+ +\S.*\n)+)\}$`)
	comment    = regexp.MustCompile(`(?m)^(?:#|//).*\n`)
)

// TestNagios runs the command line that Nagios would build for the service.
func TestNagios(t *testing.T) {
	text, err := os.ReadFile("nagios/preflight.cfg")
	if err != nil {
		t.Fatal(err)
	}
	rest := comment.ReplaceAllString(string(text), "")
	objects := map[string]map[string]string{}
	for _, found := range definition.FindAllStringSubmatch(rest, -1) {
		said := map[string]string{}
		var names []string
		for line := range strings.Lines(found[2]) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			said[name] = strings.TrimSpace(value)
			names = append(names, name)
		}
		if diff := cmp.Diff(directives[found[1]], names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", found[1], diff)
		}
		objects[found[1]] = said
	}
	if left := strings.TrimSpace(definition.ReplaceAllString(rest, "")); left != "" || len(objects) != 2 {
		t.Fatalf("Nagios would not read %q", left)
	}
	call := strings.Split(objects["service"]["check_command"], "!")
	if call[0] != objects["command"]["command_name"] {
		t.Errorf("the service calls %s", call[0])
	}
	plugins := filepath.Dir(absolute(t, "nagios/check_preflight"))
	line := strings.NewReplacer("$USER1$", plugins, "$ARG1$", call[1]).Replace(objects["command"]["command_line"])
	d := newDesk(t, warned, "etc/preflight/hostfile")
	if out, code := d.run(t, "sh", "-c", line); code != 1 || !strings.HasPrefix(out, "PREFLIGHT WARNING") {
		t.Errorf("%s: exit code %d\n%s", line, code, out)
	}
}

// TestIcinga runs the command with the arguments that Icinga would pass.
func TestIcinga(t *testing.T) {
	text, err := os.ReadFile("nagios/icinga2.conf")
	if err != nil {
		t.Fatal(err)
	}
	config := comment.ReplaceAllString(string(text), "")
	pair, left := regexp.MustCompile(`\{[^][{}]*\}|\[[^][{}]*\]`), config
	for pair.MatchString(left) {
		left = pair.ReplaceAllString(left, "")
	}
	if strings.ContainsAny(left, "{}[]") {
		t.Errorf("brackets are not in pairs: %s", left)
	}
	plugin := regexp.MustCompile(`command = \[ PluginDir \+ "/(\w+)" \]`).FindStringSubmatch(config)
	object := regexp.MustCompile(`object CheckCommand "(\w+)"`).FindStringSubmatch(config)
	used := regexp.MustCompile(`check_command = "(\w+)"`).FindStringSubmatch(config)
	if plugin == nil || object == nil || used == nil || object[1] != used[1] {
		t.Fatalf("the service uses another command: %q %q %q", plugin, object, used)
	}
	hosts := regexp.MustCompile(`vars\.preflight_hostfile = "(.+)"`).FindStringSubmatch(config)
	argv := []string{absolute(t, "nagios/"+plugin[1])}
	for _, argument := range regexp.MustCompile(`"(-[\w-]+)" = (?:\{\s+value = )?"([^"]+)"`).FindAllStringSubmatch(config, -1) {
		argv = append(argv, argument[1], strings.ReplaceAll(argument[2], "$preflight_hostfile$", hosts[1]))
	}
	if want := []string{"-H", "/etc/preflight/hostfile", "--timeout", "30s", "--skip", "gpu-idle"}; !slices.Equal(argv[1:], want) {
		t.Errorf("the arguments are %q, want %q", argv[1:], want)
	}
	d := newDesk(t, warned, "etc/preflight/hostfile")
	if out, code := d.run(t, argv...); code != 1 || !strings.HasPrefix(out, "PREFLIGHT WARNING") {
		t.Errorf("%q: exit code %d\n%s", argv, code, out)
	}
}

// TestIcingaItself lets Icinga 2 validate the file, together with a host for its service.
func TestIcingaItself(t *testing.T) {
	icinga, err := exec.LookPath("icinga2")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("NOT RUN: Icinga 2 over its example, because it is not installed (sh testhosts/apt.sh consumers) or this is not root, whom it takes to start")
	}
	config := filepath.Join(t.TempDir(), "icinga2.conf")
	text := `const PluginDir = "/usr/lib/nagios/plugins"
object CheckCommand "alive" { command = [ "/bin/true" ] }
object Host "login" { check_command = "alive" }
include "` + absolute(t, "nagios/icinga2.conf") + "\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(icinga, "daemon", "--validate", "--config", config)
	// Icinga's own user may not read the test's directory.
	cmd.Env = append(os.Environ(), "ICINGA2_USER=root", "ICINGA2_GROUP=root")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Instantiated 1 Service.") {
		t.Errorf("%v\n%s", err, out)
	}
}

// cronLine matches a line of /etc/cron.d (crontab(5)): five fields, a user, and a command. A % in
// the command would mean a line break.
var cronLine = regexp.MustCompile(`^(?:[\d*/,-]+ ){5}[a-z_][a-z0-9_-]* ([^%]+)$`)

// TestCron runs the line of the cron file and reads the file that the collector would read.
func TestCron(t *testing.T) {
	text, err := os.ReadFile("prometheus/preflight.cron")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(text), "\n") {
		t.Error("cron does not read a last line without its end")
	}
	commands := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") || regexp.MustCompile(`^[A-Z]+=\S+$`).MatchString(line) {
			continue
		}
		found := cronLine.FindStringSubmatch(line)
		if found == nil {
			t.Fatalf("cron would not read %q", line)
		}
		commands++
		for name, gate := range gates {
			d := newDesk(t, gate.fleet, "etc/preflight/hostfile")
			command := strings.NewReplacer("/run/lock", d.dir, "/var/lib/prometheus/node-exporter", d.dir).Replace(found[1])
			if out, code := d.run(t, "sh", "-c", command); code != gate.code || out != "" {
				t.Errorf("%s: exit code %d, want %d; cron would mail %q", name, code, gate.code, out)
			}
			if metrics := d.wrote(t, "preflight.prom"); !strings.HasPrefix(metrics, "# HELP preflight_verdict ") {
				t.Errorf("%s: no metrics: %q", name, metrics)
			}
		}
	}
	if commands != 1 {
		t.Errorf("%d commands, want 1", commands)
	}
}
