#!/bin/sh
# nvcc.sh LOG COMMAND...: runs nvcc, keeps what ptxas says in LOG and shows the rest.
log=$1
shift
status=0
"$@" 2>"$log" || status=$?
grep -Ev '^ptxas info|bytes stack frame|^$' "$log" >&2
exit $status
