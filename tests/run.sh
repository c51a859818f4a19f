#!/bin/sh
# Builds dawn9 twice and runs the tests that need no GPU and no network.
#
#   build             gcc, as setup.sh makes it     every test but those labelled long
#   build+avx2        build, held to AVX2           tests that depend on the processor; only on one with AVX-512
#   build-sanitized   clang with AddressSanitizer   unit tests but heavy ones, some commands (label smoke), each fuzz
#                     and UBSan, without nvcc       target for 5 seconds; warnings are errors
#
# usage: tests/run.sh [--fast | --long | --verdict BUILD...]
#
#   --fast      builds what changed in build/, runs lint and the unit tests except slow and heavy ones
#   --long      also the tests labelled long, and each fuzz target for a minute
#   --verdict   builds and tests nothing: prints the verdict on the results.xml of these folders
#
# A test that cannot run says "skipped: REASON: why"; if only a part of it cannot, a line "[  SKIPPED ] PART" follows.
# Where CI=true a skip is a failure unless its reason is one of `lacks` below and holds on this machine. The last line
# counts the results of all builds; the exit status is the verdict.
set -eu
cd "$(dirname "$0")/.."

usage="usage: tests/run.sh [--fast | --long | --verdict BUILD...]"
extent=usual
case $#:${1-} in
0:) ;;
1:--fast) extent=fast ;;
1:--long) extent=long ;;
1:-h | 1:--help) echo "$usage"; exit 0 ;;
1:*) echo "$usage" >&2; exit 2 ;;
*:--verdict) extent=verdict ;;
*) echo "$usage" >&2; exit 2 ;;
esac

jobs=$(nproc)
began=$(date +%s)
results=$(mktemp) # a line per result: passed|failed|skipped BUILD: TEST, for skipped tests followed by REASON
trap 'rm -f "$results"' EXIT
# Threads wait without spinning, so that tests may run side by side; clang's OpenMP needs KMP_BLOCKTIME=0 for this. A
# sanitizer's finding ends the test. Without intercept_tls_get_addr=0 the leak checkers of GCC 12 and clang 14 crash on
# the thread-local storage of modules opened by dlopen (oneDNN and its libgomp).
export OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=detect_leaks=1:intercept_tls_get_addr=0 LSAN_OPTIONS=print_suppressions=0:suppressions=$PWD/tests/leaks.txt

say() { printf '\n==== %s (%d s)\n' "$*" $(($(date +%s) - began)); }
note() { echo "$1 $2: $3" >>"$results"; } # STATE BUILD, then TEST or "TEST REASON"
has_command() { command -v "$1" >/dev/null 2>&1; }
has_module() { /usr/bin/python3 -c "import $1" 2>/dev/null; }
has_sanitizers() { echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer,address,undefined -x c - -o /dev/null 2>/dev/null; }

# ---- why a test may be skipped in CI: the only list ----

cpu_has() { grep -Eqw "$1" /proc/cpuinfo; } # FLAG|FLAG...
folder_of() { echo "${1%+avx2}"; }                                                # BUILD
held_to_avx2() { [ "$1" != "$(folder_of "$1")" ]; }                               # BUILD
built_with() { grep -q "^$2\$" "$(folder_of "$1")/CMakeCache.txt" 2>/dev/null; } # BUILD NAME:TYPE=VALUE
has_nvcc_of_table() { # BUILD: its nvcc has the version that tests/cuda_model/serial_loads.tsv names
    "$(sed -n 's/^DAWN9_NVCC:[A-Z]*=//p' "$(folder_of "$1")/CMakeCache.txt")" --version 2>/dev/null |
        grep -q "V$(sed -n '1s/.* //p' tests/cuda_model/serial_loads.tsv)$"
}
includes_onednn() {
    printf '#include <oneapi/dnnl/dnnl_version.h>\n#if DNNL_VERSION_MAJOR != 2 && DNNL_VERSION_MAJOR != 3\n#error\n#endif\n' | cc -E - >/dev/null 2>&1
}

