# dawn9 train on two processes: the same bits with another number of threads, and if one process was interrupted; a run
# resumes on another number of processes; a process that fails ends all.
. "$(dirname "$0")/lib.sh"
needs_mpi

# ---- two processes: the same bits with another number of threads ----
tiny | sed 's/^tricks: {/&ema: {momentum: 0.9, every: 2}, /; $a keep: all' >tiny.yaml
train_on 2 cpu.1 tiny.yaml --backend cpu --threads 1
runs processes 2 "$dawn9" train tiny.yaml --out cpu.2 --quiet --backend cpu --threads "$(nproc)"
[ "$(grep -c '^dawn9: warning: threads' "$err")" = 1 ] || fail "no warning of more threads than cores"
same_bits cpu.1 cpu.2

# ---- the sheet of augmented images shows the part of the batch that process 0 makes ----
train_on 1 half tiny.yaml --set train.batch_size=4 --set train.epochs=1 --tensorboard logs/1
train_on 2 whole_batch tiny.yaml --set train.batch_size=8 --set train.epochs=1 --tensorboard logs/2
asserts <<'PYTHON'
import glob
from tfevents import events
def sheet(folder):
    return next(e["values"]["augmentation"]["png"] for e in events(*glob.glob(folder + "/*")) if "augmentation" in e["values"])
assert sheet("logs/1") == sheet("logs/2")
PYTHON

# start CONFIG OPTION...: begins to train into the folder `stopped` on $count processes, and returns after the first
# epoch.
count=2
cat >report_pid.sh <<'SH'
echo $$ >pid.$OMPI_COMM_WORLD_RANK
exec "$@"
SH
start() {
    rm -rf stopped pid.*
    processes $count sh report_pid.sh "$dawn9" train "$@" --out stopped --quiet >"$out" 2>"$err" &
    child=$!
    until_written stopped/events.jsonl $child
}
# change COMMAND...: runs the command, such as kill, and waits for the processes, which must end within a minute.
change() {
    started=$(date +%s)
    "$@"
    wait $child
    status=$?
    [ $(($(date +%s) - started)) -le 60 ] || fail "the processes end more than a minute after $*"
}
# stop SIGNAL PROCESS CONFIG: starts the training and sends a signal to one of its processes.
stop() {
    start "$3"
    change kill -s "$1" "$(cat "pid.$2")"
}
# In f64 with a small learning rate, rounding differences stay small. More steps leave time to stop the run.
sed -i 's/f32/f64/; s/0.4, 0/0.02, 0/; s/epochs: 2/epochs: 6/; s/synthetic_train: 128/synthetic_train: 512/' tiny.yaml
train_on 2 whole tiny.yaml
stop TERM 1 tiny.yaml
[ $status = 143 ] || fail "status $status, 143 expected"
has "$err" '^dawn9: interrupted before step .*continues: mpirun --bind-to none -np 2 .*dawn9 train .*--resume'
cp -r stopped stopped.1
train_on 2 stopped tiny.yaml --resume
same_bits whole stopped
# A run resumes with another number of processes, with a warning: from two to one, and from one to two.
complains 0 'ranks 2 1' "$dawn9" train tiny.yaml --out stopped.1 --quiet --resume
same_state whole stopped.1 1e-6
count=1
start tiny.yaml --set train.norm_groups=2
change kill -s TERM "$(cat pid.0)"
[ $status = 143 ] || fail "status $status, 143 expected"
count=2
complains 0 'ranks 1 2' processes 2 "$dawn9" train tiny.yaml --out stopped --quiet --resume
same_state whole stopped 1e-6
record stopped 'd["ranks"] == 2'
# A finished run is left alone, also where the other process sees no record of it.
mkdir elsewhere && cp tiny.yaml elsewhere
set -- "$dawn9" train tiny.yaml --out whole --resume
runs timeout 60 mpirun -q --oversubscribe --bind-to none -np 1 "$@" : -np 1 -wdir "$PWD/elsewhere" "$@"
says 'finished   before'
[ ! -e elsewhere/whole ] || fail "process 1 has a record"
stop TERM 0 tiny.yaml
complains 0 'ranks 2 1' "$dawn9" train tiny.yaml --out stopped --quiet --resume
same_state whole stopped 1e-6

