#!/bin/sh
# Checks the code of the kernels for every architecture of a release: registers, and accesses to shared memory (ptx.py).
#
# usage: tests/cuda_model/registers.sh [--write] [FOLDER]
#
# --write first rewrites tests/cuda_model/registers.tsv; use it after every intended change of a kernel. The build goes
# to FOLDER (default: build-registers). Takes two minutes on two cores. Needs python3 and nvcc (CUDA 12.8 or later, for
# all architectures).
set -eu
write=
case ${1-} in
-h | --help) sed -n '4,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
--write) write=yes; shift ;;
esac
cd "$(dirname "$0")/../.."
build=${1-build-registers}

mkdir -p "$build"
cmake -G Ninja -S . -B "$build" -DDAWN9_TESTS=OFF -DDAWN9_CUDA_ARCHITECTURES=release >"$build/configure.log"
if grep 'nvcc not found' "$build/configure.log"; then exit 1; fi
cmake --build "$build" --target dawn9_cuda_kernels --parallel "$(nproc)" >"$build/build.log" || { cat "$build/build.log"; exit 1; }
[ -z "$write" ] || python3 tests/cuda_model/ptx.py registers --write tests/cuda_model/registers.tsv "$build"/cuda/*.o
python3 tests/cuda_model/ptx.py registers tests/cuda_model/registers.tsv "$build"/cuda/*.o
python3 tests/cuda_model/ptx.py shared "$build"/cuda/*.ptx/*.ptx
