# Beside other work the library trains in at most 1.3 times the command's time: from Python, and from C with
# the variables that docs/library.md names. Each round runs command, Python and C, in rotating order, under the same
# load; the median of the rounds' ratios counts. With threads that spin the library took 6 to 11 times as long.
. "$(dirname "$0")/lib.sh"
/usr/bin/python3 -c 'import numpy' 2>/dev/null || skips numpy "there is no Debian python3-numpy"
unset OMP_WAIT_POLICY GOMP_SPINCOUNT KMP_BLOCKTIME
export DAWN9_LIBRARY="$(dirname "$dawn9")/libdawn9.so" LC_ALL=C
cores=$(nproc)
tiny | sed "s/backend: .*/backend: cpu/; s/threads: 1/threads: $cores/; s/\[4, 4, 8, 8\]/[16, 16, 32, 32]/; s/epochs: 2/epochs: 40/" >busy.yaml
echo 'eval: {every: 0}' >>busy.yaml
accepts cc "$source/examples/train.c" -o train -I"$source/engine" "$DAWN9_LIBRARY" "-Wl,-rpath,$(dirname "$dawn9")"
cat >train.py <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[1] + "/tools")
import dawn9
print("train_seconds", dawn9.train("busy.yaml")[1]["train_seconds"])
PYTHON

busy=
i=0
while [ $i -lt "$cores" ]; do
    (while kill -0 $$ 2>/dev/null; do :; done) &
    busy="$busy $!" i=$((i + 1))
done
trap 'kill $busy; rm -rf "$scratch"' EXIT
by_command() {
    accepts "$dawn9" train busy.yaml --out run --overwrite --quiet
    command=$(sed -n 's/.*"train_seconds": \([0-9.]*\).*/\1/p' run/result.json)
}
by_python() {
    accepts /usr/bin/python3 train.py "$source"
    python=$(sed -n 's/.*train_seconds \([0-9.]*\).*/\1/p' "$out")
}
by_c() {
    accepts env OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=10000 ./train busy.yaml model.safetensors
    c=$(sed -n 's/.*train_seconds \([0-9.]*\).*/\1/p' "$out")
}
round=0
while [ $round -lt 15 ]; do
    case $((round % 3)) in
    0) by_command; by_python; by_c ;;
    1) by_python; by_c; by_command ;;
    2) by_c; by_command; by_python ;;
    esac
    awk "BEGIN { print $python / $command, $c / $command }" >>ratios
    round=$((round + 1))
done
for column in 1 2; do
    checks=$((checks + 1))
    median=$(cut -d' ' -f$column ratios | sort -g | sed -n 8p)
    echo "column $column: median $median of $(cut -d' ' -f$column ratios | tr '\n' ' ')"
    awk "BEGIN { exit !($median > 0 && $median <= 1.3) }" || fail "the library takes $median times the command's time"
done
verdict
