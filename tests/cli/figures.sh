# Every measured number on a page follows from a committed record (docs/figures.py).
# usage: sh figures.sh DAWN9 SOURCE
set -eu
python3 "$2/docs/figures.py" prove
python3 "$2/docs/figures.py" check
