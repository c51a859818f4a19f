# dawn9 train on several processes: in f64 they compute what one computes, twice the same bits; a run goes on with
# another number of them; a signal or a failure of one ends all.
. "$(dirname "$0")/lib.sh"
command -v mpirun >/dev/null 2>&1 || skips mpi "mpirun is not installed"
[ -e "$(dirname "$dawn9")/dawn9-mpi.so" ] || skips mpi "this build has no MPI"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS-}" # MPI's
processes() { # N COMMAND...
    _count=$1
    shift
    timeout 120 mpirun -np "$_count" --oversubscribe --bind-to none "$@"
}

# train N NAME CONFIG OPTION...: trains into the folder NAME on N processes.
train() {
    _count=$1 name=$2 _config=$3
    shift 3
    set -- "$dawn9" train "$_config" --out "$name" --quiet "$@"
    [ "$_count" = 1 ] || set -- processes "$_count" "$@"
    accepts "$@"
}

# same A B [MOST]: the parameters of two runs differ by at most 1e-10, or not at all; so do the losses.
cat >same.py <<'PYTHON'
import json, sys
from tensorfile import read
a, b = (read(run + "/checkpoint.safetensors")[1] for run in sys.argv[1:3])
assert a.keys() == b.keys(), a.keys() ^ b.keys()
count = 0
for name in a:
    if name.split("/")[0] in ("epochs", "timeline"):
        continue
    assert a[name][0] == b[name][0], name
    for x, y in zip(a[name][1], b[name][1]):
        count += 1
        assert abs(x - y) <= float(sys.argv[3]) * max(1, abs(x)), f"{name}: {x} and {y}"
for x, y in zip(*([json.loads(line) for line in open(run + "/events.jsonl")] for run in sys.argv[1:3])):
    for key in x.keys() - {"seconds", "images_per_second", "hours"}:
        assert abs(x[key] - y[key]) <= 1e-8 * max(1, abs(x[key])), (key, x, y)
assert count > 1000
a, b = (read(run + "/predictions.safetensors")[1] for run in sys.argv[1:3])
assert a.keys() == b.keys() and all(abs(x - y) < 1e-5 for name in a for x, y in zip(a[name][1], b[name][1]))
PYTHON
same() {
    checks=$((checks + 1))
    python3 same.py "$1" "$2" "${3-1e-10}" 2>"$err" || fail "$1 and $2: $(tail -n 1 "$err")"
}
bits() { json "$1/result.json" "d['params_sha256'] == json.load(open('$2/result.json'))['params_sha256']"; }

