#!/bin/sh
# What the tests that docs/guarantees.md names count themselves: a line a test, NAME, number, of what.
#
# usage: tests/counts.sh BUILD [NAME...] >counts.new    then: mv counts.new tests/counts.tsv; docs/figures.py write
# With names only those count anew. A test's own lines `counted: 12 faults` come first and are added up, then the checks
# of a script (tests/cli/lib.sh), then cmocka's tests. What is skipped here, or fails, keeps its old line; a test that
# fails is named. All of them take ten minutes.
set -eu
[ $# -ge 1 ] || { sed -n '4p' "$0"; exit 2; }
source=$(cd "$(dirname "$0")/.." && pwd)
said=$(mktemp)
trap 'rm -f "$said"' EXIT

build=$1
shift
old=$(cat "$source/tests/counts.tsv" 2>/dev/null || :)
for name in $(grep -o '`\(unit\|cli\|cifar10\|fuzz\)\.[a-z0-9_]*`' "$source/docs/guarantees.md" | tr -d '`' | LC_ALL=C sort -u); do
    case " $* " in
    "  " | *" $name "*) ;;
    *)
        printf '%s\n' "$old" | grep "^$name	" || :
        continue
        ;;
    esac
    ctest --test-dir "$build" -R "^$name\$" -V >"$said" 2>&1 || {
        echo "$name failed" >&2
        : >"$said"
    }
    counted=$(sed -En 's/^[0-9]+: (.*)$/\1/p' "$said" | sed -En \
        -e 's/^counted: ([0-9]+) (.*)$/1\t\1\t\2/p' \
        -e 's/^([0-9]+) checks, 0 failed$/2\t\1\tchecks/p' \
        -e 's/^([0-9]+) planted pages told apart$/3\t\1\tplanted pages/p' \
        -e 's/^\[  PASSED  \] ([0-9]+) test\(s\)\.$/4\t\1\ttests/p' | LC_ALL=C sort |
        awk -F '\t' 'NR == 1 { first = $1; what = $3 } $1 == first { sum += $2 } END { if (NR) print sum "\t" what }')
    if [ -n "$counted" ]; then
        printf '%s\t%s\n' "$name" "$counted"
    else
        printf '%s\n' "$old" | grep "^$name	" || :
    fi
done
