package checks

import "preflight/checks/fix"

// raiseLimit sets a limit of ssh sessions: by PAM, and where sshd does without
// it by the unit that starts sshd. "*" is nobody's limit but ordinary users'.
func raiseLimit(item, value, property string) []fix.Command {
	return []fix.Command{
		fix.On(`printf "* - %s %s\nroot - %[1]s %[2]s\n" | sudo tee /etc/security/limits.d/90-%[1]s.conf   # read where sshd has UsePAM yes`, fix.Name(item), fix.Name(value)),
		fix.On(`unit=/etc/systemd/system/ssh.service.d && sudo mkdir -p $unit && printf "[Service]\n%s\n" | sudo tee $unit/90-%s.conf && sudo systemctl daemon-reload && sudo systemctl restart ssh   # where it has not; on Red Hat the unit is sshd`, fix.Name(property), fix.Name(item)),
	}
}
