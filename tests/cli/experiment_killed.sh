# An experiment that is killed at random moments, up to ten, ends with exactly the requested runs and the numbers of an
# undisturbed one; an interrupted one resumes from its checkpoint. The seed of the moments is printed.
. "$(dirname "$0")/lib.sh"
tiny | sed 's/synthetic_train: 128/synthetic_train: 64/' >tiny.yaml
slower <tiny.yaml >slow.yaml
cat >six.yaml <<'YAML'
title: six
config: tiny.yaml
seeds: 3
checkpoint_every: 1
arms: {both: {}, one: {without: [flip]}}
YAML

hashes() { # DIR
    for run in "$1"/runs/*/*; do
        echo "${run#"$1"/} $(grep -h '"params_sha256"' "$run/result.json")"
    done
}
left_behind() { find "$1" -name lock -o -name '*.partial' -o -name 'checkpoint*' -o -name failure.json; }

started=$(date +%s%N)
accepts "$dawn9" experiment six.yaml --out calm --quiet
whole=$((($(date +%s%N) - started) / 1000000)) # milliseconds
[ $whole -le 6000 ] || whole=6000 # so that ten kills do not take minutes on a busy machine
hashes calm >calm.txt
lines_are 6 calm.txt

# Seconds to each kill: 0.02 and a random part of a quarter of the undisturbed time, so that ten kills reach all parts
# of the experiment.
seed=${DAWN9_KILL_SEED:-$(date +%s)}
echo "killing with DAWN9_KILL_SEED=$seed, $whole ms undisturbed"
awk -v seed="$seed" -v whole="$whole" 'BEGIN { srand(seed); for (i = 0; i < 10; i++) printf "%.3f\n", 0.02 + rand() * whole / 4000 }' >lives1
head -n 4 lives1 >lives2
for workers in 1 2; do
    disturbed=disturbed$workers
    for try in 1 2 3 4; do # again with shorter lives, if fewer than two kills came before the end
        kills=0
        rm -rf $disturbed
        while read -r life; do
            "$dawn9" experiment six.yaml --out $disturbed --quiet --workers $workers >"$out" 2>"$err" &
            child=$!
            sleep "$life"
            kill -KILL $child 2>/dev/null && kills=$((kills + 1))
            wait $child 2>/dev/null
        done <lives$workers
        [ $kills -lt 2 ] || break
        awk '{ print $1 / 3 }' lives$workers >shorter && mv shorter lives$workers
    done
    [ $kills -ge 2 ] || fail "only $kills kills found it alive"
    : >$disturbed/experiment.json.1.partial # planted, because few kills hit the moment of writing
    prints '^runs       6 of 6 done$' "$dawn9" experiment six.yaml --out $disturbed --workers $workers
    hashes $disturbed >disturbed.txt
    same calm.txt disturbed.txt "other runs or other numbers after $kills kills: $(diff calm.txt disturbed.txt)"
    [ -z "$(left_behind $disturbed)" ] || fail "left behind: $(left_behind $disturbed)"
    json $disturbed/experiment.json 'd == json.load(open("calm/experiment.json"))'
done

# ---- two at once: each run once ----
"$dawn9" experiment six.yaml --out both >first.txt 2>&1 &
child=$!
prints '^runs       6 of 6 done$' "$dawn9" experiment six.yaml --out both
wait $child || fail "the other one failed: $(cat first.txt)"
[ "$(cat "$out" first.txt | grep -c ' seed ')" = 6 ] || fail "not six runs together: $(cat "$out" first.txt)"
hashes both >disturbed.txt
same calm.txt disturbed.txt "two at once ended with other numbers"

# ---- a killed worker's run is taken over; if all are killed that is reported ----
# Two runs that are long enough to be caught after their first epoch.
sed '/checkpoint_every/d; s/title: six/title: two/; s/tiny/slow/; s/seeds: 3/seeds: 1/' six.yaml >two.yaml
echo 'set: {train.epochs: 30, eval.every: 0}' >>two.yaml
accepts "$dawn9" experiment two.yaml --out calm1 --quiet
hashes calm1 >calm1.txt
workers_of() { grep -l "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status 2>/dev/null | cut -d/ -f3; }
begin_two() { # DIR: starts two workers; stops them and the command before a run ends; status 1: five tries were late
    for try in 1 2 3 4 5; do # again if a run ended first, on a busy machine
        rm -rf "$1"
        setsid "$dawn9" experiment two.yaml --out "$1" --workers 2 --quiet &
        child=$!
        until_written "$1/runs/both/seed1/events.jsonl" $child
        kill -s STOP -- -$child 2>/dev/null
        workers=$(workers_of $child)
        [ "$(echo "$workers" | wc -l)" = 2 ] && [ -z "$(find "$1" -name result.json)" ] && return
        kill -s KILL -- -$child 2>/dev/null
        wait $child 2>/dev/null
    done
    return 1
}
kill_workers() { # DIR N: kills N of the two workers, and lets the rest and the command go on
    begin_two "$1" || return
    kill -KILL $(echo "$workers" | head -n "$2")
    kill -s CONT -- -$child
    wait $child
}
prints '^runs       2 of 2 done$' kill_workers one_less 1
observe kill_workers none_left 2
[ $status = 4 ] && grep -q '^dawn9: all workers were killed .*repeat the command' "$err" || fail "status $status: $(cat "$err")"
accepts "$dawn9" experiment two.yaml --out none_left --quiet
for folder in one_less none_left; do
    hashes $folder >disturbed.txt
    same calm1.txt disturbed.txt "killed workers changed numbers: $(diff calm1.txt disturbed.txt)"
done

# ---- the command is killed: its workers end as if they were interrupted ----
orphan() { # kills the command and waits until its workers have ended; status 1: the first run had reached its end
    begin_two orphans 2>/dev/null || { fail "no try stopped two workers in time"; verdict; }
    kill -KILL $child
    kill -s CONT -- -$child
    wait $child 2>/dev/null
    pauses=0 left=$workers
    while [ -n "$left" ] && [ $pauses -lt 300 ]; do
        sleep 0.1
        pauses=$((pauses + 1)) left=
        for worker in $workers; do # a zombie has ended
            grep -q '^State:[[:space:]]*[^Z]' "/proc/$worker/status" 2>/dev/null && left="$left $worker"
        done
    done
    [ -n "$workers" ] && [ -z "$left" ] || fail "workers outlive the command that was killed: $left of $workers"
    [ ! -e orphans/runs/both/seed1/result.json ]
}
# On a busy machine the run may have been in its last step, once or twice, but not each time.
orphan || orphan || orphan || fail "a worker trained on to the end when its parent was killed"
[ -f orphans/runs/both/seed1/checkpoint.safetensors ] || fail "a worker whose parent was killed left no checkpoint"
accepts "$dawn9" experiment two.yaml --out orphans --quiet
hashes orphans >disturbed.txt
same calm1.txt disturbed.txt "a killed command changed numbers"

# ---- Ctrl-C reaches the workers once ----
typed() { # so many epochs that no run has ended when the other has written its first
    setsid "$dawn9" experiment two.yaml --out typed --quiet --workers 2 --set train.epochs=1000 &
    child=$!
    until_written typed/runs/both/seed1/events.jsonl $child
    until_written typed/runs/one/seed1/events.jsonl $child
    kill -s INT -- -$child
    wait $child
}
ends 130 'interrupted' typed
for arm in both one; do
    [ -f typed/runs/$arm/seed1/checkpoint.safetensors ] || fail "$arm: a worker left no checkpoint after Ctrl-C"
done

# ---- interrupts ----
interrupted() { # SIGNAL DIR OPTION...
    signal=$1 folder=$2
    shift 2
    signalled $signal $folder/runs/both/seed1/events.jsonl "$dawn9" experiment two.yaml --out $folder --quiet "$@"
}
ends 130 'interrupted' interrupted INT stopped --workers 1
prints ' stopped$' "$dawn9" experiment two.yaml --out stopped --status
accepts "$dawn9" experiment two.yaml --out stopped --quiet
hashes stopped >disturbed.txt
same calm1.txt disturbed.txt "the interrupted experiment ended with other numbers"
[ -z "$(left_behind stopped)" ] || fail "left behind: $(left_behind stopped)"
cat stopped/runs/*/seed1/result.json >results.txt
has results.txt '"resumed": true'
ends 143 'interrupted' interrupted TERM stopped2 --workers 2 --set train.epochs=1000
ends 129 'interrupted' interrupted HUP stopped3 --workers 2 --set train.epochs=1000
for folder in stopped2 stopped3; do
    [ -f $folder/runs/both/seed1/checkpoint.safetensors ] || fail "$folder: a worker left no checkpoint"
done
verdict
