# `devices` tells why oneDNN's module is not there: missing, or it cannot be opened. `cpu` works without it.
. "$(dirname "$0")/lib.sh"
alone=$scratch/alone
mkdir "$alone" && cp "$dawn9" "$alone/dawn9" || exit 1
onednn_is() { # PATTERN
    accepts "$alone/dawn9" devices
    says "^onednn +absent: .*$1" '^cpu .* own kernels$'
}
onednn_is 'dawn9-onednn\.so is not installed: build with libdnnl-dev'
tiny >tiny.yaml
rejects 4 'dawn9-onednn\.so' "$alone/dawn9" bench cold --config tiny.yaml --backend onednn

# Modules that do not open: of another version of oneDNN, and of something else.
echo 'int dnnl_nothing;' >library.c
echo 'extern int dnnl_nothing; int *nothing(void) { return &dnnl_nothing; }' >module.c
cc -shared -fPIC -Wl,-soname,libdnnl.so.9 -o libdnnl.so library.c || exit 1
cc -shared -fPIC -o "$alone/dawn9-onednn.so" module.c -L. -ldnnl || exit 1
here=$(ldconfig -p 2>/dev/null | sed -n 's/.*\(libdnnl\.so\.[23]\) .*/\1/p' | head -n 1)
onednn_is "libdnnl\\.so\\.9: cannot open.*${here:+this machine has $here: built against another version}"
cc -shared -fPIC -o "$alone/dawn9-onednn.so" library.c || exit 1
onednn_is 'd9_conv_library_module'
verdict