# ---- one function on 1, 2 and 4 processes, in f64 ----
sized() { # 12 steps, and an evaluation that the processes do not divide
    sed 's/precision: f32/precision: f64/; s/epochs: [0-9]*/epochs: 3/; s/synthetic_test: 64/synthetic_test: 61/; $a keep: all'
}
network_files
dawn94_file
text_files
sed -i '/^train/s/}$/, bias_lr_multiplier: 2}/; s/name: sentiment/&, layers: 2/' sentiment.yaml
tiny >resnet9.yaml
sed -i 's/name: vgg/&, dropout: [0.25, 0.25, 0.5], dropout_in_evaluation: on/' vgg.yaml
sed -i '/^tricks/s/}$/, muon: {}, lookahead: {}}/' air.yaml
sed -i '/^train/s/batch_size/optimizer: adamw, momentum: 0.9, epsilon: 1.0e-3, &/; /^tricks/s/}$/, clip_norm: {most: 0.1}, batch_schedule: {batches: [2]}}/' basic.yaml
sed -i '/^tricks/s/}$/, freeze: {}}/' bottleneck.yaml
mkdir corpus && for part in train valid test; do
    awk -v seed=${#part} 'BEGIN { srand(seed); for (i = 0; i < 400; i++) printf " word%d%s", 20 * rand(), i % 7 ? "" : " \n" }' >corpus/$part.txt
done
cat >language.yaml <<'YAML'
target: 4
backend: reference
threads: 1
precision: f32
model: {name: language, cell: lstm, layers: 2, embedding: 8, hidden: 9, dropout: 0.1}
data: {dataset: corpus, path: corpus, length: 7}
eval: {streams: 3}
train: {epochs: 2, batch_size: 4, optimizer: sgd, momentum: 0, momentum_form: plain, weight_decay: 0, lr: {knots: [0], values: [1]}}
tricks: {clip_norm: {most: 0.25}}
YAML
sed -i 's/dataset: text/&, path: texts/' sentiment.yaml
for file in resnet9 dawn94 sentiment language $networks; do
    sized <$file.yaml >$file.wide.yaml
    train 1 $file.1 $file.wide.yaml --set train.norm_groups=4
    train 4 $file.4 $file.wide.yaml
    same $file.1 $file.4
done

# ---- two processes: the same bits twice and with other threads, and after an interrupt of one within an epoch ----
tiny | sed 's/^tricks: {/&ema: {momentum: 0.9, every: 2}, /; $a keep: all' >tiny.yaml
for backend in $(cpu_backends); do
    train 2 $backend.1 tiny.yaml --backend $backend --set precision=auto --threads 1
    train 2 $backend.2 tiny.yaml --backend $backend --set precision=auto --threads 2
    bits $backend.1 $backend.2
done

# stop SIGNAL PROCESS CONFIG: trains into the folder `stopped` on two processes, and sends a signal to one within an epoch.
cat >report_pid.sh <<'SH'
echo $$ >pid.$OMPI_COMM_WORLD_RANK
exec "$@"
SH
stop() {
    rm -rf stopped pid.*
    processes 2 sh report_pid.sh "$dawn9" train "$3" --out stopped --quiet  >"$out" 2>"$err" &
    child=$!
    until_written stopped/events.jsonl $child
    sleep 0.3
    started=$(date +%s)
    kill -s "$1" "$(cat "pid.$2")"
    wait $child
    status=$?
    [ $(($(date +%s) - started)) -le 10 ] || fail "signal $1 to process $2: the others end after more than 10 s"
}
sed -i 's/f32/f64/; s/0.4, 0/0.02, 0/; s/epochs: 2/epochs: 40/' tiny.yaml # small steps, or rounding grows
train 2 whole tiny.yaml
stop TERM 1 tiny.yaml
[ $status = 143 ] || fail "status $status, 143 expected"
grep -q '^dawn9: interrupted before step .*--resume' "$err" || fail "no reason"
cp -r stopped stopped.1
train 2 stopped tiny.yaml --resume
bits whole stopped
# A checkpoint goes on with another number of processes, which must divide the groups.
train 1 stopped.1 tiny.yaml --resume
same whole stopped.1 1e-6
stop TERM 0 tiny.yaml
train 1 stopped tiny.yaml --resume
same whole stopped 1e-6

# ---- a process that fails ends all, with its reason and its status ----
stop KILL 1 tiny.yaml
[ $status = 137 ] || fail "status $status, 137 expected"
# together STATUS WORDS APP [: APP]: mpirun with one process for each APP; one line says the words, within 10 s.
together() {
    _expected=$1 _words=$2
    shift 2
    started=$(date +%s)
    observe timeout 60 mpirun -q --oversubscribe --bind-to none "$@"
    [ $(($(date +%s) - started)) -le 10 ] || fail "ends after more than 10 s: $*"
    [ $status = "$_expected" ] || fail "status $status, $_expected expected: $*"
    [ "$(grep -c '^dawn9: ' "$err")" = 1 ] || fail "$(grep -c '^dawn9: ' "$err") lines with a reason: $*"
    for _word in $_words; do grep '^dawn9: ' "$err" | grep -q -- "$_word" || fail "no '$_word': $*"; done
}
one="-np 1 $dawn9 train tiny.yaml --out bad --quiet --overwrite"
two="-np 2 ${one#-np 1}" four="-np 4 ${one#-np 1}"
sed 's/0.02, 0/0.03, 0/' tiny.yaml >other.yaml
together 2 'process.1 seed' $one : $one --seed 7
together 2 'process.1 configuration' $one : $(echo "$one" | sed s/tiny/other/)
together 3 nowhere $(echo "$one" | sed s/tiny/sentiment/) : $(echo "$one" | sed s/tiny/sentiment/) --data nowhere
together 5 finite $two --lr 1e6 --set precision=f32
together 6 /proc/bad $two --save-plan /proc/bad
together 2 'unknown bogus' $two --set train.bogus=1
together 2 'batch_size 30 4' $four --batch-size 30
together 2 'mixup 2' $two --with mixup
together 2 'norm_groups 3 2' $two --set train.norm_groups=3 --batch-size 48
together 2 'ghost_batchnorm 32 16' $two --with ghost_batchnorm:group_size=32

# ---- no MPI, or no launcher of this MPI ----
cp "$dawn9" alone
ends 4 'dawn9-mpi.so libopenmpi-dev' env OMPI_COMM_WORLD_SIZE=2 ./alone train tiny.yaml --out bad
ends 4 '2 1 mpirun' env PMI_SIZE=2 "$dawn9" train tiny.yaml --out bad
ends 4 '2 srun pmix' env SLURM_STEP_NUM_TASKS=2 "$dawn9" train tiny.yaml --out bad
accepts env PMI_SIZE=1 SLURM_STEP_NUM_TASKS=1 ./alone train tiny.yaml --out bad --quiet --overwrite --epochs 1
verdict