# Status 0: this machine, or this build on purpose, lacks what the reason names. 1: it does not. 2: the reason is not on
# the list.
lacks() { # REASON BUILD
    case $1 in
    cifar10) [ -x "$(folder_of "$2")/dawn9" ] && ! "$(folder_of "$2")/dawn9" data check cifar10 >/dev/null 2>&1 ;;
    onednn) built_with "$2" DAWN9_ONEDNN:BOOL=OFF || ! includes_onednn ;;
    bf16) held_to_avx2 "$2" || ! cpu_has 'avx512_bf16|amx_bf16' ;;
    amx) held_to_avx2 "$2" || ! cpu_has amx_bf16 ;;
    sanitizers) ! has_sanitizers ;;
    x86-64) [ "$(uname -m)" != x86_64 ] ;;
    mpi) built_with "$2" DAWN9_MPI:BOOL=OFF || ! has_command mpicc || ! has_command mpirun ;;
    numpy) ! has_module "$1" ;;
    pytorch | sklearn | onnxruntime | slurm | chromium | gnuplot) return 1 ;; # setup.sh or --long installs them
    root) [ "$(id -u)" != 0 ] ;;
    xray-table) [ ! -r "${DAWN9_XRAY_CSV-}" ] ;;
    areas) [ ! -r "${DAWN9_AREAS-}" ] ;;
    nvcc) ! has_nvcc_of_table "$2" ;;
    processors) [ "$jobs" -lt 2 ] ;;
    valgrind) ! has_command valgrind ;;
    analysers) ! has_command clang || ! has_command clang-tidy || ! has_command cppcheck ;;
    zsh | fish | localedef) ! has_command "$1" ;;
    cxx) ! has_command c++ ;;
    dpkg) ! has_command dpkg-shlibdeps || ! has_command file ;;
    git) ! git rev-parse >/dev/null 2>&1 ;;
    webp) ! pkg-config --exists libwebp ;;
    namespaces) ! unshare -Urpf true 2>/dev/null || [ ! -r "/proc/$$/task/$$/children" ] ;;
    linker) ! LD_DEBUG=libs env true 2>&1 | grep -q 'initialize program:' ;;
    *) return 2 ;;
    esac
}

# In CI a skip without a true reason is a failure.
judge_skips() {
    while read -r state build test reason; do
        verdict=0
        if [ "$state" = skipped ]; then lacks "${reason:-none}" "${build%:}" || verdict=$?; fi
        case $verdict in
        0) echo "$state $build $test${reason:+ $reason}" ;;
        1) echo "failed $build $test (skipped for want of $reason, which is there)" ;;
        *) echo "failed $build $test (skipped for want of ${reason:-a reason}, which CI does not accept)" ;;
        esac
    done <"$results" >"$results.ci"
    mv "$results.ci" "$results"
}

# ---- tools ----

# Installs the tools that the tests need and dawn9 does not; without apt or root only names those that are missing.
install_tools() {
    missing=
    has_command python3 || missing="$missing python3"
    has_command patch || missing="$missing patch"
    has_command unzip || missing="$missing unzip"
    has_command clang || missing="$missing clang libomp-dev"
    has_sanitizers || missing="$missing libclang-rt-dev"
    [ $extent != long ] || has_command sbatch || missing="$missing slurm-wlm munge"
    [ $extent != long ] || has_command file || missing="$missing file"
    [ $extent != long ] || has_command valgrind || missing="$missing valgrind"
    [ $extent != long ] || has_command clang-tidy || missing="$missing clang-tidy"
    [ $extent != long ] || has_command cppcheck || missing="$missing cppcheck"
    [ $extent != long ] || has_module torch || missing="$missing python3-torch"
    [ $extent != long ] || has_module sklearn || missing="$missing python3-sklearn"
    [ $extent != long ] || has_command npm || missing="$missing npm"
    has_module numpy || missing="$missing python3-numpy"
    has_command groff || missing="$missing groff-base"
    [ $extent != long ] || has_command chromium || missing="$missing chromium"
    [ -n "$missing" ] || return 0
    if ! has_command apt-get || [ "$(id -u)" != 0 ]; then
        echo "tests/run.sh: missing (Debian package names):$missing" >&2
        return 0
    fi
    echo "tests/run.sh: installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true # the lists that are there may be enough
    # shellcheck disable=SC2086 # one word per package
    apt-get install -y -qq --no-install-recommends $missing >/dev/null || true # its absence shows below
}

# ONNX Runtime for cli.onnx; its absence shows as a skipped test.
install_onnxruntime() {
    [ $extent = long ] && has_command npm || return 0
    [ ! -d build/onnxruntime/node_modules/onnxruntime-node ] || return 0
    echo "tests/run.sh: installing onnxruntime-node@1.20.1 by npm into build/onnxruntime"
    mkdir -p build/onnxruntime
    npm install --prefix build/onnxruntime --ignore-scripts --no-audit --no-fund onnxruntime-node@1.20.1 >/dev/null 2>&1 || true
}

# compile BUILD TARGETS cmake-option...: builds the targets in the folder BUILD.
compile() {
    build=$1 target=$2
    shift 2
    say "$build: compiling $*"
    mkdir -p "$build"
    if cmake -G Ninja -S . -B "$build" "$@" >"$build/configure.log" 2>&1; then
        # shellcheck disable=SC2086 # one word per target
        cmake --build "$build" --parallel "$jobs" --target $target >"$build/build.log" 2>&1 && return 0
        tail -n 60 "$build/build.log"
    else
        cat "$build/configure.log"
    fi
    note failed "$build" compile
    return 1
}

