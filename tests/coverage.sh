#!/bin/sh
# Lines and branches of engine, tricks and kernels that the tests execute: writes tests/coverage.tsv, from which
# docs/figures.py makes the table of tests/coverage.md.
#
# usage: tests/coverage.sh [--table]    --table: counts what an earlier call has run, and runs nothing
#
# Outside CI: a quarter of an hour to build and an hour to test on two cores. Needs gcc and its gcov, python3.
#
# Built without optimisation beyond -O1, so that a line stays a line. Run are the tests that the ordinary build runs in CI,
# but for those that judge speed, installation or the tree, and with every allocation and write of the fault tests failing
# once (tests/unit/trainer_each_call.c, commands_each_call.c). A test that fails here for gcov's own messages (a file size
# limit reached) or for the speed of this build is told and not counted against the table.
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
    ctest --test-dir $build --parallel "$(nproc)" --timeout 3600 -LE '^once$|^timing$|^cifar10$' \
        -E 'docs|slurm|pytorch|onnx$|cpu_conv_many' || true
    ctest --test-dir $build --rerun-failed -N | grep 'Test *#' || true
    ;;
1:--table) ;;
*) echo "usage: tests/coverage.sh [--table]" >&2; exit 2 ;;
esac
python3 tests/coverage.py $build >tests/coverage.tsv
