# SPDX-License-Identifier: Apache-2.0
# Finds our binary on the node and becomes it, or asks for it. Runs after
# common.sh. What is said and what is read is described in deliver.go.

set -f;

# It would resolve symbols of drivers that are not there, and nothing of ours
# would start.
unset LD_BIND_NOW;

# A terminal would repeat, cut and alter what is said through it.
[ -t 0 ] && { say terminal; exit 1; };

# tag makes names unique among nodes that share a home; offers are the binaries
# at hand, one per machine, as x86_64:SHA256:BYTES.
read -r tag offers || exit 1;
say heard;
case $offers in any:*) m=any ;; *) m=$(uname -m) ;; esac;

# h is the SHA-256 of the binary for this machine, or - if none is offered; z is its size.
h=-; z=;
for o in $offers; do case $o in "$m:"*) z=${o##*:}; h=${o#*:}; h=${h%:*} ;; esac; done;

# image is the file that descriptor 9 has open, whatever has become of its name. What
# was looked at is what runs: no name is asked for twice.
image=/proc/self/fd/9;

# become: two threads are plenty, and the agent ends before it needs a garbage
# collection. Its file, $1, is for whoever lists processes.
become() {
	[ -e "${t:-}" ] && rm -f "$t";
	GOMAXPROCS=2; GOGC=off; GOMEMLIMIT=256MiB;
	export GOMAXPROCS GOGC GOMEMLIMIT;
	case $tag in call) set -- "$1" call ;; esac;
	exec $image agent "$@";
};

# faults: makes e what is wrong with the image, in directory $1. Nothing, if it has the
# size of the binary of hash h and none but us has a hand in it: a second name may lie in
# anybody's directory. Its content was verified when it was installed. This costs every
# start one process.
faults() {
	[ -f $image ] && [ -O $image ] || { e="not a file of ours"; return; };
	e=$(cd "$1" && unset TIME_STYLE && LC_ALL=C && export LC_ALL && exec ls -ldnL . /proc/self/fd/0 <$image 2>&1);
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
	e=; [ "$5" = "$z" ] || e="altered: it has $5 bytes and not $z";
};

# look: becomes the binary in directory $1 if it is what it should be, and says otherwise
# what it is instead. Then it is delivered again, as where a mount lets no program run.
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

# An agent that is to call us is one of many that one program starts: to each that lacks it, it is sent apart.
[ "$tag" = call ] && { say lacks; exit 0; };

if command -v gzip >/dev/null; then how=gzip; unpacker="gzip -dc"; else how=cat; unpacker=cat; fi;
command -v head >/dev/null || how=none;

# claim: makes directory $1 unless it is there, and tries whether it is private,
# can be written to and lets programs run. Never makes a missing home, takes
# back a directory that will not do, and keeps out of where anybody may move it away.
claim() {
	LC_ALL=C; export LC_ALL; umask 077;
	case $1 in "${c:-.}/"*) [ -d "$c" ] || mkdir "$c" || [ -d "$c" ] || return 1 ;; esac;
	case $(ls -ldnL "${1%/*}") in d????????[tT]*) ;; d???????w*) echo "(anybody may write beside it)"; return 1 ;; esac;
	[ -e "$1" ] || [ -L "$1" ] || mkdir "$1" || [ -d "$1" ] || return 1;
	mine "$1" || { set -- $(ls -ld "$1"); echo "(taken: $1 of $3)"; return 1; };
	case $(ls -ldn "$1") in "drwx------ "*|"drwx------. "*) ;; *) echo "(mode is not 0700)"; return 1 ;; esac;
	t=$1/$p-try.$tag;
	echo : | cat >"$t" && chmod 700 "$t" && { "$t" || { echo "(noexec)"; false; }; };
	s=$?; rm -f "$t"; [ $s = 0 ] || rmdir "$1" 2>/dev/null; return $s;
};

# unpack: portions of l bytes, the next of which is asked for by descriptor 3. The last cat drains
# what a failed unpacker leaves, so that the next line read is the next line sent.
unpack() {
	LC_ALL=C; export LC_ALL; umask 077;
	{
		while [ "$n" -gt "$l" ]; do head -c "$l"; say more >&3; n=$((n-l)); done;
		head -c "$n";
	} | { $unpacker >"$t" && chmod 700 "$t"; s=$?; cat >/dev/null; exit $s; };
};

# overdue ends a delivery of which nothing more arrives, for a head that is cut off sends
# no end: the file neither grows nor may run yet. A group is ended only if it is ours:
# some servers (dropbear) start us in their own.
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

# Told to end, we end where nothing more is read, which removes our file.
trap : TERM;

# beside: b is the tags of the deliveries to directory $1 that others make, behind a -. The
# first few do: see homes in share.go.
beside() {
	b=-;
	set +f; set -- "$1/$p-$h."*; set -f;
	for f in "$@"; do
		[ "$f" = "$t" ] || b=$b,${f##*.};
		[ ${#b} -lt 1000 ] || break;
	done;
};

# again: looks into directory $1 once more. What makes a file there is told by an NFS server
# what others have made since.
again() {
	(umask 077; : >"$t"0) 2>/dev/null; rm -f "$t"0;
	look "$1";
};

# ask: h and n are what is sent, in portions of l.
ask() {
	say need "$(uname -s)" "$(uname -m)" $how $h "$b" "$1";
	read -r h n l || { rm -f "$t"; exit 1; };
};

# arrive: t is what was sent, or what our carrier has put beside it.
arrive() {
	[ "$n" = brought ] || { unpack; return; };
	umask 077;
	$unpacker <"$1/$p-$h.0" >"$t" && chmod 700 "$t" && rm -f "$1/$p-$h.0";
};

# deliver: between the first look and the file that shows us to others, one of these may
# have come and gone, so there is another look behind it.
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
