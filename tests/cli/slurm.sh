# dawn9 experiment --slurm on a real Slurm of one node, which this test starts (Debian: slurm-wlm, munge): an array task
# for each run; a killed worker, whose runs the same command submits again; several runs in a task; a task that Slurm
# starts again; a search; jobs that Slurm rejects.
. "$(dirname "$0")/lib.sh"
for program in munged slurmctld slurmd sbatch scontrol; do
    command -v $program >/dev/null 2>&1 && continue
    PATH=$PATH:/usr/sbin
    command -v $program >/dev/null 2>&1 || skips slurm "$program is not installed"
done
[ "$(id -u)" = 0 ] || skips root "a Slurm node needs it here"

# ---- one node ----
node=$(uname -n | cut -d. -f1)
port=$((20000 + $$ % 20000))
cluster=$scratch/cluster
mkdir -p "$cluster/state" "$cluster/spool"
chmod 755 "$scratch" "$cluster"
head -c 1024 /dev/urandom >"$cluster/key"
chmod 400 "$cluster/key"
cat >"$cluster/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$cluster/munge.socket
CredType=cred/munge
SlurmUser=root
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=5
SchedulerParameters=sched_interval=1,batch_sched_delay=0
NodeName=$node NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=$node Default=YES MaxTime=10:00 OverSubscribe=NO
CONF
export SLURM_CONF="$cluster/slurm.conf"
stop() {
    for daemon in slurmd slurmctld munged; do
        [ ! -s "$cluster/$daemon.pid" ] || kill "$(cat "$cluster/$daemon.pid")" 2>/dev/null
    done
    sleep 1
    rm -rf "$scratch"
}
trap stop EXIT
munged --force --key-file="$cluster/key" --socket="$cluster/munge.socket" --pid-file="$cluster/munged.pid" \
    --log-file="$cluster/munged.log" --seed-file="$cluster/munged.seed" >"$err" 2>&1 &&
    slurmctld -c >"$err" 2>&1 && slurmd -c -N "$node" >"$err" 2>&1 || { fail "Slurm does not start"; cat "$cluster"/*.log; verdict; }
until_holds() { # CONDITION: waits at most two minutes
    for _ in $(seq 600); do
        eval "$1" && return
        sleep 0.2
    done
    return 1
}
until_holds '[ "$(sinfo -h -o %t 2>/dev/null)" = idle ]' || { fail "the node is $(sinfo -h -o %t)"; tail -n 20 "$cluster"/*.log; verdict; }
wait_for_jobs() { until_holds '[ -z "$(squeue -h)" ]' || fail "jobs do not end: $(squeue -h)"; }

# ---- an array job ----
tiny | sed 's/epochs: 2/epochs: 1/; s/synthetic_train: 128/synthetic_train: 64/' >tiny.yaml
printf 'title: array\nconfig: tiny.yaml\nseeds: 2\narms: {both: {}, one: {without: [flip]}}\n' >array.yaml
accepts "$dawn9" experiment array.yaml --out calm --quiet
accepts "$dawn9" experiment array.yaml --out "it's 5% out" --slurm --sbatch --comment=hello
says '^submitted  job [0-9]+, 4 tasks \(1-4\)$'
wait_for_jobs
prints '^runs       4 of 4 done$' "$dawn9" experiment array.yaml --out "it's 5% out" --status
hashes() { (cd "$1" && grep -H params_sha256 runs/*/*/result.json); }
[ "$(hashes calm)" = "$(hashes "it's 5% out")" ] || fail "other numbers: $(hashes "it's 5% out")"
[ "$(ls "it's 5% out/slurm" | wc -l)" = 4 ] || fail "not an output for each task: $(ls "it's 5% out/slurm")"
prints "^no runs are left in it's 5% out\$" "$dawn9" experiment array.yaml --out "it's 5% out" --slurm

# ---- a worker is killed: the same command submits only its run ----
tiny | slower | sed 's/epochs: 2/epochs: 400/' >long.yaml
printf 'title: killed\nseeds: 1\ncheckpoint_every: 1\narms: {short: {config: tiny.yaml}, long: {config: long.yaml}}\n' >killed.yaml
accepts "$dawn9" experiment killed.yaml --slurm
until_holds '[ -s runs/killed/runs/long/seed1/events.jsonl ] && [ -f runs/killed/runs/short/seed1/result.json ]'
prints '^long +seed 1 +running$' "$dawn9" experiment killed.yaml --status
scancel --signal=KILL --full --state=RUNNING --user=root
wait_for_jobs
accepts "$dawn9" experiment killed.yaml --status --json
json "$out" '{r["arm"]: r["state"] for r in d["runs"]} == {"short": "done", "long": "stopped"}'
prints '^submitted  job [0-9]+, 1 task \(2\)$' "$dawn9" experiment killed.yaml --slurm
until_holds '[ -n "$(squeue -h --states=RUNNING)" ]'
sleep 1
scancel --signal=TERM --full --state=RUNNING --user=root # the program stops in good order
wait_for_jobs
prints '^long +seed 1 +stopped$' "$dawn9" experiment killed.yaml --status
grep -q 'interrupted: finished runs are kept' runs/killed/slurm/*_2.txt || fail "the stopped task does not say that its runs are kept"
[ -f runs/killed/runs/long/seed1/checkpoint.safetensors ] || fail "no checkpoint"

# ---- packs, a limit of tasks, and a task that is requeued before its time limit ----
prints '^submitted  job [0-9]+, 2 tasks \(1-2\)$' "$dawn9" experiment array.yaml --out packed --slurm --pack 2 --tasks 1
wait_for_jobs
prints '^runs       4 of 4 done$' "$dawn9" experiment array.yaml --out packed --status
[ "$(ls packed/slurm | wc -l)" = 2 ] || fail "not an output for each pack: $(ls packed/slurm)"
printf 'title: again\nconfig: long.yaml\nseeds: 4\ncheckpoint_every: 1\narms: {both: {}}\n' >again.yaml
accepts "$dawn9" experiment again.yaml --out again --slurm --requeue --pack 2
job=$(sed -n 's/^submitted  job \([0-9]*\),.*/\1/p' "$out")
until_holds '[ "$(find again/runs -name events.jsonl -size +0 2>/dev/null | wc -l)" = 4 ]' || fail "not every run is trained"
# The task whose job has the number of the whole array is warned, as Slurm does two minutes before the limit.
task=$(scontrol show job "$job" | sed -n "s/^JobId=$job ArrayJobId=$job ArrayTaskId=\([12]\) .*/\1/p")
[ -n "$task" ] || fail "no task has the number of the array: $(scontrol show job "$job")"
restarts() { scontrol show job "${job}_$1" | sed -n 's/.* Restarts=\([0-9]*\) .*/\1/p'; }
scancel --signal=USR1 --batch "${job}_$task"
until_holds '[ "$(restarts "$task")" = 1 ]' || fail "the task was not started again"
sleep 3
is "$(restarts $((3 - task)))" 0 "restarts of the other task"
[ "$(find again/runs -name checkpoint.safetensors | wc -l)" -ge 2 ] || fail "the task that comes again has no checkpoints"
scancel "$job"
wait_for_jobs

# ---- a search: its tasks share the trials ----
printf 'title: found\nconfig: tiny.yaml\nset: {eval.every: 0, data.validation: 16}\nsearch: {trials: 4, rungs: {seeds: [1]}, ranges: {train.momentum: {uniform: [0.4, 0.9]}}}\n' >found.yaml
prints '^submitted  job [0-9]+, 2 tasks \(1-2\)$' "$dawn9" experiment found.yaml --slurm --tasks 2
wait_for_jobs
prints '^work       0 runs left$' "$dawn9" experiment found.yaml --dry-run
is "$(find runs/found/runs -name result.json | wc -l)" 4 "trials that ran"
[ "$(ls runs/found/slurm | wc -l)" = 2 ] || fail "not an output for each task: $(ls runs/found/slurm)"

# ---- errors of submission ----
observe "$dawn9" experiment killed.yaml --slurm --sbatch=--partition=none
[ $status = 4 ] && grep -q '^dawn9: sbatch rejected the job' "$err" || fail "status $status: $(cat "$err")"
ends 4 'sbatch' env PATH=/nowhere "$dawn9" experiment killed.yaml --slurm
verdict
