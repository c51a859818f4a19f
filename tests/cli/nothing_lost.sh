# The files in a folder are not lost: by a second dawn9 train, by two at once, by a signal, by a model that cannot be
# written, or by an output that is also an input.
. "$(dirname "$0")/lib.sh"
tiny >tiny.yaml
# long.yaml has 4,000 steps, too many to end before it is stopped. evaluates.yaml evaluates 8,000 images every 2 steps.
{ tiny | slower | sed 's/synthetic_train: 128/synthetic_train: 64/; s/epochs: 2/epochs: 2000/'; echo 'eval: {every: 0}'; } >long.yaml
{ tiny | slower | sed 's/synthetic_train: 128/synthetic_train: 64/; s/synthetic_test: 64/synthetic_test: 8000/'; } >evaluates.yaml

# begin_run FOLDER COMMAND...: starts the command in the background, and waits until its run in the folder has trained an
# epoch
begin_run() {
    folder=$1
    shift
    begin "$folder/events.jsonl" "$@" >"$scratch/first.out" 2>"$scratch/first.err"
    [ -s "$folder/events.jsonl" ] || fail "$folder: no epoch was trained: $(cat "$scratch/first.err")"
}
finish() { # waits for the command that `begin_run` started; returns its status, and prints its messages
    wait $child
    code=$?
    cat "$scratch/first.err" >&2
    return $code
}
unchanged() { # FOLDER: fails if it differs from its earlier copy, FOLDER.before
    diff -r "$1" "$1.before" >"$err" 2>&1 || fail "$1 was touched"
}

# ---- a second SIGTERM, 30 seconds after the first, ends a run at once (judged at the end of this script) ----
sed 's/\[4, 4, 8, 8\]/[128, 128, 256, 256]/' long.yaml >steps.yaml # slow steps
second_sigterm() { # the process is stopped meanwhile, so that it cannot finish its step however fast the machine is
    "$dawn9" train steps.yaml --out "$scratch/second" --quiet & # outside the folder whose files are compared
    child=$!
    until [ -s "$scratch/second/config.yaml" ] || ! kill -0 $child; do sleep 0.02; done
    sleep 1 # the first step has begun
    kill -TERM $child && sleep 0.1 && kill -STOP $child && sleep 30 && kill -TERM $child && kill -CONT $child
    wait $child
}
second_sigterm 2>"$scratch/second.err" &
second=$!

# ---- a finished run ----
accepts "$dawn9" train tiny.yaml --out run --quiet
cp -r run run.before
rejects 2 'run --resume --overwrite --out' "$dawn9" train tiny.yaml --out run
rejects 2 'run 1 2 --overwrite' "$dawn9" train tiny.yaml --out run --seed 2
rejects 2 'seed' "$dawn9" train tiny.yaml --out run --seed 2 --resume
rejects 2 'run run/config.yaml train.epochs 2 3' "$dawn9" train tiny.yaml --out run --set train.epochs=3 --resume
rejects 2 'tricks.flip_tta' "$dawn9" train tiny.yaml --out run --without flip_tta
rejects 2 'tricks.cutout' "$dawn9" train tiny.yaml --out run --with cutout:size=4
rejects 2 '--overwrite' "$dawn9" train tiny.yaml --out run --resume --overwrite
accepts "$dawn9" train tiny.yaml --out run --resume
says '^finished   before, [0-9.]+% plain, [0-9.]+% with TTA; --overwrite trains it again$'
replies 'd == result("run")' "$dawn9" train tiny.yaml --out run --resume --json
replies 'd == result("run")' "$dawn9" train tiny.yaml --out run --resume --events
unchanged run
accepts "$dawn9" train tiny.yaml --out run --seed 2 --overwrite --quiet
record run 'd["seed"] == 2'

