# The pages: their `run` blocks are executed as a new user would, every block and link is looked at (tests/docs.py), and
# the drawn pictures are drawn again. docs_long.sh executes the `long` blocks.
# usage: sh docs.sh DAWN9 SOURCE
set -eu
drawn=$(mktemp -d -t dawn9-docs.XXXXXX)
trap 'rm -rf "$drawn"' EXIT

python3 "$2/tests/docs.py" prove
python3 "$2/docs/tricks/draw.py" "$drawn"
for picture in "$drawn"/*.svg; do
    cmp "$picture" "$2/docs/tricks/${picture##*/}" || exit 1
done
# Every trick has a page, every option of it a row there.
for trick in $(sed -n 's/^D9_TRICK(\(.*\))$/\1/p' "$2/tricks/tricks.def"); do
    page=$2/docs/tricks/$trick.md
    [ -f "$page" ] && grep -q "($trick.md)" "$2/docs/tricks/README.md" || { echo "FAILED: no page of $trick"; exit 1; }
    for option in $(sed -n 's/.*{"\([a-z_]*\)", D9_OPTION_.*/\1/p' "$2/tricks/$trick.c"); do
        grep -q "^| \`$option\` |" "$page" || { echo "FAILED: $page lacks the option $option"; exit 1; }
    done
done
python3 "$2/tests/docs.py" run "$2" "$1"
