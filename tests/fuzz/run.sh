#!/bin/sh
# Builds the fuzz targets of tests/fuzz in build-sanitized and runs each for SECONDS (20), as many at a time as there are
# processors. An input that crashes a target or violates a property is kept in build-sanitized; its name is printed, and
# the exit status is 1. Inputs that reach new code are kept in build-sanitized/fuzzed/TARGET, where the next run starts.
#
# usage: tests/fuzz/run.sh [SECONDS [TARGET...]]
#
# Needs (Debian packages): clang, libclang-rt-dev, libomp-dev, and what dawn9 is built with.
set -eu
seconds=20
case ${1-} in
-h | --help) sed -n '/^# usage/,/^#$/s/^# //p' "$0"; exit 0 ;;
[0-9]*) seconds=$1; shift ;;
esac
cd "$(dirname "$0")/../.."
cmake -G Ninja -S . -B build-sanitized -DDAWN9_SANITIZE=address,undefined -DDAWN9_CUDA=OFF \
    -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DDAWN9_FUZZ_SECONDS="$seconds" >/dev/null
cmake --build build-sanitized --target fuzz_targets
targets=$(echo "$*" | tr ' ' '|')
ctest --test-dir build-sanitized --parallel "$(nproc)" --output-on-failure --no-tests=error -R "^fuzz\.(${targets:-.*})\$" && exit 0
ls build-sanitized/finding-* 2>/dev/null || true
exit 1
