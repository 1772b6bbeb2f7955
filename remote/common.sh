# SPDX-License-Identifier: Apache-2.0
# What our two commands share that look for our binary. Runs after say.sh.

# mine: a directory, no symbolic link, and ours. Builtins only, because many are
# asked for at every start.
mine() {
	[ -L "$1" ] && return 1;
	[ -d "$1" ] && [ -O "$1" ];
};

# XDG base directory specification: a relative path in these is invalid. Who has no home has no
# cache in it either: without one .cache would be a directory at the root.
c=${XDG_CACHE_HOME:-};
case $c in /*) ;; *) c=${HOME:+$HOME/.cache} ;; esac;
r=${XDG_RUNTIME_DIR:-};
case $r in /*) r=$r/$p ;; *) r= ;; esac;

# each: runs $1 on every directory our binary may lie in, home first.
u=;
each() {
	u=${u:-$(id -u)};
	for d in "${c:+$c/$p}" "$r" "/var/tmp/$p-$u" "/tmp/$p-$u" "/dev/shm/$p-$u"; do
		[ -z "$d" ] || "$1" "$d";
	done;
};
