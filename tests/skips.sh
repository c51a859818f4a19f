#!/bin/sh
# tests/run.sh --verdict on skips planted in a CTest folder of its own: in CI a skip is accepted only where its reason
# is on the list and holds here; otherwise it is a failure. For bf16, amx, sanitizers and onednn this test determines by
# other means than run.sh what the machine has.
#
# usage: tests/skips.sh DAWN9
set -eu
dawn9=$1
cd "$(dirname "$0")/.."
scratch=$(mktemp -d -t dawn9-skips.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
failures=0

plant() { # NAME COMMANDS: adds a test that runs the commands
    printf 'add_test(%s sh -c "%s")\nset_tests_properties(%s PROPERTIES SKIP_RETURN_CODE 77)\n' "$1" "$2" "$1" >>"$scratch/CTestTestfile.cmake"
}
plant passes 'exit 0'
plant silent 'exit 77'
plant unknown 'echo skipped: moonlight: it is day; exit 77'
plant formless 'echo skipped for want of cifar10; exit 77'
for reason in cifar10 onednn bf16 amx sanitizers x86-64 valgrind analysers mpi; do plant "$reason" "echo skipped: $reason: planted; exit 77"; done
# The output of a cmocka program that skipped tests: it names them at once, and some again at the end.
name() { echo "echo '[  SKIPPED ] $1';"; }
plant within "echo skipped: cifar10: x; $(name first) $(name second) echo skipped: moonlight: x; $(name third) $(name first)"
# A script that leaves out parts (omits) goes on; each part is judged like a skipped test.
sed -n '/^omits() {/,/^}/p' tests/cli/lib.sh >"$scratch/omits.sh"
plant script ". $scratch/omits.sh; for reason in moonlight zsh fish; do omits \$reason planted || omitted=yes; done; test \$omitted = yes"

# A stub of dawn9, whose `data check cifar10` ends with the status in the file `answer`.
printf '#!/bin/sh\nexit "$(cat "$(dirname "$0")/answer")"\n' >"$scratch/dawn9"
chmod +x "$scratch/dawn9"
echo 3 >"$scratch/answer"
grep '^DAWN9_' "$(dirname "$dawn9")/CMakeCache.txt" >"$scratch/CMakeCache.txt"
ctest --test-dir "$scratch" --output-junit "$scratch/results.xml" >"$scratch/log" 2>&1 || true

judge() { # CI [+avx2]: the verdict goes to $scratch/told, its status to $status
    status=0 held=${2:+[+]avx2}
    CI=$1 tests/run.sh --verdict "$scratch${2-}" >"$scratch/told" 2>&1 || status=$?
}
expect() { # STATE TEST PATTERN
    grep -Eq "^$1 $scratch$held: $2$3\$" "$scratch/told" && return
    echo "FAILED: $2 is not $1 '$3'"
    failures=$((failures + 1))
}
expect_present() { expect failed "$1" " \\(skipped for want of $1, which is there\\)"; }
expect_missing() { expect skipped "$1" " \\($1\\)"; }
rejected=', which CI does not accept\)'

judge true
[ $status = 1 ] || { echo "FAILED: status $status"; failures=1; }
expect failed silent " \\(skipped for want of a reason$rejected"
expect failed formless " \\(skipped for want of a reason$rejected"
expect failed unknown " \\(skipped for want of moonlight$rejected"
expect_missing cifar10
expect skipped within/first ' \(cifar10\)'
expect failed within/second " \\(skipped for want of a reason$rejected" # a reason is good for one skip
expect failed within/third " \\(skipped for want of moonlight$rejected"
expect failed script/moonlight " \\(skipped for want of moonlight$rejected"
for shell in zsh fish; do
    if command -v $shell >/dev/null; then verdict=failed; else verdict=skipped; fi
    expect $verdict script/$shell " \\((skipped for want of )?$shell(, which is there)?\\)"
done
if [ "$(uname -m)" = x86_64 ]; then expect_present x86-64; else expect_missing x86-64; fi
if ls "$(clang -print-runtime-dir 2>/dev/null)"/libclang_rt.fuzzer[.-]* >/dev/null 2>&1; then expect_present sanitizers; else expect_missing sanitizers; fi
if command -v valgrind >/dev/null; then expect_present valgrind; else expect_missing valgrind; fi
if command -v clang >/dev/null && command -v clang-tidy >/dev/null && command -v cppcheck >/dev/null; then expect_present analysers; else expect_missing analysers; fi
if ! grep -q '^DAWN9_MPI:BOOL=OFF$' "$scratch/CMakeCache.txt" && command -v mpicc >/dev/null && command -v mpirun >/dev/null; then expect_present mpi; else expect_missing mpi; fi
onednn=$("$dawn9" devices | grep '^onednn')
case $onednn in *absent*) ;; *) expect_present onednn ;; esac
cpu=$("$dawn9" devices | grep '^cpu')
case $cpu in *' bf16'*) expect_present bf16 ;; *) expect_missing bf16 ;; esac
case $cpu in *' amx,'*) expect_present amx ;; *) expect_missing amx ;; esac

# With the data here a skip for want of them fails; a build without oneDNN, or held to AVX2, may skip on any machine.
echo 0 >"$scratch/answer"
echo DAWN9_ONEDNN:BOOL=OFF >"$scratch/CMakeCache.txt"
judge true +avx2
expect_present cifar10
expect_missing onednn
expect_missing bf16
expect_missing amx

# Outside CI every skip is reported and none is a failure.
judge false
[ $status = 0 ] || { echo "FAILED: status $status outside CI"; failures=1; }
expect skipped silent ''
expect skipped unknown ' \(moonlight\)'
grep -q '^3 passed, 0 failed, 1[0-9] skipped$' "$scratch/told" || { echo "FAILED: the counts"; failures=1; }

# Each reason that a test gives is on the list of run.sh, but two: `fake` is given only on a GPU, where run.sh runs no
# tests, and `cudnn` (older than 9.11) is not accepted in CI.
used=$(
    sed -n 's/.*\(skips\|omits\) \([a-z][a-z0-9-]*\) ".*/\2/p' tests/cli/*.sh
    sed -n 's/.*skip\(_for\|ped\)("\([a-z0-9-]*\)".*/\2/p' tests/*/*.[ch]
    find tests -name skips.sh -prune -o \( -name '*.sh' -o -name '*.py' \) -exec sed -n 's/.*"skipped: \([a-z0-9-]*\): .*/\1/p' {} +
)
for reason in $(echo "$used" | sort -u); do
    case $reason in fake | cudnn) continue ;; esac
    sed -n '/^lacks()/,/^}/p' tests/run.sh | grep -Eq "^    ([a-z0-9-]+ \| )*$reason( \| [a-z0-9-]+)*\)" ||
        { echo "FAILED: a test skips with the reason $reason, which tests/run.sh does not know"; failures=1; }
done
[ "$(echo "$used" | sort -u | wc -l)" -ge 15 ] || { echo "FAILED: no reasons found: $used"; failures=1; }
[ $failures = 0 ] || cat "$scratch/told"
[ $failures = 0 ]
