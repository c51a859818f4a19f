#!/bin/sh
# Plants a mistake in the program and runs the tests that own its file: do they notice? tests/mutations.tsv has a mistake
# a line: FILE, the text that stands there once, what it becomes, the ctests that own the file, the likeliest first; in
# a fifth field what was added when nothing noticed. Every mistake is undone before the next is planted.
#
# usage: tests/mutate.sh [LINE...]    these lines of the table; all of them are written up as tests/mutations.md, too
#        tests/mutate.sh --check      builds nothing: does the table fit the tree?
#
# Works in a clone of what is committed, below $TMPDIR, with what setup.sh installs, and git; with ccache a second
# time is shorter. The exit status is 1 where a mistake survives or does not compile.
# shellcheck disable=SC2015,SC2046,SC3045 # a list of words; ulimit -v, which dash has
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
table=$root/tests/mutations.tsv

# field LINE NUMBER
field() { sed -n "$1p" "$table" | cut -f "$2"; }

# ---- does the table fit? ----

# A line for each that does not: of ROOT's files. A ctest of the label unit or cli is a file of that name, or stands in
# the CMakeLists.txt beside the CUDA kernels' programs.
misfits() { # TABLE ROOT
    (cd "$2" && LC_ALL=C awk -F '\t' '
function complain(what) { print "tests/mutations.tsv:" NR ": " what }
function is_there(path,    line) { return (getline line < path) >= 0 && close(path) == 0 }
function count(path, text,    line, n, at) {
    while ((getline line < path) > 0)
        for (; at = index(line, text); n++) line = substr(line, at + 1)
    close(path)
    return n + 0
}
BEGIN {
    for (i = split("tests/cuda_model tests/cuda_backend", folder, " "); i > 0; i--)
        while ((getline line < (folder[i] "/CMakeLists.txt")) > 0) cmake = cmake " " line
    gsub(/[()]/, " ", cmake)
}
{
    if (NF < 4 || NF > 5 || $2 == $3 || $4 == "") { complain("must be FILE OLD NEW TESTS [ADDED]"); next }
    if (seen[$1, $2, $3]++) complain("stands there twice")
    n = is_there($1) ? count($1, $2) : 0
    if (n != 1) complain($1 " has " n " places with: " $2)
    for (i = split($4, test, " "); i > 0; i--) {
        path = name = test[i]
        sub(/^unit\./, "", name)
        sub(/\./, "/", path)
        fake = name
        sub(/^cuda_backend_/, "", fake)
        if (!is_there("tests/" path ".c") && !is_there("tests/" path ".sh") &&
            !index(cmake, " dawn9_model_test " name " ") && !(fake != name && is_there("tests/cuda_backend/" fake ".c")))
            complain("no test is called " test[i])
    }
}' "$1")
}

# Every complaint must come when its reason is planted, and none without.
check() {
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mkdir -p "$scratch/tests/unit" "$scratch/tests/cuda_model" "$scratch/tests/cuda_backend"
    touch "$scratch/tests/unit/core.c" "$scratch/tests/cuda_backend/CMakeLists.txt" "$scratch/tests/cuda_backend/ops.c"
    echo 'dawn9_model_test(cuda_kernels x y)' >"$scratch/tests/cuda_model/CMakeLists.txt"
    printf 'a = b; /* a */\nc = b;\n' >"$scratch/f.c"
    bites() { # COMPLAINT LINE
        printf '%b\n' "$2" >"$scratch/table"
        found=$(misfits "$scratch/table" "$scratch")
        [ "${found#tests/mutations.tsv:[12]: }" = "$1" ] || { echo "of '$2' should be said '$1', is '$found'"; exit 1; }
    }
    bites '' 'f.c\tc = b;\tc = a;\tunit.core unit.cuda_kernels unit.cuda_backend_ops'
    bites '' 'f.c\tc = b;\t\tunit.core\tunit.core: why'
    bites 'must be FILE OLD NEW TESTS [ADDED]' 'f.c\tc = b;\tc = a;'
    bites 'must be FILE OLD NEW TESTS [ADDED]' 'f.c\tc = b;\tc = b;\tunit.core'
    bites 'stands there twice' 'f.c\tc = b;\ta\tunit.core\nf.c\tc = b;\ta\tunit.core'
    bites 'f.c has 2 places with: = b' 'f.c\t= b\t= a\tunit.core'
    bites 'f.c has 0 places with: d' 'f.c\td\te\tunit.core'
    bites 'g.c has 0 places with: d' 'g.c\td\te\tunit.core'
    bites 'no test is called unit.cor' 'f.c\tc = b;\ta\tunit.core unit.cor'
    bites 'no test is called unit.cuda_backend_op' 'f.c\tc = b;\ta\tunit.cuda_backend_op'
    found=$(misfits "$table" "$root")
    [ -z "$found" ] || { echo "$found"; exit 1; }
    echo "$(wc -l <"$table") mistakes, each of which can be planted"
}

case ${1-} in
--check) check; exit ;;
-*) sed -n 's/^# \(usage:.*\)/\1/p; s/^#\(        tests.*\)/\1/p' "$0" >&2; exit 2 ;;
esac

