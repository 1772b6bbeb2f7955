# SPDX-License-Identifier: Apache-2.0
# The start of every command that preflight runs on a node. Full-line comments, indentation
# and newlines are removed before the text is sent (see wrap in command.go). The login shell
# that must pass it on may be tcsh or fish, so what remains has no
# single quote, backslash, exclamation mark or newline in it, and lines end in a
# semicolon wherever the shell needs one.

p=preflight;

# The marker is assembled here, so that a bastion that prints a refused command does not
# print a line with the marker.
say() { echo "@@$p $*"; };
say shell;
