#!/bin/sh
# Shows that the checks of machine code can fail: kernels that need more than their row of the table, kernels without a
# row, rows without a kernel (by modified ptxas logs), an access to shared memory wider than its array's alignment, a
# store between loads, loops that wait for one load at a time.
#
# usage: planted_code.sh NVCC PYTHON OBJECT...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
nvcc=$1 python=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
checks=0

# expect STATUS TEXT COMMAND...
expect() {
    status=0 wanted=$1 text=$2
    shift 2
    "$@" >"$scratch/said" 2>&1 || status=$?
    if [ "$status" != "$wanted" ] || ! grep -q "$text" "$scratch/said"; then
        cat "$scratch/said"
        echo "planted_code.sh: status $status and not $wanted, or no \"$text\": $*"
        exit 1
    fi
    checks=$((checks + 1))
}

# ---- registers: a table of the current logs, then logs with larger numbers ----
mkdir "$scratch/cuda"
for object in "$@"; do cp -r "$object.ptx" "$object.ptxas" "$scratch/cuda"; done
original=$(dirname "$1")
set -- "$scratch"/cuda/*.ptx
objects=$(for folder in "$@"; do echo "${folder%.ptx}"; done)
# registers [--write]: checks the modified logs against the table, or writes the table
registers() { # $objects: one word per object
    "$python" "$here/ptx.py" registers "$@" "$scratch/table.tsv" $objects
}
expect 0 ' kernels$' registers --write
expect 0 ', 0 complaints' registers
# log FILE EXPRESSION: writes a ptxas log, modified by a sed expression.
log() { sed -E "$2" "$original/$1" >"$scratch/cuda/$1"; }

log norm_resident.o.ptxas 's/Used ([0-9]+) registers/Used 12\1 registers/'
expect 1 'norm_resident_kernel<8,[0-9],[01]> for [0-9]*: .* registers, .* in the table' registers
expect 1 'norm_resident_kernel<8,[0-9],[01]> for [0-9]*: .* registers, 2 blocks of 256 threads do not fit' registers
log norm_resident.o.ptxas 's/([0-9]+) bytes smem/9\1 bytes smem/'
expect 1 'bytes of static shared memory, .* in the table' registers
log norm_resident.o.ptxas 's/0 bytes spill stores/4 bytes spill stores/'
expect 1 'norm_resident_kernel<8,[0-9],[01]> for [0-9]*: 4 bytes of spills$' registers
log norm_resident.o.ptxas "s/'[^']*norm_resident_kernel[^']*'/'_Z9my_kernelv'/"
expect 1 'my_kernel for [0-9]*: not in the table' registers
expect 1 'norm_resident_kernel<8,[0-9],[01]> for [0-9]*: in the table, but not in the objects' registers
log norm_resident.o.ptxas ''
log loss.o.ptxas 's/0 bytes spill loads/4 bytes spill loads/'
expect 1 'metrics_kernel for [0-9]*: .* bytes of spills, .* in the table' registers

# ---- shared memory ----
for aligned in 4 16; do
    "$nvcc" -arch=compute_80 -DALIGNED=$aligned -ptx "$here/planted.cu" -o "$scratch/planted-$aligned.ptx"
done
expect 1 'ld.shared.v4.* moves 16 bytes of .*kept, which is aligned to 4$' "$python" "$here/ptx.py" shared "$scratch/planted-4.ptx"
expect 0 ' 0 are wider' "$python" "$here/ptx.py" shared "$scratch/planted-16.ptx"
# An address that cannot be traced may point into any array.
sed 's/\[%r[0-9]*\]/[%unknown]/' "$scratch/planted-4.ptx" >"$scratch/planted-unknown.ptx"
expect 1 'moves 16 bytes of .*kept' "$python" "$here/ptx.py" shared "$scratch/planted-unknown.ptx"

# ---- loads: a store after every second load ----
cat "$original"/norm*.o.ptx/*.ptx >"$scratch/norms.ptx"
awk '{ print } /ld\.global.*\.v4/ && ++loads % 2 == 0 { print "\tst.global.u32 \t[%rd1], %r1;" }' "$scratch/norms.ptx" >"$scratch/early.ptx"
expect 0 ' 0 store too early' "$python" "$here/ptx.py" first "$scratch/norms.ptx"
expect 1 'norm_resident_kernel<8,.*: 2 loads before a store, not 4' "$python" "$here/ptx.py" first "$scratch/early.ptx"

# ---- serial loads ----
version=$(sed -n 's/.*release .*, V//p' "$scratch/planted-16.ptx")
# serial LINES: checks the planted loops against a table of these lines.
serial() { printf "# nvcc $version\nkernel\tloops\treason\n$1" >"$scratch/serial.tsv" && "$python" "$here/ptx.py" serial "$scratch/serial.tsv" "$scratch/planted-16.ptx"; }
listed='chain_kernel\t1\ta list\none_kernel\t1\ta copy\nfold_kernel\t1\ta fold\n'
expect 0 '^6 kernels, 0 complaints' serial "$listed"
expect 1 '^6 kernels, 3 complaints' serial ''
for kernel in chain one fold; do expect 1 "^${kernel}_kernel: 1 serial loops, 0 in the table" serial ''; done
expect 1 '^one_kernel: 1 serial loops, 0' serial "$(echo "$listed" | sed 's/a copy//')" # a reason is missing
expect 1 '^grid_kernel: in the table, but it has no serial loop' serial "${listed}grid_kernel\t1\ta grid\n"
version=0.0
expect 77 '^skipped: nvcc: the table is of version 0.0, ' serial "$listed"
echo "$checks checks"