# ---- builds and their tests ----

# One line for each test of ctest's JUnit file, and one for each test of a cmocka program or part of a script that was
# skipped inside, with the reason given just before. A test that did not run for any reason but exit status 77 has failed.
read_results() { # FILE BUILD
    awk -v build="$2" '
        function value(name) { return match($0, name "=\"[^\"]*\"") ? substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 3) : "" }
        function done() {
            if (test != "") print state, build ": " test (state == "skipped" && reason != "" ? " " reason : "")
            test = reason = ""
        }
        /<testcase / {
            done()
            test = value(" name")
            state = value(" status") == "run" ? "passed" : "failed"
        }
        /<skipped message="SKIP_RETURN_CODE=77"/ { state = "skipped" }
        match($0, /(^|>)skipped: [a-z0-9-]+: /) {
            reason = substr($0, RSTART, RLENGTH)
            gsub(/^>?skipped: |: $/, "", reason)
        }
        test != "" && /\[  SKIPPED \] [A-Za-z0-9_]+ *$/ {
            inner = $0
            sub(/^.*\[  SKIPPED \] /, "", inner)
            if (!seen[test, inner]++) print "skipped", build ": " test "/" inner (reason == "" ? "" : " " reason)
            reason = ""
        }
        END { done() }' "$1"
}

# run_tests BUILD ctest-option...
run_tests() {
    build=$1
    shift
    folder=$(folder_of "$build")
    say "$build: testing"
    rm -f "$folder/results.xml"
    status=0
    # One more than there are cores, because some tests wait for a process or a signal.
    ctest --test-dir "$folder" --parallel $((jobs + 1)) --output-on-failure --no-tests=error --timeout 600 \
        --output-junit "$PWD/$folder/results.xml" --test-output-size-passed 10000000 "$@" || status=$?
    before=$(grep -c '^failed' "$results" || true)
    [ ! -f "$folder/results.xml" ] || read_results "$folder/results.xml" "$build" >>"$results"
    # If ctest fails although no test is recorded as failed, that counts as a failure, too.
    [ $status = 0 ] || [ "$(grep -c '^failed' "$results" || true)" -gt "$before" ] || note failed "$build" "ctest (status $status)"
}

count() { grep -c "^$1 " "$results" || true; } # STATE
# Prints the verdict and ends the script with it as exit status.
finish() {
    [ "${CI-}" != true ] || judge_skips
    say "done"
    sed -n '/^skipped /{s/\([^ ]* [^ ]* [^ ]*\) \(.*\)/\1 (\2)/;p;}' "$results"
    grep '^failed ' "$results" || true
    [ $extent != long ] || echo "for docs/correctness.md: commit $(git rev-parse --short=12 HEAD), $(date -u +%F): the counts below"
    echo "$(count passed) passed, $(count failed) failed, $(count skipped) skipped"
    [ "$(count passed)" -gt 0 ] && [ "$(count failed)" = 0 ]
    exit
}

# ---- the builds ----

if [ $extent = verdict ]; then
    shift
    for build in "$@"; do
        folder=$(folder_of "$build")
        [ -f "$folder/results.xml" ] || { echo "tests/run.sh: no $folder/results.xml" >&2; exit 2; }
        read_results "$folder/results.xml" "$build" >>"$results"
    done
    finish
fi

[ $extent = fast ] || install_tools
install_onnxruntime
long='^long$' processor='^processor$' targets=all fuzz_seconds=5
[ $extent != long ] || { long='^none$' processor='^processor' targets='all planted_kernels' fuzz_seconds=60; }

if [ $extent = fast ]; then
    if compile build all -DDAWN9_TESTS=ON; then run_tests build -L '^(unit|lint)$' -LE '^(long|slow|heavy)$'; fi
    finish
fi

say "build: setup.sh"
if ! DAWN9_TESTS=ON ./setup.sh; then
    note failed build setup.sh
elif compile build "$targets" -DDAWN9_TESTS=ON; then
    run_tests build -LE "$long"
    # Where the processor has no more than AVX2, the run above has tested the same code.
    if cpu_has avx512f; then
        export DAWN9_CPU_CEILING=avx2
        run_tests build+avx2 -L "$processor"
        unset DAWN9_CPU_CEILING
    fi
fi
if ! has_sanitizers; then
    note skipped build-sanitized "compile sanitizers"
elif compile build-sanitized all -DDAWN9_SANITIZE=address,undefined -DDAWN9_TESTS=ON -DDAWN9_CUDA=OFF \
    -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_COMPILE_WARNING_AS_ERROR=ON \
    -DDAWN9_FUZZ_SECONDS=$fuzz_seconds; then
    run_tests build-sanitized -L '^(unit|smoke|fuzz)$' -LE '^(long|heavy)$'
fi

finish
