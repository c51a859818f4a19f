# Checks the pages without executing their blocks: pictures, pages of tricks, words and links (tests/docs.py), measured
# numbers, and the record of the last --long run. With `long`: executes the blocks (tests/docs.py, `run` and `long`), after
# docs.py has found mistakes planted in pages.
# usage: sh docs.sh DAWN9 SOURCE [long]
set -eu
if [ "${3-}" = long ]; then
    python3 "$2/tests/docs.py" prove
    python3 "$2/tests/docs.py" run "$2" "$1"
    python3 "$2/tests/docs.py" long "$2" "$1"
    exit
fi
drawn=$(mktemp -d -t dawn9-docs.XXXXXX)
trap 'rm -rf "$drawn"' EXIT

python3 "$2/docs/tricks/draw.py" "$drawn"
for picture in "$drawn"/*.svg; do
    cmp "$picture" "$2/docs/tricks/${picture##*/}" || exit 1
done
# Every trick has a page, with a row for each of its options.
for trick in $(sed -n 's/^D9_TRICK(\(.*\))$/\1/p' "$2/tricks/tricks.def"); do
    page=$2/docs/tricks/$trick.md
    [ -f "$page" ] && grep -q "($trick.md)" "$2/docs/tricks/README.md" || { echo "FAILED: no page of $trick"; exit 1; }
    for option in $(sed -n 's/.*{"\([a-z_]*\)", D9_OPTION_.*/\1/p' "$2/tricks/$trick.c"); do
        grep -q "^| \`$option\` |" "$page" || { echo "FAILED: $page lacks the option $option"; exit 1; }
    done
done
python3 "$2/tests/docs.py" look "$2" "$1"
# Measured numbers on the pages follow from committed records.
python3 "$2/docs/figures.py" prove
python3 "$2/docs/figures.py" check

# docs/correctness.md names the commit of the last complete run of tests/run.sh --long, an ancestor of HEAD, or says that
# none is recorded.
page=$2/docs/correctness.md
last=$(sed -n 's/^Last complete run of `tests\/run.sh --long`: //p' "$page")
commit=$(echo "$last" | sed -En 's/^commit ([0-9a-f]{12}), [0-9]{4}-[0-9]{2}-[0-9]{2}: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped\.$/\1/p')
if [ "$last" != 'none is recorded.' ]; then
    [ -n "$commit" ] || { echo "FAILED: $page lacks the line of the last --long run"; exit 1; }
    [ ! -e "$2/.git" ] || git -C "$2" merge-base --is-ancestor "$commit" HEAD ||
        { echo "FAILED: $page: $commit is not an ancestor of HEAD"; exit 1; }
fi
