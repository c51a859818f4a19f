#!/bin/sh
# nvcc.sh OBJECT COMMAND...: runs nvcc, which makes OBJECT, and shows its messages. Keeps two by-products for
# tests/cuda_model: the register counts of ptxas in OBJECT.ptxas, and the PTX of each target below OBJECT.ptx.
object=$1
shift
rm -rf "$object.ptx"
mkdir -p "$object.ptx"
status=0
"$@" --keep --keep-dir "$object.ptx" -Xptxas=-v 2>"$object.ptxas" || status=$?
find "$object.ptx" -type f ! -name '*.ptx' -delete
grep -Ev '^ptxas info|bytes stack frame|^$' "$object.ptxas" >&2
exit $status
