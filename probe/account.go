package probe

import (
	"cmp"
	"os"
	"strconv"
	"strings"
)

// account is what a line of /etc/passwd says of a user.
type account struct {
	name, home, shell string
}

// session is who we are. An account that a directory service knows and
// /etc/passwd does not is told by sshd, which asked the service and sets these
// variables by its answer (OpenSSH, session.c, do_setup_env).
func session(o options) account {
	who, _ := passwdEntry(o, os.Getuid())
	return account{
		name:  cmp.Or(who.name, os.Getenv("USER"), os.Getenv("LOGNAME"), strconv.Itoa(os.Getuid())),
		home:  cmp.Or(who.home, os.Getenv("HOME")),
		shell: cmp.Or(who.shell, os.Getenv("SHELL")),
	}
}

// owner is the name of a user, or the number when /etc/passwd does not know it.
func owner(o options, uid int) string {
	who, _ := passwdEntry(o, uid)
	return cmp.Or(who.name, strconv.Itoa(uid))
}

func passwdEntry(o options, uid int) (account, bool) {
	text, err := os.ReadFile(o.at("/etc/passwd"))
	if err != nil {
		return account{}, false
	}
	return parsePasswd(string(text), uid)
}

// parsePasswd finds the first account with the user id, as getpwuid does. No
// shell means /bin/sh (passwd(5)).
func parsePasswd(text string, uid int) (account, bool) {
	for row := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(row), ":")
		if len(fields) == 7 && fields[2] == strconv.Itoa(uid) {
			return account{name: fields[0], home: fields[5], shell: cmp.Or(fields[6], "/bin/sh")}, true
		}
	}
	return account{}, false
}
