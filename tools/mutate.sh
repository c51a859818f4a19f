#!/bin/sh
# Plants random mistakes in product code and prints for each whether a test notices it (see tools/mutate.py).
#
# It works on the last commit, in a clone of its own with two builds: build/mutate (kept for the next call).
# The first call on a commit measures which test covers which line; that takes as long as the tests do.
#
# usage: tools/mutate.sh [N [SEED [PATH]]]: N mutants (20) chosen with SEED (1) in the C files below PATH (all of the product)
# Environment: TESTS, a regular expression for names of the tests that count; JOBS, the number of parallel compilers.
set -eu
case $#:${1-} in
[0-3]:[0-9]*) ;;
0:) ;;
*) sed -n 's/^# usage/usage/p' "$0" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."

tree=$PWD/build/mutate
commit=$(git rev-parse HEAD)
[ -d "$tree" ] || git clone --quiet --shared . "$tree"
# A run that was killed leaves its mistake hidden from git (hide_from_git), and checkout would keep it.
git -C "$tree" ls-files -v | sed -n 's/^h //p' | xargs -r git -C "$tree" update-index --no-assume-unchanged --
git -C "$tree" fetch --quiet origin HEAD
git -C "$tree" checkout --quiet --force --detach "$commit"

configure() { # BUILD cmake-option...
    build=$1
    shift
    ! command -v ccache >/dev/null || set -- "$@" -DCMAKE_C_COMPILER_LAUNCHER=ccache
    cmake -G Ninja -S "$tree" -B "$tree/$build" -DDAWN9_CUDA=OFF "$@" >"$tree/build/$build.log"
}
mkdir -p "$tree/build"
configure build
# -O1 stands last, so that no file is optimised further, which takes longer to compile and mixes lines.
compile="<CMAKE_C_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -O1 -g0 --coverage -o <OBJECT> -c <SOURCE>"
configure build-coverage "-DCMAKE_C_COMPILE_OBJECT=$compile" -DCMAKE_EXE_LINKER_FLAGS=--coverage \
    -DCMAKE_SHARED_LINKER_FLAGS=--coverage -DCMAKE_MODULE_LINKER_FLAGS=--coverage
exec python3 tools/mutate.py "$tree" "$commit" "${JOBS:-$(nproc)}" "${1:-20}" "${2:-1}" "${3:-}"
