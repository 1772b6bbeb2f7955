package testhosts

// The faults of this file are about the machine behind the login. They bend
// PATH, so they hold for commands called by their bare name.

// WrongArch says uname -m is this.
func WrongArch(machine string) Fault {
	return shim("uname", "#!/bin/sh\n/bin/uname \"$@\" | sed \"s/$(/bin/uname -m)/"+machine+"/g\"\n")
}

// WrongOS says uname -s is this.
func WrongOS(system string) Fault {
	return shim("uname", "#!/bin/sh\n/bin/uname \"$@\" | sed \"s/Linux/"+system+"/g\"\n")
}

// NoExec lets no file become executable: running one fails with EACCES, as on
// a file system mounted noexec.
func NoExec(h *host) {
	shim("chmod", "#!/bin/sh\n/bin/chmod \"$@\" && shift && exec /bin/chmod a-x \"$@\"\n")(h)
}

// DiskFull fails like a full disk wherever the usual commands would write one:
// cat, gzip, dd, head and mktemp.
func DiskFull(h *host) {
	for _, name := range []string{"cat", "gzip", "gunzip", "dd", "head", "mktemp"} {
		shim(name, "#!/bin/sh\necho '"+name+": write error: No space left on device' >&2\nexit 1\n")(h)
	}
}

// Lacks does not have these commands installed.
func Lacks(commands ...string) Fault {
	return func(h *host) { h.lacks = commands }
}

// Homeless has a home directory that is not there and cannot be made, for root
// neither.
func Homeless(h *host) { h.Home = "/proc/homeless" }

func shim(name, script string) Fault {
	return func(h *host) {
		if h.shims == nil {
			h.shims = map[string]string{}
		}
		h.shims[name] = script
	}
}
