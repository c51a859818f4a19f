#!/bin/sh
# Trains a recipe on CIFAR-10 from a fresh clone: by default David Page's, ten epochs to about 94.1% with flip TTA.
#
# usage: experiments/reproduce.sh [RECIPE] [argument of dawn9 train]...    e.g. small, or dawn94 --seed 2 --out runs/two
#
# RECIPE: small (a first run of some minutes), speed94 (94% with a quarter of the operations), dawn94 (Page's, and the
# default), or any other file of configs/ by its name. Installs missing packages, builds, downloads CIFAR-10 if it is
# missing, prints how long each of the three recipes takes on this machine, and trains. It can be interrupted and
# started again: finished parts are kept, and training resumes from its checkpoint (--resume).
set -eu
case ${1-} in -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
cd "$(dirname "$0")/.."

recipe=dawn94
case ${1--} in
-*) ;;
*)
    [ -f "configs/$1.yaml" ] || { echo "reproduce.sh: there is no configs/$1.yaml; try small, speed94 or dawn94" >&2; exit 2; }
    recipe=$1
    shift
    ;;
esac

cat <<TEXT
reproduce.sh, in three steps:
  1. install missing Debian packages, build into build/           one to four minutes
  2. get CIFAR-10 (170 MB) and check it against known checksums   depends on the network; once
  3. train configs/$recipe.yaml
TEXT
if [ $# = 0 ] && [ -f "runs/$recipe-seed1/result.json" ]; then
    echo "runs/$recipe-seed1 holds the finished run; remove the folder to train again, or give another --out"
    exit 0
fi
./setup.sh --data

if ls runs/"$recipe"-seed*/checkpoint.safetensors >/dev/null 2>&1; then
    echo "$recipe has a checkpoint in runs/; where it is this run's, training goes on from it. Ctrl-C is safe."
else
    echo "how long a run takes here, by the median of seven steps of each (minutes:seconds, and quartiles):"
    for each in small speed94 dawn94; do
        build/dawn9 bench step --config "configs/$each.yaml" --steps 7 |
            sed -n "s/^predicted time of the whole run, with evaluations: \(.*\)/  $each  \1/p"
    done
    echo "now $recipe. Ctrl-C is safe: the same command goes on where it stopped."
fi
exec build/dawn9 train "configs/$recipe.yaml" --resume "$@"
