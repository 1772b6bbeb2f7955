# SPDX-License-Identifier: Apache-2.0
# Finds the agent on the node and becomes it, or asks for it. Runs after common.sh.
# deliver.go describes the dialogue.

set -f;

# With it the loader would resolve symbols of missing drivers, and the agent would not start.
unset LD_BIND_NOW;

# A terminal would echo, truncate and alter the dialogue.
[ -t 0 ] && { say terminal; exit 1; };

# tag makes file names unique among nodes that share a home; offers are the available
# binaries, one per machine, as x86_64:SHA256:BYTES.
read -r tag offers || exit 1;
say heard;
case $offers in any:*) m=any ;; *) m=$(uname -m) ;; esac;

# h is the SHA-256 of the binary for this machine, or - if none is offered; z is its size.
h=-; z=;
for o in $offers; do case $o in "$m:"*) z=${o##*:}; h=${o#*:}; h=${h%:*} ;; esac; done;

# image is the file that descriptor 9 has open, even if its name has been replaced. So the
# file that was checked is the one that runs: no name is used twice.
image=/proc/self/fd/9;

# become starts the agent. Go runs on one thread, because the agent mostly waits, and more
# threads keep waking each other. The agent ends before it needs a garbage collection. Its
# file, $1, only shows in process lists.
become() {
	[ -e "${t:-}" ] && rm -f "$t";
	GOMAXPROCS=1; GOGC=off; GOMEMLIMIT=256MiB;
	export GOMAXPROCS GOGC GOMEMLIMIT;
	case $tag in call) set -- "$1" call ;; esac;
	exec $image agent "$@";
};

# faults sets e to what is wrong with the image in directory $1. e is empty if the image has
# the size of the binary of hash h and no other user can change it; a second hard link could
# be in any directory. The content was verified when it was installed. This costs every start
# one process.
faults() {
	[ -f $image ] && [ -O $image ] || { e="not our own file"; return; };
	e=$(cd "$1" && unset TIME_STYLE LD_PRELOAD && LC_ALL=C && export LC_ALL && exec ls -ldnL . /proc/self/fd/0 <$image 2>&1);
	set -- $e; e="$*";
	case $e in
		"drwx------ "*|"drwx------. "*) ;;
		*) e="in a directory that is not private: $1"; return ;;
	esac;
	set -- ${e#*" . "};
	case "$1 $2" in
		"-rwx------ 1"|"-rwx------. 1") ;;
		*) e="not a private file: $1, $2 names"; return ;;
	esac;
	e=; [ "$5" = "$z" ] || e="altered: it has $5 bytes, not $z";
};

# look becomes the binary in directory $1 if it is the right one, and otherwise reports what
# is wrong with it. Then it is delivered again, as on a mount that allows no programs.
look() {
	f=$1/$p-$h;
	mine "$1" && [ -f "$f" ] || return;
	e="cannot be opened";
	if [ -L "$f" ]; then e="a symbolic link"; else
		{ faults "$1"; [ -n "$e" ] || { [ -x $image ] || return; become "$f"; }; } 9<"$f";
	fi;
	[ -e "$f" ] || [ -L "$f" ] || return;
	say distrusted "$f:" $e;
};
look "${c:+$c/$p}";
each look;

# With this tag one program starts many agents that call back. A node without the agent ends
# here and gets it separately.
[ "$tag" = call ] && { say lacks; exit 0; };

if command -v gzip >/dev/null; then how=gzip; unpacker="gzip -dc"; else how=cat; unpacker=cat; fi;
command -v head >/dev/null || how=none;

