# SPDX-License-Identifier: Apache-2.0
# What every command of ours on a node begins with. Full-line comments, indentation and
# newlines are removed before the text is sent (see wrap in command.go): the
# login shell that has to pass it on may be tcsh or fish, so what remains has no
# single quote, backslash, exclamation mark or newline in it, and lines end in a
# semicolon wherever the shell needs one.

p=preflight;

# The marker is put together here so that a bastion which prints the command it
# refused does not print a line that looks like one of ours.
say() { echo "@@$p $*"; };
say shell;