# ---- one build ----

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
clone=$work/dawn9 build=$work/dawn9/build
began=$(date +%s)
export CCACHE_BASEDIR="$work" CCACHE_NOHASHDIR=1 OMP_WAIT_POLICY=passive
ulimit -v 16777216 # a mistake may ask for any amount of memory
git clone -q "$root" "$clone"
found=$(misfits "$table" "$clone")
[ -z "$found" ] || { echo "$found"; exit 1; }
cmake -G Ninja -S "$clone" -B "$build" -DDAWN9_TESTS=ON -DDAWN9_CUDA=OFF \
    $(command -v ccache >/dev/null && echo -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache) \
    >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# "TEST FILE...": the files of the build that its command line names. ctest itself does not tell before they are there.
find "$build" -name CTestTestfile.cmake -exec sed -n 's/^add_test(\[=\[\(.*\)\]=\]/\1/p' {} + | tr -d '")' |
    awk -v build="$build/" '{
        printf "%s", $1
        for (i = 2; i <= NF; i++) if (index($i, build) == 1) printf " %s", substr($i, length(build) + 1)
        print ""
    }' >"$work/tests"
make_for() { # TEST
    ninja -C "$build" $(awk -v test="$1" '$1 == test { $1 = ""; print }' "$work/tests") >"$work/log" 2>&1
}
# An endless loop is a failure: none of these tests takes so long.
runs() { timeout 240 ctest --test-dir "$build" -R "^$(echo "$1" | sed 's/\./[.]/')\$" >"$work/log" 2>&1; }

lines=${*:-$(seq "$(wc -l <"$table")")}

# A test that fails as it is, or does not run here, tells nothing.
for test in $(for line in $lines; do field "$line" 4; done | tr ' ' '\n' | sort -u); do
    make_for "$test" && runs "$test" && ! grep -q Skipped "$work/log" ||
        { tail -30 "$work/log"; echo "$test does not pass here without a mistake"; exit 1; }
done
echo "the tests pass without a mistake ($(($(date +%s) - began)) s)"

# ---- the mistakes ----

plant() { # FILE OLD NEW
    LC_ALL=C OLD=$2 NEW=$3 awk '{
        at = index($0, ENVIRON["OLD"])
        print at ? substr($0, 1, at - 1) ENVIRON["NEW"] substr($0, at + length(ENVIRON["OLD"])) : $0
    }' "$clone/$1" >"$work/planted" && cat "$work/planted" >"$clone/$1"
}

# Who noticed line LINE's mistake: "killed by TEST", "SURVIVED" or "does not compile".
judge() { # LINE
    for test in $(field "$1" 4); do
        make_for "$test" || { echo "does not compile"; return; }
        runs "$test" || { echo "killed by $test"; return; }
    done
    echo SURVIVED
}

killed=0 survived=0 broken=0
: >"$work/rows"
for line in $lines; do
    file=$(field "$line" 1)
    from=$(date +%s)
    plant "$file" "$(field "$line" 2)" "$(field "$line" 3)"
    verdict=$(judge "$line")
    git -C "$clone" checkout -q -- "$file"
    seconds=$(($(date +%s) - from))
    case $verdict in
    killed*) killed=$((killed + 1)) ;;
    SURVIVED) survived=$((survived + 1)) ;;
    *) broken=$((broken + 1)) ;;
    esac
    printf '%s\n' "$line: $verdict ($seconds s): $file: $(field "$line" 2) -> $(field "$line" 3)"
    printf '%s\t%s\t%s\n' "$line" "$verdict" "$seconds" >>"$work/rows"
done
total="$killed killed, $survived survived, $broken do not compile"
echo "$total ($(($(date +%s) - began)) s)"

# ---- the table ----

if [ $# = 0 ]; then
    cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -1)
    {
        echo '# Planted mistakes, and which test notices each'
        echo
        echo "\`tests/mutate.sh\` at $(git -C "$clone" rev-parse --short HEAD), $(nproc) cores of ${cpu:-$(uname -m)}:"
        echo "$total, $(($(date +%s) - began)) s."
        echo
        echo '| file | mistake | | killed by | s | nothing noticed it until there was |'
        echo '|---|---|---|---|---|---|'
        awk -F '\t' '
function code(text) { gsub(/[|]/, "\\|", text); return text == "" ? "" : "`" text "`" }
NR == FNR { verdict[$1] = $2; seconds[$1] = $3; next }
{
    sub(/^killed by /, "", verdict[FNR])
    print "| " $1 " | " code($2) " | " code($3) " | " verdict[FNR] " | " seconds[FNR] " | " $5 " |"
}' "$work/rows" "$table"
    } >"$root/tests/mutations.md"
fi
[ "$survived$broken" = 00 ]
