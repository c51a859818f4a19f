#!/bin/sh
# Measures a training step on texts in turn with PyTorch, so that other programs affect both equally: the GRU on IMDB
# (64 reviews of 150 tokens) and the language model on WikiText-2 (20 columns of 35 words), in f32 and, if the processor
# has instructions for it, in bf16. Then the peak memory of a short training of the language model with an evaluation.
#
# usage: experiments/text.sh OUT IMDB WIKITEXT2 [ROUNDS]   a folder for the records, the folders of the data; 5 rounds
#
# OUT gets one JSON file per measurement and text.tsv. Needs build/ and Debian's python3-torch, libopenblas0-openmp
# and time.
# Environment: THREADS (nproc), NETWORKS (imdb language), TINY (1: one step each, as a trial), DAWN9 (build/dawn9).
set -eu
usage() { sed -n '2,10s/^# \{0,1\}//p' "$0"; }
case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 3 ] || { usage >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd) imdb=$2 wikitext=$3 rounds=${4-5}
[ ! -d "$imdb" ] || imdb=$(cd "$imdb" && pwd)
[ ! -d "$wikitext" ] || wikitext=$(cd "$wikitext" && pwd)
cd "$(dirname "$0")/.."
dawn9=${DAWN9-build/dawn9} threads=${THREADS-$(nproc)} steps=${TINY:+1}
grep -m1 'model name' /proc/cpuinfo >"$out/processor.txt"
"$dawn9" devices >"$out/devices.txt"
precisions=f32
grep -Eqw 'avx512_bf16|amx_bf16' /proc/cpuinfo && precisions='f32 bf16'
round=1
while [ "$round" -le "$rounds" ]; do
    for network in ${NETWORKS-imdb language}; do
        case $network in
        imdb) config=imdb-gru data=$imdb ;;
        *) config=wikitext2-lstm data=$wikitext ;;
        esac
        for precision in $precisions; do
            "$dawn9" bench step --config configs/$config.yaml --data "$data" --no-check --backend cpu --threads "$threads" \
                --precision "$precision" --steps "${steps:-10}" --json >"$out/$network-$precision-dawn9-$round.json"
            /usr/bin/python3 experiments/peers/torch_text.py "$network" --precision "$precision" --threads "$threads" \
                --steps "${steps:-10}" >"$out/$network-$precision-torch-$round.json"
        done
    done
    round=$((round + 1))
done
case " ${NETWORKS-language} " in
*" language "*)
    for precision in $precisions; do
        /usr/bin/time -f '{"peak_kilobytes": %M}' -o "$out/language-$precision-memory.json" \
            "$dawn9" train configs/wikitext2-lstm.yaml --data "$wikitext" --no-check --backend cpu --threads "$threads" \
            --precision "$precision" --set train.epochs=0.002 --out "$out/run" --quiet
        rm -r "$out/run"
    done
    ;;
esac
exec python3 experiments/text.py "$out"
