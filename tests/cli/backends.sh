# Missing backends: `devices` lists onednn or cuda with the reason, selecting it ends with status 4; others work.
. "$(dirname "$0")/lib.sh"
tiny >tiny.yaml

# ---- oneDNN's module is missing, or cannot be used ----
alone=$scratch/alone
mkdir "$alone" && cp "$dawn9" "$alone/dawn9" || exit 1
onednn_is_absent() { # PATTERN: `devices` lists onednn as absent for a reason that matches
    accepts "$alone/dawn9" devices
    says "^onednn +absent: .*$1" '^cpu .* own kernels$'
}
onednn_is_absent 'dawn9-onednn\.so is not installed: build with libdnnl-dev'
rejects 4 'dawn9-onednn\.so' "$alone/dawn9" bench cold --config tiny.yaml --backend onednn

# Modules that cannot be used: one linked to another version of oneDNN, and one that is another library.
echo 'int dnnl_nothing;' >library.c
echo 'extern int dnnl_nothing; int *nothing(void) { return &dnnl_nothing; }' >module.c
cc -shared -fPIC -Wl,-soname,libdnnl.so.9 -o libdnnl.so library.c || exit 1
cc -shared -fPIC -o "$alone/dawn9-onednn.so" module.c -L. -ldnnl || exit 1
here=$(ldconfig -p 2>/dev/null | sed -n 's/.*\(libdnnl\.so\.[23]\) .*/\1/p' | head -n 1)
onednn_is_absent "libdnnl\\.so\\.9: cannot open.*${here:+this machine has $here: built against another version}"
cc -shared -fPIC -o "$alone/dawn9-onednn.so" library.c || exit 1
onednn_is_absent 'd9_conv_library_module'
complains 6 'standard.output No.space' sh -c '"$1" --version >/dev/full' sh "$alone/dawn9"
odd=$scratch/$(printf 'odd\377')
mv "$alone" "$odd"
: >"$odd/dawn9-onednn.so"
replies '[(b["backend"], "/odd?/" in b["why"]) for b in d if not b["present"] and b["backend"] == "onednn"] == [("onednn", True)]' "$odd/dawn9" devices --json

# ---- CUDA without a GPU, or a build without CUDA: `auto` selects cpu ----
accepts "$dawn9" --version
if grep -q '^backends.* cuda' "$out"; then # versions as compiled
    says '^cuda *compiled with CUDA [0-9.]+, cuDNN 9[0-9.]+, cuBLAS [0-9.]+, cuRAND [0-9.]+(, NCCL [0-9.]+)?$'
fi
prints '^cuda ' "$dawn9" devices
if ! grep -q '^cuda *absent: ' "$out"; then
    echo "a GPU answers: nothing more to check of its absence"
    verdict
fi
says '^cuda *absent: .*(NVIDIA driver|is older than CUDA|no GPU|is not installed)'
rejects 4 'cuda NVIDIA|CUDA|GPU|installed' "$dawn9" train tiny.yaml --backend cuda --out run
accepts "$dawn9" train tiny.yaml --backend auto --out run --quiet
record run 'd["backend"] == "cpu"'
verdict
