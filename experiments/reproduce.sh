#!/bin/sh
# The main job: David Page's 10-epoch recipe on CIFAR-10, from nothing to about 94.1% with flip TTA.
#
# usage: experiments/reproduce.sh [argument of dawn9 train]...    e.g. --seed 2 --out runs/dawn94-seed2, --threads 2
#
# Installs what is missing, builds, fetches CIFAR-10 where it is not there yet, then trains configs/dawn94.yaml. It can
# be interrupted and started again: a finished part is kept, and training goes on from its checkpoint (--resume).
set -eu
cd "$(dirname "$0")/.."

case ${1-} in
-h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac

cat <<'TEXT'
reproduce.sh, in three steps:
  1. install missing Debian packages, build into build/           about a minute
  2. get CIFAR-10 (170 MB) and check it against known checksums   depends on the network; once
  3. train configs/dawn94.yaml, ten epochs, seed 1                970 steps of 512 images; its first steps say how long
TEXT
if [ $# = 0 ] && [ -f runs/dawn94-seed1/result.json ]; then
    echo "runs/dawn94-seed1 holds the finished run; remove the folder to train again, or give another --out"
    exit 0
fi
./setup.sh --data
exec build/dawn9 train configs/dawn94.yaml --out runs/dawn94-seed1 --resume "$@"
