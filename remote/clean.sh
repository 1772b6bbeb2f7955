# SPDX-License-Identifier: Apache-2.0
# Removes what deliver.sh left on the node. Runs after common.sh.

sweep() {
	mine "$1" || return;
	for f in "$1/$p-"*; do
		[ -f "$f" ] && [ -O "$f" ] || continue;
		e=$(rm -f "$f" 2>&1) && say removed "$f" || say kept "$e";
	done;
	rmdir "$1" 2>/dev/null && say removed "$1";
};
each sweep;
say done;
exit 0;
