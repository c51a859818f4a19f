#!/bin/sh
# Checks the hash in the keys of tuned choices among our own kernels (cmake/kernels.cmake in SOURCE): it must change
# with a kernel, a header, a formula, the rules of norms or the compiler's options (cmake/cuda.cmake), but not with a
# kernel of the CPU, engine/backends/cuda/steps.c or cmake/embed.cmake.
# Usage: kernels.sh SOURCE CMAKE
set -eu
source=$1 cmake=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/engine/backends/cuda" "$work/cmake"
cp -R "$source/kernels" "$work"
cp "$source"/engine/backends/cuda/*.c "$work/engine/backends/cuda"
cp "$source"/cmake/*.cmake "$work/cmake"

hash_of() {
    "$cmake" -DSOURCE="$work" -DOUT="$work/hash.h" -P "$source/cmake/kernels.cmake"
    grep -Eo '^#define D9_CUDA_KERNELS "[0-9a-f]{12}"$' "$work/hash.h"
}

first=$(hash_of)
for file in kernels/cuda/reduce.h kernels/cuda/norm_resident.cu kernels/formulas/norm.h kernels/types.h \
    engine/backends/cuda/norm.c cmake/cuda.cmake; do
    echo >>"$work/$file"
    now=$(hash_of)
    [ "$now" != "$first" ] || { echo "$file was changed, and the hash is the same"; exit 1; }
    first=$now
done
for file in engine/backends/cuda/steps.c cmake/embed.cmake; do echo >>"$work/$file"; done
mkdir -p "$work/kernels/cpu" && echo >"$work/kernels/cpu/more.c"
[ "$(hash_of)" = "$first" ] || { echo "the hash changes with files on which no kernel of a GPU depends"; exit 1; }
