#!/bin/sh
# Which is fastest on this processor: our convolutions, oneDNN's or PyTorch? Times a training step of dawn94 at batch
# 512 on synthetic images, in turn, so that other programs affect all equally.
#
# usage: experiments/bench-sources.sh OUT [ROUNDS]    OUT: folder for the records; ROUNDS: 3, each 5 to 10 minutes
#
# Each round times `cpu`, `onednn` and `cpu` without oneDNN's module in f32, and in bf16 if the processor has bf16
# instructions, the start of a run, and PyTorch in f32 in both layouts. With AVX-512 it also times `cpu`,
# `onednn` and PyTorch in f32 restricted to AVX2, which shows roughly how they compare on processors without AVX-512.
# Environment: ONLY (names of the measurements to make, without number and .json, separated by spaces; default: all),
# DAWN9 (build/dawn9), QUIET (a command that runs each measurement).
# Needs build/ and Debian's python3-torch and libopenblas0-openmp.
set -eu
usage() { sed -n '2,12s/^# \{0,1\}//p' "$0"; }
case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 1 ] || { usage >&2; exit 2; }
mkdir -p "$1/alone"
out=$(cd "$1" && pwd) rounds=${2-3}
cd "$(dirname "$0")/.."
dawn9=${DAWN9-build/dawn9}
cp "$dawn9" "$out/alone/dawn9" # without oneDNN's module beside it, as in a build without oneDNN
grep -m1 'model name' /proc/cpuinfo >"$out/processor.txt"

wanted() { case " ${ONLY-$1} " in *" $1 "*) ;; *) return 1 ;; esac }
# step NAME PROGRAM OPTION...: times a step of dawn9
step() {
    name=$1 program=$2
    shift 2
    wanted "$name" || return 0
    ${QUIET-} "$program" bench step --config configs/dawn94.yaml --set data.dataset=synthetic --json "$@" >"$out/$name-$round.json"
}
torch() {
    name=$1
    shift
    wanted "$name" || return 0
    ${QUIET-} /usr/bin/python3 experiments/peers/torch_cpu.py --steps 3 --warm 1 "$@" >"$out/$name-$round.json"
}

round=1
while [ "$round" -le "$rounds" ]; do
    step cpu-f32 "$dawn9" --backend cpu --precision f32
    step onednn-f32 "$dawn9" --backend onednn --precision f32
    step alone-f32 "$out/alone/dawn9" --backend cpu --precision f32
    if grep -Eqw 'avx512_bf16|amx_bf16' /proc/cpuinfo; then
        step cpu-bf16 "$dawn9" --backend cpu --precision bf16
        step onednn-bf16 "$dawn9" --backend onednn --precision bf16
        step alone-bf16 "$out/alone/dawn9" --backend cpu --precision bf16
    fi
    torch torch-f32 --precision f32
    torch torch-f32-contiguous --precision f32 --layout contiguous
    wanted cold-f32 && ${QUIET-} "$dawn9" bench cold --config configs/dawn94.yaml --precision f32 --json >"$out/cold-f32-$round.json"
    if grep -qw avx512f /proc/cpuinfo; then
        step cpu-f32-avx2 "$dawn9" --backend cpu --precision f32 --set backend_options.cpu_level=avx2
        step onednn-f32-avx2 "$dawn9" --backend onednn --precision f32 --set backend_options.cpu_level=avx2
        ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
            torch torch-f32-avx2 --precision f32
        ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
            torch torch-f32-avx2-contiguous --precision f32 --layout contiguous
    fi
    round=$((round + 1))
done
rm -rf "$out/alone"
exec python3 experiments/bench-sources.py "$out"
