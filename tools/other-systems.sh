#!/bin/sh
# Builds and tests the last commit (aarch64: the tree as it is) on another system, from scratch.
#
#   debian13   Debian 13 in a folder: gcc 14, oneDNN 3.7, PyTorch 2.6. In a fresh clone both commands of README.md
#              (five minutes of reproduce.sh), tests/run.sh, then PyTorch: loading models, its training step
#   cuda12     Debian 13 with CUDA 12.4 and g++ 13, the oldest supported: the CUDA backend for all GPUs that nvcc knows,
#              the tests of its kernels on the simulated GPU, the package dawn9-cuda12. Debian has no cuDNN: its headers
#              and libraries come from CUDNN=FOLDER (/usr/local/cuda) of this machine
#   aarch64    the plain build cross-compiled against Debian's arm64 libraries; its unit tests under qemu-user
#
# usage: tools/other-systems.sh debian13|cuda12|aarch64 [FOLDER]
#
# FOLDER (build-systems) gets one folder for the system, which is removed first. Needs root, apt and the network; 10 GB
# and 40 minutes on two cores for debian13, 10 GB and 15 minutes for cuda12, 2 GB and 15 minutes for aarch64. If one of
# these is missing it prints "skipped: REASON: why" and ends with status 77. The last line counts the steps; the exit
# status is the verdict.
# shellcheck disable=SC2317 # step calls the functions
set -eu
cd "$(dirname "$0")/.."

usage="usage: tools/other-systems.sh debian13|cuda12|aarch64 [FOLDER]"
case $#:${1-} in
[12]:debian13 | [12]:cuda12 | [12]:aarch64) system=$1 ;;
1:-h | 1:--help) echo "$usage"; exit 0 ;;
*) echo "$usage" >&2; exit 2 ;;
esac
folder=${2-build-systems}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
root=$folder/$system
began=$(date +%s)
passed=0 failed=0

skips() { echo "skipped: $1: $2"; exit 77; } # REASON WHY
say() { printf '\n==== %s (%d s)\n' "$*" $(($(date +%s) - began)); }

# step NAME COMMAND...: runs a step that passes or fails.
step() {
    name=$1
    shift
    say "$system: $name"
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) failures="${failures-}failed $name
"; fi
}
finish() {
    say "$system: done, commit $(git rev-parse --short=12 HEAD)"
    printf %s "${failures-}"
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
}

# needs GIGABYTES PACKAGE...: installs the packages; skips without root, apt, mounts or this space.
needs() {
    [ "$(id -u)" = 0 ] || skips root "only root can install a system in a folder"
    command -v apt-get >/dev/null || skips apt "packages are those of Debian"
    unshare --mount true 2>/dev/null || skips mount "mounts of its own are not allowed here"
    [ "$(df --output=avail -B1G "$folder" | tail -n 1)" -ge "$1" ] || skips disk "$folder has less than $1 GB free"
    shift
    dpkg-query -s "$@" >/dev/null 2>&1 && return 0
    apt-get update -qq || true # the existing package lists may suffice
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
        skips packages "not all of these can be installed: $*"
}

# bootstrap SUITE OPTION...: installs a new system at $root.
bootstrap() {
    suite=$1
    shift
    rm -rf --one-file-system "$root"
    say "$system: debootstrap $suite"
    debootstrap --variant=minbase "$@" "$suite" "$root" >"$folder/$system.log" 2>&1 && return 0
    tail -n 20 "$folder/$system.log"
    skips debootstrap "$suite cannot be installed: the end of $folder/$system.log is above"
}

# ---- Debian 13 ----

# inside COMMAND: runs a line in the shell of the new system, in the clone. Its mounts end with it.
inside() {
    # shellcheck disable=SC2016 # $0 and $1 are those of the inner shell
    unshare --mount --propagation private sh -c '
        mount -t proc proc "$0/proc" && mount -t sysfs sys "$0/sys" && mount --rbind /dev "$0/dev" &&
            exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LANG=C.UTF-8 \
                DEBIAN_FRONTEND=noninteractive chroot "$0" sh -c "cd ~/dawn9 && $1"' "$root" "$1"
}

installs() { inside "apt-get install -y -qq --no-install-recommends $* >/dev/null"; }

# Passes if reproduce.sh, stopped after five minutes, has trained at least one step: steps count from 1.
begins_to_train() {
    inside "timeout --signal=INT 300 experiments/reproduce.sh 2>&1" >"$folder/reproduce.log" || true
    tail -n 5 "$folder/reproduce.log"
    grep -Eq 'interrupted before step ([2-9]|[1-9][0-9])' "$folder/reproduce.log"
}

# Installs a new Debian 13 at $root, with a clone of this repository in the home folder of its user root.
clone_in_trixie() { # COMPONENTS
    bootstrap trixie --include=ca-certificates --components="$1"
    cp /etc/resolv.conf "$root/etc/"
    git clone -q . "$root/root/dawn9"
    git config --file "$root/root/.gitconfig" safe.directory '*'
}

