# Finds our binary on the node and becomes it, or asks for it. Runs after
# common.sh. What is said and what is read is described in deliver.go.

set -f;

# tag makes names unique among nodes that share a home; h is the SHA-256 of the
# binary; more are those for other machines, as x86_64=… aarch64=….
read -r tag h more || exit 1;
say heard;
case $more in
?*)
	m=$(uname -m);
	for b in $more; do
		case $b in "$m="*) h=${b#*=} ;; esac;
	done ;;
esac;

# become: two threads are plenty, and the agent ends before it needs a garbage
# collection. LD_BIND_NOW would resolve symbols of drivers that are not there.
become() {
	GOMAXPROCS=2; GOGC=off; GOMEMLIMIT=256MiB;
	export GOMAXPROCS GOGC GOMEMLIMIT;
	unset LD_BIND_NOW;
	exec "$1/$p-$h" agent;
};

look() {
	mine "$1" && [ -f "$1/$p-$h" ] && [ -O "$1/$p-$h" ] && [ -x "$1/$p-$h" ] && become "$1";
};
look "$c/$p";
each look;

if command -v gzip >/dev/null; then how=gzip; unpacker="gzip -dc"; else how=cat; unpacker=cat; fi;
command -v head >/dev/null || how=none;

# claim: makes directory $1 unless it is there, and tries whether it is private,
# can be written to and lets programs run. Never makes a missing home, and takes
# back a directory that will not do.
claim() {
	LC_ALL=C; export LC_ALL; umask 077;
	case $1 in "$c/"*) [ -d "$c" ] || mkdir "$c" || [ -d "$c" ] || return 1 ;; esac;
	[ -d "$1" ] || mkdir "$1" || [ -d "$1" ] || return 1;
	mine "$1" || { echo "(not a directory of ours)"; return 1; };
	case $(ls -ldn "$1") in "drwx------ "*|"drwx------. "*) ;; *) echo "(mode is not 0700)"; return 1 ;; esac;
	t=$1/$p-try.$tag;
	echo : | cat >"$t" && chmod 700 "$t" && { "$t" || { echo "(noexec)"; false; }; };
	s=$?; rm -f "$t"; [ $s = 0 ] || rmdir "$1" 2>/dev/null; return $s;
};

# unpack: the last cat drains what a failed unpacker leaves, so that the next
# line read is the next line sent.
unpack() {
	LC_ALL=C; export LC_ALL; umask 077;
	head -c "$n" | { $unpacker >"$t" && chmod 700 "$t"; s=$?; cat >/dev/null; exit $s; };
};

deliver() {
	e=$(claim "$1" 2>&1) || { say tried "$1:" $e; return; };
	say need "$(uname -s)" "$(uname -m)" $how "$1";
	read -r h n || exit 1;
	t=$1/$p-$h.$tag;
	e=$(unpack 2>&1) || { rm -f "$t"; rmdir "$1" 2>/dev/null; say tried "$1:" $e; return; };
	"$t" agent install "$1" "$h" </dev/null || { s=$?; rm -f "$t"; say failed $s; exit $s; };
	become "$1";
};
each deliver;
say none;
exit 1;
