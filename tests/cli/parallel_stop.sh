# dawn9 train on two processes: the same bits twice, after an interrupt of one, and with other threads; a run goes on with
# another number of processes; one that fails ends all.
. "$(dirname "$0")/lib.sh"
needs_mpi
bits() { json "$1/result.json" "d['params_sha256'] == json.load(open('$2/result.json'))['params_sha256']"; }

# ---- two processes: the same bits twice and with other threads, and after an interrupt of one within an epoch ----
tiny | sed 's/^tricks: {/&ema: {momentum: 0.9, every: 2}, /; $a keep: all' >tiny.yaml
train_on 2 cpu.1 tiny.yaml --backend cpu --threads 1
runs processes 2 "$dawn9" train tiny.yaml --out cpu.2 --quiet --backend cpu --threads 2
bits cpu.1 cpu.2

# stop SIGNAL PROCESS CONFIG: trains into the folder `stopped` on two processes, and sends a signal to one within an epoch.
cat >report_pid.sh <<'SH'
echo $$ >pid.$OMPI_COMM_WORLD_RANK
exec "$@"
SH
stop() {
    rm -rf stopped pid.*
    processes 2 sh report_pid.sh "$dawn9" train "$3" --out stopped --quiet >"$out" 2>"$err" &
    child=$!
    until_written stopped/events.jsonl $child
    started=$(date +%s)
    kill -s "$1" "$(cat "pid.$2")"
    wait $child
    status=$?
    [ $(($(date +%s) - started)) -le 60 ] || fail "signal $1 to process $2: the others end after more than a minute"
}
sed -i 's/f32/f64/; s/0.4, 0/0.02, 0/; s/epochs: 2/epochs: 10/; s/synthetic_train: 128/synthetic_train: 512/' tiny.yaml # small steps, or rounding grows
train_on 2 whole tiny.yaml
stop TERM 1 tiny.yaml
[ $status = 143 ] || fail "status $status, 143 expected"
grep -q '^dawn9: interrupted before step .*continues: mpirun --bind-to none -np 2 .*dawn9 train .*--resume' "$err" || fail "no reason"
cp -r stopped stopped.1
train_on 2 stopped tiny.yaml --resume
bits whole stopped
# A checkpoint goes on with another number of processes, which must divide the groups.
train_on 1 stopped.1 tiny.yaml --resume
same_state whole stopped.1 1e-6
# A finished run is left alone, also where the other process sees no record of it.
mkdir elsewhere && cp tiny.yaml elsewhere
set -- "$dawn9" train tiny.yaml --out whole --resume
runs timeout 60 mpirun -q --oversubscribe --bind-to none -np 1 "$@" : -np 1 -wdir "$PWD/elsewhere" "$@"
grep -q 'finished   before' "$out" || fail "process 0 does not decide about --resume"
[ ! -e elsewhere/whole ] || fail "process 1 has a record"
stop TERM 0 tiny.yaml
train_on 1 stopped tiny.yaml --resume
same_state whole stopped 1e-6

# ---- a process that fails ends all, with its reason and its status ----
stop KILL 1 tiny.yaml
[ $status = 137 ] || fail "status $status, 137 expected"
# together STATUS WORDS APP [: APP]: mpirun with one process for each APP; one line says the words, within a minute.
together() {
    _expected=$1 _words=$2
    shift 2
    observe timeout 60 mpirun -q --oversubscribe --bind-to none "$@"
    [ $status = "$_expected" ] || fail "status $status, $_expected expected: $*"
    sed -i '/^dawn9: /!d; /^dawn9: warning: threads/d' "$err" # the rest is mpirun's
    [ "$(wc -l <"$err")" = 1 ] || fail "$(wc -l <"$err") lines with a reason: $*"
    for _word in $_words; do grep -q -- "$_word" "$err" || fail "no '$_word': $*"; done
}
text_files
sed -i 's/dataset: text/&, path: texts/' sentiment.yaml
one="-np 1 $dawn9 train tiny.yaml --out bad --quiet --overwrite"
two="-np 2 ${one#-np 1}" four="-np 4 ${one#-np 1}"
sed 's/0.02, 0/0.03, 0/' tiny.yaml >other.yaml
together 2 'process.1 seed' $one : $one --seed 7
together 2 'process.1 train.lr' $one : $(echo "$one" | sed s/tiny/other/)
together 2 'process.1 eval.every:.2' $one : $one --set eval.every=2
together 2 'process.1 train.norm_groups:.4' $one : $one --set train.norm_groups=4
together 2 'process.1 --resume:.1 .0:' ${one%--overwrite} : ${one%--overwrite} --resume
together 2 'process.1 --runs:' $one : $one --runs 2
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
