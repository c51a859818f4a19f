#!/bin/sh
# Counts the lines and branches of engine, tricks and kernels that the tests execute, folder by folder: prints
# build-coverage/coverage.tsv, which it writes.
#
# usage: tools/coverage.sh [--table]    --table: runs nothing, and counts again what an earlier call has executed
#
# CI does not run it: a quarter of an hour to build and an hour to test on two cores. Needs gcc and its gcov, python3.
#
# The build has no optimisation beyond -O1, so that lines stay separate. Its tests run, except those labelled long or
# cifar10 and those that ctest's -E below names. A test that fails here because of gcov's messages (a file size limit is
# reached) or the speed of this build is reported, but does not invalidate the table.
set -eu
cd "$(dirname "$0")/.."
build=build-coverage
case $#:${1-} in
0:)
    cmake -G Ninja -S . -B $build -DDAWN9_TESTS=ON -DDAWN9_CUDA=OFF -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_C_FLAGS="--coverage -O1" -DCMAKE_CXX_FLAGS="--coverage -O1" >$build.log
    cmake --build $build
    find $build -name '*.gcda' -delete
    export OMP_WAIT_POLICY=passive
    ctest --test-dir $build --parallel "$(nproc)" --timeout 3600 -LE '^cifar10$|^long$' \
        -E 'docs|slurm|pytorch|onnx$|cpu_conv_many' || true
    ctest --test-dir $build --rerun-failed -N | grep 'Test *#' || true
    ;;
1:--table) ;;
*) echo "usage: tools/coverage.sh [--table]" >&2; exit 2 ;;
esac
python3 tools/coverage.py $build >$build/coverage.tsv
cat $build/coverage.tsv
