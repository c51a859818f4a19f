# CPack's tarball and, where it can be built, Debian package, each unpacked in a folder: the command runs there and
# trains on the synthetic set for a moment.
. "$(dirname "$0")/lib.sh"
build=$(dirname "$dawn9")
small="--threads 1 --set train.epochs=1 --set model.channels=[4,4,8,8] --set data.synthetic_train=128 --set data.synthetic_test=64"

try_command() { # PREFIX
    mkdir clean && cd clean || exit 1
    accepts env -i "HOME=$HOME" OMP_WAIT_POLICY=passive "$1/bin/dawn9" --version
    backends=$(sed -n 's/^backends //p' "$out")
    [ "$backends" = "$("$dawn9" --version | sed -n 's/^backends //p')" ] || fail "the package has backends $backends"
    # shellcheck disable=SC2086 # one word per option
    prints '^accuracy ' env -i "HOME=$HOME" OMP_WAIT_POLICY=passive "$1/bin/dawn9" train synthetic.yaml --out run $small
    [ -f run/result.json ] || fail "no record"
    for file in include/dawn9.h lib/pkgconfig/dawn9.pc lib/cmake/dawn9/dawn9-config.cmake share/dawn9/configs/dawn94.yaml \
        share/doc/dawn9/copyright share/doc/dawn9/README.md share/doc/dawn9/examples/train.c \
        share/doc/dawn9/examples/wandb_forward.py; do
        [ -f "$1/$file" ] || fail "$file is not in the package"
    done
    for page in "$build"/man/*.1; do
        [ ! -f "$page" ] || [ -n "$(ls "$1/share/man/man1/$(basename "$page")"*)" ] || fail "no $(basename "$page") in the package"
    done
    cd .. && rm -rf clean
}

# CUDAARCHS has the form of CMake's own variable. An absolute CMAKE_INSTALL_LIBDIR must be below the prefix.
runs env 'CUDAARCHS=native;90-real;86-virtual' cmake -S "$source" -B "$scratch/named" -DDAWN9_CUDA=OFF -DDAWN9_TESTS=OFF \
    -DCMAKE_INSTALL_PREFIX=/opt/dawn9 -DCMAKE_INSTALL_LIBDIR=/opt/dawn9/lib64
has "$scratch/named/CMakeCache.txt" '^DAWN9_CUDA_ARCHITECTURES:STRING=90;86$'
has "$scratch/named/dawn9.pc" '^prefix=[$]\{pcfiledir\}/[.][.]/[.][.]/?$' '^libdir=[$]\{prefix\}/lib64$'
observe cmake -S "$source" -B "$scratch/named" -DCMAKE_INSTALL_LIBDIR=/opt/other/lib64
[ $status != 0 ] && grep -q 'CMAKE_INSTALL_LIBDIR=/opt/other/lib64' "$err" || fail "a folder outside of the prefix: status $status"

runs cpack --config "$build/CPackConfig.cmake" -B "$scratch/packages"
rm -rf "$scratch/packages/_CPack_Packages"

mkdir "$scratch/unpacked"
accepts tar -xzf "$scratch"/packages/dawn9-*.tar.gz -C "$scratch/unpacked"
try_command "$(echo "$scratch"/unpacked/dawn9-*)"

if command -v dpkg-shlibdeps >/dev/null && command -v file >/dev/null || omits dpkg "no dpkg-shlibdeps or no file"; then
    package=$(echo "$scratch"/packages/dawn9_*.deb)
    accepts dpkg-deb -x "$package" "$scratch/root"
    case " $backends " in
    *" cuda "*)
        of_cuda=$(echo "$scratch"/packages/dawn9-cuda[1-9][0-9]_*.deb)
        accepts dpkg-deb -f "$of_cuda" Package Depends Conflicts
        says '^Package: dawn9-cuda[1-9][0-9]$' '^Depends: dawn9 [(]= [0-9.]*[)]' '^Conflicts: dawn9-cuda$'
        [ ! -e "$scratch/root/usr/lib/dawn9/dawn9-cuda.so" ] || fail "both packages have the CUDA backend"
        accepts dpkg-deb -x "$of_cuda" "$scratch/root"
        ;;
    esac
    try_command "$scratch/root/usr"
    accepts dpkg-deb -f "$package" Package Version Maintainer Depends
    says '^Package: dawn9$' '^Maintainer: dawn9 maintainers'
    for needed in libc6 libgomp1 libjansson4 libmd0 libpng16-16 libyaml-0-2 zlib1g $(case $backends in *onednn*) echo libdnnl ;; esac); do
        says "^Depends: (.*, )?$needed"
    done
    prints '^libdawn9 [0-9.]+ dawn9' dpkg-deb --info "$package" shlibs
fi
verdict
