# Every measured number of a page follows from a committed record, and none stands there without one (docs/figures.py).
# usage: sh figures.sh DAWN9 SOURCE
set -eu
python3 "$2/docs/figures.py" prove
python3 "$2/docs/figures.py" check
