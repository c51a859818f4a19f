# The pages whose `long` blocks need minutes, executed from the first block to the last (tests/docs.py).
# usage: sh docs_long.sh DAWN9 SOURCE
set -eu
python3 "$2/tests/docs.py" long "$2" "$1"
