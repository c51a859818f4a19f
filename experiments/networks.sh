#!/bin/sh
# Measures images/s of each network in turn with PyTorch, so that other programs affect both equally: a training step of
# vgg (batch 64), ResNet-18 (batch 128) and airbench94 (batch 1024) on 32 x 32, of ResNet-50 and DenseNet-121 on 224 x
# 224 (batch 16), and features of ResNet-50 (224 x 224, batch 32, forward only). PyTorch runs in both layouts; the faster
# of a round counts.
#
# usage: experiments/networks.sh OUT [ROUNDS]    a folder for the records; 3 rounds of about 10 minutes on two cores
#
# Measures in f32, in bf16 if the processor has instructions for it, and on a processor with AVX-512 also in f32
# restricted to AVX2, which shows roughly how both compare on processors without AVX-512. Images are synthetic. OUT gets
# one JSON file per measurement and networks.tsv. Needs build/ and Debian's python3-torch and libopenblas0-openmp.
#
# Environment: NETWORKS (all: vgg resnet18 resnet50 densenet121 airbench94 features), THREADS (nproc), QUIET (a command
# that runs each measurement, at most a minute each), TINY (1: two small images per step, to try the script), PYTHON2 (a
# Python with another version of PyTorch, measured as well; the fastest of all counts), DAWN9 (build/dawn9).
set -eu
usage() { sed -n '2,15s/^# \{0,1\}//p' "$0"; }
case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 1 ] || { usage >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd) rounds=${2-3}
cd "$(dirname "$0")/.."
dawn9=${DAWN9-build/dawn9} threads=${THREADS-$(nproc)}
networks=${NETWORKS-vgg resnet18 resnet50 densenet121 airbench94 features}
{
    grep -m1 'model name' /proc/cpuinfo
    echo avx2
    if grep -qw avx512f /proc/cpuinfo; then echo avx512; fi
    if grep -qw amx_bf16 /proc/cpuinfo; then echo amx; fi
} >"$out/processor.txt"

# Sets the variables of a network: what (step or eval), config, model, side (pixels), batch, and the numbers of steps of
# dawn9 (ours) and PyTorch (theirs).
set_network() {
    what=step config=configs/base.yaml side=224 batch=16 ours=5 theirs=3
    case $1 in
    vgg) config=configs/rosetta.yaml model='' side=32 batch=64 ours=20 theirs=10 ;;
    resnet18) model="resnet depth=18" side=32 batch=128 ;;
    resnet50) model="resnet depth=50" ;;
    airbench94) config=configs/airbench94.yaml model='' side=32 batch=1024 ;;
    densenet121) model="densenet" ;;
    features) what="eval" model="resnet depth=50" batch=32 theirs=2 ;;
    *) echo "networks.sh: no network named $1" >&2; exit 2 ;;
    esac
    [ -z "${TINY-}" ] || { batch=2 ours=1 theirs=1; [ $side = 32 ] || side=64; }
}

# measure_dawn9 NAME OPTION...: measures dawn9 on the network of set_network
measure_dawn9() {
    name=$1
    shift
    for word in $model; do
        case $word in
        *=*) set -- "$@" --set "model.$word" ;;
        *) set -- "$@" --set "model.name=$word" ;;
        esac
    done
    ${QUIET-} "$dawn9" bench "$what" --config "$config" --backend cpu --threads "$threads" --set data.dataset=synthetic \
        --set data.image_size=$side --set data.synthetic_train=$((2 * batch)) --set data.synthetic_test=$batch \
        --set train.batch_size=$batch --steps $ours --json "$@" >"$out/$name-$round.json"
}
measure_torch() { # NAME OPTION...: measures PyTorch in both layouts
    name=$1
    shift
    for layout in contiguous channels_last; do
        for version in '' ${PYTHON2:+-2}; do
            python=/usr/bin/python3
            [ -z "$version" ] || python=$PYTHON2
            ${QUIET-} "$python" experiments/peers/torch_networks.py "$network" --batch $batch --size $side --steps $theirs \
                --threads "$threads" --layout $layout "$@" >"$out/$name$version-$layout-$round.json"
        done
    done
}

round=1
while [ "$round" -le "$rounds" ]; do
    for network in $networks; do
        set_network "$network"
        measure_dawn9 "$network-f32" --precision f32
        measure_torch "$network-f32-torch" --precision f32
        if grep -Eqw 'avx512_bf16|amx_bf16' /proc/cpuinfo; then
            measure_dawn9 "$network-bf16" --precision bf16
            measure_torch "$network-bf16-torch" --precision bf16
        fi
        if grep -qw avx512f /proc/cpuinfo; then
            measure_dawn9 "$network-f32-avx2" --precision f32 --set backend_options.cpu_level=avx2
            ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
                measure_torch "$network-f32-avx2-torch" --precision f32
        fi
    done
    round=$((round + 1))
done
exec python3 experiments/networks.py "$out"
