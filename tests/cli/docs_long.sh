# Executes the pages' blocks (tests/docs.py, `run` and `long`), after docs.py has found mistakes planted in pages.
# usage: sh docs_long.sh DAWN9 SOURCE
set -eu
python3 "$2/tests/docs.py" prove
python3 "$2/tests/docs.py" run "$2" "$1"
python3 "$2/tests/docs.py" long "$2" "$1"
