#!/bin/sh
# Writes coverage.tsv from the files that unit.cuda_kernels and unit.cuda_backend_ops wrote to the build folder. Review
# the diff.
#
# usage: tests/cuda_model/coverage.sh BUILD
set -eu
[ $# = 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
table=$(dirname "$0")/coverage.tsv
{
    printf '# What of the CUDA backend ran in which test, on the CPU. Made by coverage.sh; checked by the tests themselves.\n'
    cat "$1/coverage-kernel.tsv" "$1/coverage-rule.tsv"
} >"$table.new"
mv "$table.new" "$table"