# claim creates directory $1 if needed, and tests whether it is private, writable and allows
# programs to run. It never creates a missing home, removes a directory that fails the test,
# and avoids parent directories in which other users could move it away.
claim() {
	LC_ALL=C; export LC_ALL; umask 077;
	case $1 in "${c:-.}/"*) [ -d "$c" ] || mkdir "$c" || [ -d "$c" ] || return 1 ;; esac;
	case $(ls -ldnL "${1%/*}") in d????????[tT]*) ;; d???????w*) echo "(others may write to its parent)"; return 1 ;; esac;
	[ -e "$1" ] || [ -L "$1" ] || mkdir "$1" || [ -d "$1" ] || return 1;
	mine "$1" || { set -- $(ls -ld "$1"); echo "(taken: $1 of $3)"; return 1; };
	case $(ls -ldn "$1") in "drwx------ "*|"drwx------. "*) ;; *) echo "(mode is not 0700)"; return 1 ;; esac;
	t=$1/$p-try.$tag;
	echo : | cat >"$t" && chmod 700 "$t" && { "$t" || { echo "(noexec)"; false; }; };
	s=$?; rm -f "$t"; [ $s = 0 ] || rmdir "$1" 2>/dev/null; return $s;
};

# unpack reads portions of l bytes, and requests the next one on descriptor 3. The last cat
# drains what a failed unpacker leaves, so that the next line read is the next line sent.
unpack() {
	LC_ALL=C; export LC_ALL; umask 077;
	{
		while [ "$n" -gt "$l" ]; do head -c "$l"; say more >&3; n=$((n-l)); done;
		head -c "$n";
	} | { $unpacker >"$t" && chmod 700 "$t"; s=$?; cat >/dev/null; exit $s; };
};

# overdue ends a delivery that has stopped, because a launching machine that is cut off sends
# no end: the file neither grows nor becomes executable. It signals the process group only if
# that is ours: some servers (dropbear) start us in theirs.
overdue() {
	exec >/dev/null 2>&1 </dev/null;
	n=0; was=;
	while [ $n -lt 6 ]; do
		sleep 2 || exit;
		[ -e "$t" ] || exit;
		[ -x "$t" ] && exit;
		e=$(ls -ln "$t");
		case $e in "$was") n=$((n+1)) ;; *) n=0; was=$e ;; esac;
	done;
	rm -f "$t";
	kill -USR1 -$$ || kill -KILL $$;
};
stalled() { say stalled; exit 1; };
trap stalled USR1;

# On SIGTERM the script ends where it reads nothing more, which removes its file.
trap : TERM;

# beside sets b to the tags of other deliveries to directory $1, after a -. The first few are
# enough: see homes in share.go.
beside() {
	b=-;
	set +f; set -- "$1/$p-$h."*; set -f;
	for f in "$@"; do
		[ "$f" = "$t" ] || b=$b,${f##*.};
		[ ${#b} -lt 1000 ] || break;
	done;
};

# again looks into directory $1 once more. Creating a file there makes an NFS client see what
# other nodes have created in the meantime.
again() {
	(umask 077; : >"$t"0) 2>/dev/null; rm -f "$t"0;
	look "$1";
};

# ask requests the binary. h is the hash that will be sent, n its size, l the portion.
ask() {
	say need "$(uname -s)" "$(uname -m)" $how $h "$b" "$1";
	read -r h n l || { rm -f "$t"; exit 1; };
};

# arrive fills file t with the sent bytes, or with the file that the carrier has put next to it.
arrive() {
	[ "$n" = brought ] || { unpack; return; };
	umask 077;
	$unpacker <"$1/$p-$h.0" >"$t" && chmod 700 "$t" && rm -f "$1/$p-$h.0";
};

# deliver gets the binary into directory $1. Another delivery may have finished between the
# first look and the creation of our own file, so it looks once more after that.
deliver() {
	e=$(claim "$1" 2>&1) || { say tried "$1:" $e; return; };
	t=$1/$p-$h.$tag;
	(umask 077; : >"$t") 2>/dev/null;
	overdue &
	beside "$1";
	[ -f "$1/$p-$h" ] && look "$1";
	ask "$1";
	[ "$n" = shared ] && { again "$1"; ask "$1"; };
	{ e=$(arrive "$1" 2>&1); } 3>&1 || { rm -f "$t"; rmdir "$1" 2>/dev/null; say tried "$1:" $e; return; };
	s=gone; { s=1; $image agent install "$1" "$h" </dev/null && become "$1/$p-$h"; s=$?; } 9<"$t";
	[ $s = gone ] && { say tried "$1:" "removed while it was delivered"; return; };
	rm -f "$t"; say failed $s; exit $s;
};
each deliver;
say none;
exit 1;