debian13() {
    needs 10 debootstrap
    clone_in_trixie main
    data=${XDG_CACHE_HOME:-$HOME/.cache}/dawn9/cifar10
    if [ -d "$data" ]; then # otherwise reproduce.sh downloads the data
        mkdir -p "$root/root/.cache/dawn9"
        cp -r "$data" "$root/root/.cache/dawn9/"
    fi
    step "setup.sh installs and builds" inside ./setup.sh
    step "oneDNN 3 is what was found" inside "build/dawn9 devices | grep 'oneDNN 3'"
    step "experiments/reproduce.sh trains" begins_to_train
    step "tests/run.sh" inside tests/run.sh
    step "python3-torch installs" installs python3-torch libopenblas0-openmp
    step "models in PyTorch" inside "ctest --test-dir build --output-on-failure --no-tests=error -R '^cli.pytorch\$'"
    step "PyTorch's step" inside \
        "/usr/bin/python3 experiments/peers/torch_cpu.py --precision f32 --batch 64 --steps 2 --warm 1"
}

# ---- CUDA 12.4 ----

# Builds the CUDA backend and its packages in a new Debian 13, and runs the tests of CUDA, except those labelled long
# and those that call cuDNN, because this cuDNN is for another CUDA and would load libraries of that CUDA.
cuda12() {
    cudnn=${CUDNN-/usr/local/cuda}
    [ -f "$cudnn/include/cudnn_version.h" ] || skips cudnn "no $cudnn/include/cudnn_version.h"
    needs 10 debootstrap
    clone_in_trixie main,contrib,non-free
    mkdir "$root/opt/cudnn"
    cp "$cudnn"/include/cudnn*.h "$cudnn"/lib/libcudnn*.so.9 "$root/opt/cudnn"
    step "CUDA installs" installs "nvidia-cuda-toolkit g++-13 file dpkg-dev python3 libcmocka-dev"
    step "it is 12.4" inside "nvcc --version | grep 'release 12.4'"
    step "setup.sh installs and builds" inside ./setup.sh
    step "the CUDA backend builds" inside "cmake -S . -B build -DCUDNN_INCLUDE=/opt/cudnn \
        -DCUDNN_LIBRARY=/opt/cudnn/libcudnn.so.9 -DDAWN9_CUDA_ARCHITECTURES=release -DDAWN9_TESTS=ON && cmake --build build"
    step "the module opens" inside "build/dawn9 --version | grep '^backends cuda '"
    step "tests of the kernels and the backend" inside \
        "ctest --test-dir build --output-on-failure --no-tests=error -R cuda -LE '^long\$' -E 'cudnn|architectures'"
    step "the packages" inside "ctest --test-dir build --output-on-failure --no-tests=error -R '^cli.package\$' &&
        cpack --config build/CPackConfig.cmake -B packages && ls -l packages/dawn9-cuda12_*.deb"
}

# ---- aarch64 ----

# Unpacks packages of another architecture without running anything from them.
unpack_packages() {
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb --extract "$package" "$root" || return 1; done
}

# Builds without C++, and so without the simulated GPU. The name of the build folder must not begin with that of $root:
# CMake would take it for a part of $root, and a test would not find libdawn9.
compiles() {
    libraries=$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig
    env PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_LIBDIR="$libraries" cmake -G Ninja -S . -B "$folder/build-aarch64" \
        -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_SYSROOT="$root" \
        -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=NOTFOUND \
        "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64-static;-L;$root" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
        -DDAWN9_TESTS=ON -DDAWN9_CUDA=OFF -DCMAKE_COMPILE_WARNING_AS_ERROR=ON >"$folder/aarch64-configure.log" 2>&1 ||
        { cat "$folder/aarch64-configure.log"; return 1; }
    cmake --build "$folder/build-aarch64" --parallel "$(nproc)" >"$folder/aarch64-compile.log" 2>&1 ||
        { tail -n 60 "$folder/aarch64-compile.log"; return 1; }
}

# Runs the unit tests in the emulator, without those that would take hours and whose code other tests run
# (tests/CMakeLists.txt, `heavy`). tests/run.sh prints the verdict.
passes() {
    ctest --test-dir "$folder/build-aarch64" --parallel "$(nproc)" --output-on-failure --no-tests=error -L '^unit$' \
        -LE '^heavy$' \
        --output-junit "$folder/build-aarch64/results.xml" --test-output-size-passed 10000000 || true
    tests/run.sh --verdict "$folder/build-aarch64"
}

aarch64() {
    needs 2 debootstrap qemu-user-static gcc-aarch64-linux-gnu
    # The libraries must be of the Debian release of the cross compiler.
    bootstrap "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" --arch=arm64 --foreign \
        --include=libc6-dev,libgomp1,libyaml-dev,libjansson-dev,libmd-dev,libpng-dev,libcmocka-dev,libstb-dev
    rm -rf "$folder/build-aarch64"
    step "packages unpack" unpack_packages
    step "the plain build" compiles
    step "the command runs" qemu-aarch64-static -L "$root" "$folder/build-aarch64/dawn9" devices
    step "unit tests" passes
}

case $system in
debian13) debian13 ;;
cuda12) cuda12 ;;
aarch64) aarch64 ;;
esac
finish
