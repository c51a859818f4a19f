# dawn9 experiment --ranks: each run is trained by several processes, which a stub of Slurm's srun starts with mpirun.
. "$(dirname "$0")/lib.sh"
needs_mpi
tiny >tiny.yaml
printf 'title: pair\nconfig: tiny.yaml\nseeds: 1\nset: {train.norm_groups: 2}\narms: {both: {}, one: {without: [flip]}}\n' >pair.yaml
mkdir slurm && cat >slurm/srun <<'SH'
#!/bin/sh
echo "$@" >>srun.calls
until [ "$1" = --ntasks ]; do shift; done
count=$2
shift 2
exec mpirun -q --oversubscribe --bind-to none -np "$count" "$@"
SH
chmod +x slurm/srun
step() { env PATH="$PWD/slurm:$PATH" SLURM_JOB_ID=7 "$@"; }
accepts "$dawn9" experiment pair.yaml --out alone --quiet
accepts step "$dawn9" experiment --out steps --quiet --ranks 2 -- pair.yaml
[ "$(grep -c '^--mpi=pmix --kill-on-bad-exit=1 --ntasks 2 .*dawn9 experiment .* --run [01] -- pair.yaml' srun.calls)" = 2 ] || fail "srun was called: $(cat srun.calls)"
for arm in both one; do
    record steps/runs/$arm/seed1 "d['ranks'] == 2" \
        "abs(d['accuracy'] - result('alone/runs/$arm/seed1')['accuracy']) < 1e-9" \
        "d['config_hash'] == result('alone/runs/$arm/seed1')['config_hash']"
done
accepts "$dawn9" experiment pair.yaml --out steps --quiet
lines_are 2 srun.calls
rejects 2 '2 both norm_groups' "$dawn9" experiment pair.yaml --out bad2 --ranks 2 --set train.norm_groups=0
rejects 2 'both norm_groups 2 3' "$dawn9" experiment pair.yaml --out bad2 --ranks 3 --set train.batch_size=48
rejects 2 'both batch_size 32 3' "$dawn9" experiment pair.yaml --out bad2 --ranks 3 --set train.norm_groups=4
rejects 2 'both mixup' "$dawn9" experiment pair.yaml --out bad2 --ranks 2 --with mixup
rejects 4 'ranks no-such-launcher' "$dawn9" experiment pair.yaml --out bad2 --ranks 2 --launcher 'no-such-launcher -n'
accepts "$dawn9" experiment pair.yaml --out bad2 --ranks 2 --launcher 'no-such-launcher -n' --dry-run
rejects 2 'ranks workers' "$dawn9" experiment pair.yaml --out bad2 --ranks 2 --workers 2
observe step "$dawn9" experiment pair.yaml --out failed --quiet --ranks 2 --lr 1e6
[ $status = 5 ] && grep -q finite failed/runs/both/seed1/failure.json || fail "status $status, 5 expected"
accepts "$dawn9" experiment pair.yaml --out submitted --ranks 2 --slurm --requeue --pack 2 --tasks 1 --dry-run
says '^sbatch .*--array=1%1 --ntasks=2 --requeue .*--ranks 2 --pack 2 --shard'
eval "set -- $(cat "$out")"
for word in "$@"; do case $word in --wrap=*) echo "${word#--wrap=}" | bash -n || fail "no shell script: $word" ;; esac; done
sed -i 's/epochs: 2/epochs: 400/' tiny.yaml
env PATH="$PWD/slurm:$PATH" SLURM_JOB_ID=7 "$dawn9" experiment pair.yaml --out stopped.2 --quiet --ranks 2 2>"$err" &
child=$!
until_written stopped.2/runs/both/seed1/events.jsonl $child
kill -s USR1 $child
wait $child
status=$?
[ $status = 138 ] && [ -s stopped.2/runs/both/seed1/checkpoint.safetensors ] || fail "status $status, 138 and a checkpoint expected"
verdict
