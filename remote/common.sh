# What our two commands on a node share. Full-line comments, indentation and
# newlines are removed before the text is sent (see command in script.go): the
# login shell that has to pass it on may be tcsh or fish, so what remains has no
# single quote, backslash, exclamation mark or newline in it, and lines end in a
# semicolon wherever the shell needs one.

p=preflight;

# The marker is put together here so that a bastion which prints the command it
# refused does not print a line that looks like one of ours.
say() { echo "@@$p $*"; };
say shell;

# mine: a directory, no symbolic link, and ours. Builtins only, because many are
# asked for at every start.
mine() {
	[ -L "$1" ] && return 1;
	[ -d "$1" ] && [ -O "$1" ];
};

# XDG base directory specification: a relative path in these is invalid.
c=${XDG_CACHE_HOME:-};
case $c in /*) ;; *) c=${HOME:-}/.cache ;; esac;
r=${XDG_RUNTIME_DIR:-};
case $r in /*) r=$r/$p ;; *) r= ;; esac;

# each: runs $1 on every directory our binary may lie in, home first.
each() {
	u=$(id -u);
	for d in "$c/$p" "$r" "/var/tmp/$p-$u" "/tmp/$p-$u" "/dev/shm/$p-$u"; do
		[ -z "$d" ] || "$1" "$d";
	done;
};
