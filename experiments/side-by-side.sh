#!/bin/sh
# Do two runs on one machine slow each other down? Measures the training step of one run alone and of two at once, with
# one thread per run and with all cores for each, in turn and in several rounds, because the speed of a machine changes.
#
# usage: experiments/side-by-side.sh OUT [ROUNDS [argument of dawn9 bench step]...]    needs two cores that are idle
#
# OUT gets each measurement as JSON, and summary.txt: medians of images/s, and the speed that a run keeps beside
# another. Environment: DAWN9 (build/dawn9).
set -eu
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; }
case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 1 ] || { usage >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd) rounds=${2-3}
shift $(($# > 1 ? 2 : 1))
cd "$(dirname "$0")/.."
dawn9=${DAWN9-build/dawn9}

# dawn9 itself makes waiting threads sleep; a setting of the caller would replace this behaviour.
unset OMP_WAIT_POLICY GOMP_SPINCOUNT KMP_BLOCKTIME

measure() { # NAME, then arguments
    name=$1
    shift
    "$dawn9" bench step --json "$@" >"$out/$name.json"
}

measure_pair() { # NAME, then arguments: two at once, both waited for
    name=$1
    shift
    measure "$name-a" "$@" &
    first=$!
    measure "$name-b" "$@" &
    wait $first
    wait $!
}

round=1
while [ "$round" -le "$rounds" ]; do
    measure "alone-one-thread-$round" --threads 1 "$@"
    measure_pair "pair-one-thread-$round" --threads 1 "$@"
    measure "alone-all-cores-$round" "$@"
    measure_pair "pair-all-cores-$round" "$@"
    round=$((round + 1))
done

python3 experiments/side-by-side.py "$out" | tee "$out/summary.txt"