# ---- a process that fails ends all, with its reason and its status ----
stop KILL 1 tiny.yaml
[ $status = 137 ] || fail "status $status, 137 expected"
start tiny.yaml
change prlimit --pid "$(cat pid.0)" --fsize=1 # as if its disk were full
[ $status = 6 ] && [ "$(grep -c '^dawn9: .*stopped/events.jsonl' "$err")" = 1 ] || fail "a full disk: status $status"
train_on 2 stopped tiny.yaml --resume
same_bits whole stopped
# together STATUS WORDS APP [: APP]: mpirun of each APP (-np N COMMAND...) must end within a minute with this status and
# one line of dawn9 that contains the words. Runs in the background, four at a time; `bad` becomes a folder of its own.
number=0
together() {
    number=$((number + 1)) _expected=$1 _words=$2
    shift 2
    (
        for _word in "$@"; do
            [ "$_word" != bad ] || _word=bad$number
            set -- "$@" "$_word" && shift
        done
        out=$scratch/$number.out err=$scratch/$number.err failures=0
        export OMPI_MCA_orte_tmpdir_base="$scratch/mpi$number"
        mkdir "$OMPI_MCA_orte_tmpdir_base"
        observe timeout 60 mpirun -q --oversubscribe --bind-to none "$@"
        [ $status = "$_expected" ] || fail "status $status, $_expected expected: $*"
        sed -i '/^dawn9: /!d; /^dawn9: warning: threads/d' "$err" # leaves out the lines of mpirun and the warnings of threads
        lines_are 1 "$err"
        for _word in $_words; do grep -q -- "$_word" "$err" || fail "no '$_word': $*"; done
        [ $failures = 0 ] && : >"$scratch/$number.judged"
    ) &
    [ $((number % 4)) != 0 ] || wait
}
# Waits for the checks in the background; each that left no mark has failed.
judged() {
    wait
    checks=$((checks + number)) _passed=$(ls "$scratch"/*.judged | wc -l)
    [ "$_passed" = $number ] || failures=$((failures + number - _passed))
}
text_files
sed -i 's/dataset: text/&, path: texts/' sentiment.yaml
cp -r texts others && echo 'Another review.' >others/train/neg/0.txt
mkdir other && commit=$("$dawn9" --version | sed -n 's/.*(commit \([^,]*\),.*/\1/p') &&
    sed "s/$commit/$(echo "$commit" | tr 0-9a-f 1-9a-f0)/g" "$dawn9" >other/dawn9 && chmod +x other/dawn9 &&
    ln -s "$(dirname "$dawn9")/dawn9-mpi.so" other || fail "no program of another commit"
one="-np 1 $dawn9 train tiny.yaml --out bad --quiet --overwrite"
texts=$(echo "$one" | sed s/tiny/sentiment/) two="-np 2 ${one#-np 1}"
sed 's/0.02, 0/0.03, 0/' tiny.yaml >other.yaml
together 2 'process.1 seed' $one : $one --seed 7
together 2 'process.1 train.lr' $one : $(echo "$one" | sed s/tiny/other/)
together 2 'process.1 --resume:.1 .0:' ${one%--overwrite} : ${one%--overwrite} --resume
together 2 'process.1 --runs:' $one : $one --runs 2
together 2 'process.1 precision' $one : $one --set precision=f32
together 2 'process.1 backend:' $one --set precision=f32 : $one --set precision=f32 --backend cpu
together 2 'process.1 version.of.dawn9' $one : $(echo "$one" | sed "s| $dawn9 | $PWD/other/dawn9 |")
together 2 'process.1 digest.of.the.data' $texts : $texts --data others
together 2 'find-lr launcher' ${two%--overwrite} --find-lr
together 3 nowhere $texts : $texts --data nowhere
together 5 finite $two --lr 1e6 --set precision=f32
together 6 /proc/bad $two --save-plan /proc/bad
together 2 'unknown bogus' $two --set train.bogus=1
together 2 'ghost_batchnorm 32 16' $two --with ghost_batchnorm:group_size=32
judged
# Processes wait for one that SIGSTOP has stopped, and go on with it. Meanwhile no other run can use their folder.
start tiny.yaml
kill -s STOP "$(cat pid.1)"
sleep 0.5
before=$(wc -c <stopped/events.jsonl)
observe timeout 60 mpirun -q --oversubscribe --bind-to none $(echo "$two" | sed s/bad/stopped/)
[ $status = 2 ] || fail "status $status, 2 expected in a folder that is in use"
count_is 1 '^dawn9: .*stopped.*training in this folder' "$err"
[ "$(wc -c <stopped/events.jsonl)" = "$before" ] && kill -0 $child || fail "the others do not wait"
kill -s CONT "$(cat pid.1)"
wait $child || fail "status $? after a stop"
same_bits whole stopped

# ---- without dawn9-mpi.so; started by a launcher of another MPI ----
cp "$dawn9" alone
ends 4 'dawn9-mpi.so libopenmpi-dev' env OMPI_COMM_WORLD_SIZE=2 ./alone train tiny.yaml --out bad
ends 4 '2 1 mpirun' env PMI_SIZE=2 "$dawn9" train tiny.yaml --out bad
ends 4 '2 srun pmix' env SLURM_STEP_NUM_TASKS=2 "$dawn9" train tiny.yaml --out bad
accepts env PMI_SIZE=1 SLURM_STEP_NUM_TASKS=1 ./alone train tiny.yaml --out bad --quiet --overwrite --epochs 1
verdict
