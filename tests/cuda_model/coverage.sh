#!/bin/sh
# Writes coverage.tsv from the files that unit.cuda_kernels and unit.cuda_backend_ops wrote to the build folder. Review
# its diff.
#
# usage: tests/cuda_model/coverage.sh BUILD
set -eu
[ $# = 1 ] || { sed -n '5s/^# //p' "$0" >&2; exit 2; }
table=$(dirname "$0")/coverage.tsv
{
    printf '# The tests that ran each kernel and rule of the CUDA backend, on the CPU. %s\n' \
        'Made by coverage.sh; checked by these tests.'
    cat "$1/coverage-kernel.tsv" "$1/coverage-rule.tsv"
} >"$table.new"
mv "$table.new" "$table"