# ---- a model without a run, and the given configuration, are not overwritten ----
mkdir kept own && cp run/model.safetensors kept/ && { echo '# mine' && cat tiny.yaml; } >own/config.yaml
cp -r kept kept.before && cp -r own own.before && ln -s own/config.yaml linked.yaml
for resume in '' --resume; do
    rejects 2 'kept model.safetensors --overwrite --out' "$dawn9" train tiny.yaml --out kept $resume
done
unchanged kept
for config in own/config.yaml linked.yaml; do
    for overwrite in '' --overwrite; do
        rejects 2 'own/config.yaml --out' "$dawn9" train $config --out own $overwrite
    done
done
unchanged own
mkdir heirs && echo 'base: ../run/config.yaml' >heirs/based.yaml
rejects 2 'run/config.yaml --out' "$dawn9" train heirs/based.yaml --out run --overwrite
accepts "$dawn9" train run/config.yaml --out run --resume
cp -r run early && rm early/*.json early/*.safetensors # as if killed before its first checkpoint
before=$(listing)
accepts "$dawn9" train run/config.yaml --resume
[ "$(listing)" = "$before" ] || fail "train run/config.yaml --resume made another run than run"
accepts "$dawn9" train early/config.yaml --resume --quiet
same_bits run early
accepts "$dawn9" train tiny.yaml --out kept --overwrite --quiet

# ---- partial files of a killed process are removed, other files stay ----
for name in result.json.12.partial config.yaml.3.partial; do : >kept/$name; done
for name in firefox.zip.partial firefox.zip.12.partial result.json.partial result.json.a.partial; do : >kept/$name; done
observe "$dawn9" train tiny.yaml --out kept --overwrite --quiet
[ $status = 0 ] && [ "$(cd kept && echo *.partial)" = 'firefox.zip.12.partial firefox.zip.partial result.json.a.partial result.json.partial' ] ||
    fail "of half-written files these stayed: $(cd kept && echo *.partial)"
rm kept/*.partial

# ---- a user's file named lock ----
mkdir locked && echo 'to be kept' >locked/lock && echo 12 >number && cp number number.before
cp -r locked locked.before
ends 6 'locked/lock' "$dawn9" train tiny.yaml --out locked
unchanged locked
rm locked/lock && ln -s ../number locked/lock
ends 6 'locked/lock' "$dawn9" train tiny.yaml --out locked
unchanged number
rm locked/lock && echo 12 >locked/lock
accepts "$dawn9" train tiny.yaml --out locked --quiet

# ---- a run and an experiment in one folder; a title that cannot name a folder ----
echo '{config: tiny.yaml, seeds: 1, set: {train.epochs: 1}, title: ..}' >dots.yaml
accepts "$dawn9" experiment dots.yaml --out trials --quiet
accepts "$dawn9" experiment dots.yaml --out trials --quiet
for runs in '' '--runs 1'; do
    rejects 2 'trials --out' "$dawn9" train tiny.yaml --out trials --overwrite $runs
done
rejects 2 'run config.yaml --out' "$dawn9" experiment dots.yaml --out run
rejects 2 'run config.yaml --out' "$dawn9" ablate tiny.yaml --only flip --out run
prints ', into runs/-\.$' "$dawn9" experiment dots.yaml --dry-run
accepts "$dawn9" train tiny.yaml --set title=.. --set train.epochs=0.5 --runs 1 --quiet
[ -f runs/-./seed1/result.json ] && [ ! -e seed1 ] || fail "a run of the title .. is not in runs/-."

# ---- an output that is also an input ----
cp run/model.safetensors model && cp tiny.yaml read.yaml && ln -s model link && cp -r run read
printf 'P6 1 1 255 abc' >picture.png
echo 'base: read.yaml' >based.yaml && ln -s read/result.json result
for file in model read.yaml picture.png; do cp $file $file.before; done
rm -rf read.before && cp -r read read.before
rejects 2 'link OUT' "$dawn9" export model link
rejects 2 'model --logits' "$dawn9" eval read.yaml model --logits model
rejects 2 'read.yaml --logits' "$dawn9" eval read.yaml model --logits read.yaml
rejects 2 'read/model.safetensors --logits' "$dawn9" eval read --logits read/model.safetensors
rejects 2 'read.yaml --logits' "$dawn9" eval based.yaml model --logits read.yaml
for config in read.yaml based.yaml; do
    rejects 2 'read.yaml --save-plan' "$dawn9" train $config --save-plan read.yaml
done
for file in read/result.json result; do # files of a record
    rejects 2 "$file --logits" "$dawn9" eval read --logits $file
    rejects 2 "$file --confusion" "$dawn9" eval model --confusion $file
done
rejects 2 'read/epochs.tsv --save-plan' "$dawn9" train tiny.yaml --save-plan read/epochs.tsv
rejects 2 'read/predictions.safetensors --features' \
    "$dawn9" predict model picture.png --features read/predictions.safetensors
rejects 2 './x --logits --confusion different' "$dawn9" eval read --logits x --confusion ./x
rejects 2 './x.png --out --filters different' "$dawn9" data preview read.yaml --out x.png --filters ./x.png
rejects 2 'read.yaml --out' "$dawn9" data preview read.yaml --out read.yaml
rejects 2 'read.yaml --filters' "$dawn9" data preview read.yaml --filters read.yaml
rejects 2 './picture.png --sheet' "$dawn9" predict model tiny.yaml picture.png --sheet ./picture.png
rejects 2 'read/model.safetensors --sheet' "$dawn9" predict read picture.png --sheet read/model.safetensors
for kept in model read.yaml picture.png read; do unchanged $kept; done
accepts "$dawn9" eval read --confusion read/confusion.tsv

# ---- several seeds: errors come before training ----
accepts "$dawn9" train tiny.yaml --set train.epochs=0.5 --seed 6 --out many/seed6 --quiet
rejects 2 'many/seed6' "$dawn9" train tiny.yaml --set train.epochs=0.5 --runs 3 --seed 5 --out many
accepts "$dawn9" train tiny.yaml --set train.epochs=0.5 --runs 3 --seed 5 --out many --quiet --resume
says '^seed 6: finished before, many/seed6$'

# ---- two at once; the lock of a killed process; a checkpoint that would be overwritten ----
begin_run both "$dawn9" train long.yaml --out both --quiet
ends 2 "both $child --out" "$dawn9" train long.yaml --out both
ends 2 "$child" "$dawn9" train long.yaml --out both --overwrite
ends 2 "$child" "$dawn9" train long.yaml --out both --resume
kill -KILL $child
wait $child 2>/dev/null
[ -f both/lock ] || fail "a killed process took its lock along"
rm both/events.jsonl
begin_run both "$dawn9" train long.yaml --out both --quiet
[ "$(od -An -c both/lock | tr -d ' \n')" = "$child\\n" ] || fail "the lock of process $child holds: $(cat both/lock)"
kill -INT $child
wait $child
[ -f both/checkpoint.safetensors ] && [ ! -e both/lock ] || fail "an interrupted run left: $(ls both)"
rm -rf both.before && cp -r both both.before
rejects 2 'both --resume --overwrite' "$dawn9" train long.yaml --out both
unchanged both
for try in 1 2 3; do # in the same moment: one trains, the other does not
    "$dawn9" train tiny.yaml --out race$try --quiet >race.first 2>&1 &
    child=$!
    observe "$dawn9" train tiny.yaml --out race$try --quiet
    wait $child
    case "$? $status" in
    '0 2' | '2 0') ;;
    *) fail "two at once ended with $? and $status" ;;
    esac
    cat race.first "$err" | grep -Eq 'process [0-9]+ is training|holds a finished run' || fail "neither says why: $(cat race.first)"
    record race$try 'd["epochs"][-1]["epoch"] == 2'
done

# ---- SIGHUP and warnings of a time limit write a checkpoint; SIGHUP is ignored under nohup ----
signal_run() { # FOLDER SIGNAL...: a run that gets them while it trains
    begin_run "$1" "$dawn9" train long.yaml --out "$1" --quiet
    shift
    for signal in "$@"; do kill -s "$signal" $child 2>/dev/null; done
    finish
}
ends 129 '[0-9]+ 4000 --resume' signal_run hung HUP
ends 138 '[0-9]+ 4000 --resume' signal_run first_warning USR1
ends 140 '[0-9]+ 4000 --resume' signal_run second_warning USR2
ends 152 '[0-9]+ 4000 --resume' signal_run processor_time XCPU
several() { # as when a terminal closes or a service stops; the system may deliver HUP before TERM
    signal_run several TERM HUP TERM
    [ $code != 129 ] || code=143
    return $code
}
ends 143 '--resume' several
for folder in hung first_warning second_warning processor_time several; do
    [ -f $folder/checkpoint.safetensors ] || fail "$folder: no checkpoint was left"
done
# A terminal and `timeout` send a SIGINT each, within milliseconds: the second is no wish to stop at once.
sed 's/\[4, 4, 8, 8\]/[16, 16, 32, 32]/' long.yaml >slow.yaml # slower steps
begin_run copies "$dawn9" train slow.yaml --out copies --quiet
kill -INT $child
sleep 0.01
kill -INT $child
ends 130 '--resume' finish
(trap '' HUP && exec "$dawn9" train long.yaml --out held --quiet) >"$out" 2>"$err" &
child=$!
until_written held/events.jsonl $child
kill -HUP $child
sleep 0.2
kill -0 $child || fail "SIGHUP ended a run under nohup"
kill -TERM $child
wait $child
[ $? = 143 ] || fail "the run under nohup did not end by SIGTERM"

# ---- an evaluation is interrupted at once ----
"$dawn9" train evaluates.yaml --out left --set train.epochs=1 --quiet >"$out" 2>"$err" &
child=$!
until [ -s left/config.yaml ] || ! kill -0 $child; do sleep 0.02; done
sleep 0.5 # two steps take less, the evaluation far longer
kill -INT $child
wait $child
code=$?
[ $code = 130 ] && grep -Eq 'interrupted (before step [12]|after step 2) of 2: a checkpoint' "$err" || fail "an interrupted evaluation ended with $code"
[ ! -s left/events.jsonl ] || fail "the evaluation was not left"

# ---- if the model cannot be written, a final checkpoint is written ----
blocked() {
    begin_run blocked "$dawn9" train long.yaml --set train.epochs=16 --out blocked --quiet
    mkdir blocked/model.safetensors
    finish
}
ends 6 'model.safetensors --resume' blocked
rmdir blocked/model.safetensors
accepts "$dawn9" train long.yaml --set train.epochs=16 --out blocked --quiet --resume
record blocked 'd["resumed"] and len(d["epochs"]) == 16'

# ---- the error about a folder name that the system rejects names no checkpoint ----
ends 6 'too.long' "$dawn9" train tiny.yaml --out "fresh/$(printf 't%.0s' $(seq 256))"
grep -q checkpoint "$err" && fail "a checkpoint is named that cannot exist"

wait $second
code=$?
[ $code = 143 ] && [ ! -s "$scratch/second.err" ] && [ ! -e "$scratch/second/checkpoint.safetensors" ] ||
    fail "a second SIGTERM: status $code, $(cat "$scratch/second.err")"

# ---- more threads than processors ----
processors=$(nproc)
observe "$dawn9" train tiny.yaml --threads 999 --out threads --quiet
[ $status = 0 ] && [ "$(cat "$err")" = "dawn9: warning: threads: 999 are too many for the $processors processor$([ "$processors" = 1 ] || echo s) that this process may use: using $processors" ] ||
    fail "--threads 999: status $status"
record threads "d[\"threads\"] == $processors"
verdict
