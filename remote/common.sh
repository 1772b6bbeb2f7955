# SPDX-License-Identifier: Apache-2.0
# What the two scripts share that look for the cached agent. Runs after say.sh.

# mine reports whether $1 is a directory, not a symbolic link, and ours. It uses only
# builtins, because every start calls it many times.
mine() {
	[ -L "$1" ] && return 1;
	[ -d "$1" ] && [ -O "$1" ];
};

# XDG base directory specification: relative paths in these variables are invalid. An account
# without a home gets no cache there: .cache would be a directory at the root.
c=${XDG_CACHE_HOME:-};
case $c in /*) ;; *) c=${HOME:+$HOME/.cache} ;; esac;
r=${XDG_RUNTIME_DIR:-};
case $r in /*) r=$r/$p ;; *) r= ;; esac;

# each runs $1 on every directory that may have the agent, the home first.
u=;
each() {
	u=${u:-$(id -u)};
	for d in "${c:+$c/$p}" "$r" "/var/tmp/$p-$u" "/tmp/$p-$u" "/dev/shm/$p-$u"; do
		[ -z "$d" ] || "$1" "$d";
	done;
};
