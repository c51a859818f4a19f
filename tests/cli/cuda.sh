#!/bin/sh
# The CUDA backend on a machine without a GPU, or in a build without it: dawn9 reports the reason in one line and ends with
# status 4 if it is named; `auto` selects another backend; `devices` lists it.
. "$(dirname "$0")/lib.sh"

tiny >cuda.yaml
accepts "$dawn9" --version
if grep -q '^backends.* cuda' "$out"; then # versions as compiled
    says '^cuda *compiled with CUDA [0-9.]+, cuDNN 9[0-9.]+, cuBLAS [0-9.]+, cuRAND [0-9.]+(, NCCL [0-9.]+)?$'
fi
accepts "$dawn9" devices
says '^cuda '
if ! grep -q '^cuda *absent: ' "$out"; then
    echo "a GPU answers: nothing more to check here"
    verdict
fi
says '^cuda *absent: .*(NVIDIA driver|is older than CUDA|no GPU|is not installed)'
rejects 4 'cuda NVIDIA|CUDA|GPU|installed' "$dawn9" train cuda.yaml --backend cuda --out run
accepts "$dawn9" train cuda.yaml --backend auto --out run --quiet
json run/result.json 'd["backend"] == "cpu"'
verdict
