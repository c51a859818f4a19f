# dawn9 experiment: plans, runs, shards, workers, failures, records, bad input, and the files of experiments/.
. "$(dirname "$0")/lib.sh"
tiny | sed 's/epochs: 2/epochs: 1/; s/synthetic_train: 128/synthetic_train: 64/' >tiny.yaml
cat >short.yaml <<'YAML'
title: short
question: Does the mirror help?
config: tiny.yaml
seeds: 2
arms:
  both: {}
  one: {without: [flip], baseline: both}
YAML

# ---- search for experiments by name, and suggestions ----
mkdir -p experiments configs/plans && cp tiny.yaml configs/tiny-config.yaml && cp short.yaml experiments/plans.yaml && cp tiny.yaml experiments/tiny.yaml && : >experiments/steps.sh
for name in plans plans.yaml experiments/plans; do
    replies 'd["file"] == "experiments/plans.yaml"' "$dawn9" experiment $name --dry-run --json
done
rejects 2 './plans' "$dawn9" experiment ./plans
rejects 2 'plan.yam experiments/plans.yaml' "$dawn9" experiment plan.yam
rejects 2 'steps.yam steps.yam.yaml experiments/' "$dawn9" experiment steps.yam
rejects 2 'tiny-config configs/tiny-config.yaml' "$dawn9" experiment tiny-config
rejects 2 'plans experiments/plans.yaml' "$dawn9" train plans
accepts "$dawn9" experiment short.yaml --dry-run --set 'model.channels=[4, 4, 8, 8]'
says "^all arms --set 'model.channels=\[4, 4, 8, 8\]'\$"
rm -r experiments configs

# ---- dry run and status ----
rejects 2 'none.yaml experiments/' "$dawn9" experiment none.yaml
before=$(listing)
accepts "$dawn9" experiment short.yaml --dry-run
says '^short: 2 arms x 2 seeds = 4 runs, into runs/short$' '^Does the mirror help\?$'
says '^one  .* --without flip  \(against both\)$' '^work       4 of 4 runs left, 8 steps, [0-9.e-]+ TFLOP; --time '
hides '^time '
accepts "$dawn9" experiment short.yaml --dry-run --time
range='[0-9:]+:[0-9]{2}( \([0-9:]+ to [0-9:]+\))?' # in parentheses: by the quartiles of the step times, if they differ
says "^time       about $range for all remaining runs, one at a time; $range for one of both"
rejects 2 '--time --dry-run' "$dawn9" experiment short.yaml --time
rejects 2 '--status --dry-run' "$dawn9" experiment short.yaml --dry-run --status
rejects 2 '--commands --slurm' env PATH=/nowhere "$dawn9" experiment short.yaml --slurm --commands
rejects 2 '--json --commands' "$dawn9" experiment short.yaml --commands --json
rejects 2 '--time --json' "$dawn9" experiment short.yaml --dry-run --json --time
rejects 2 '--json --slurm --dry-run' "$dawn9" experiment short.yaml --json --slurm --dry-run
for option in slurm commands retry; do rejects 2 "--status --$option" "$dawn9" experiment short.yaml --status --$option; done
accepts "$dawn9" experiment short.yaml --dry-run --shard 2/3
says '^short: 2 arms x 2 seeds = 4 runs, shard 2 of 3, into runs/short$' '^work       1 of 1 run left, 2 steps, '
accepts "$dawn9" experiment short.yaml --dry-run --json --shard 1/2 --pack 2
json "$out" '[(r["arm"], r["seed"]) for r in d["runs"]] == [("both", 1), ("one", 1)]'
prints '^work       1 of 1 run left, ' "$dawn9" ablate tiny.yaml --only flip --seeds 2 --dry-run --shard 1/8
accepts env PATH=/nowhere "$dawn9" experiment short.yaml --out "50% it's" --dry-run --slurm --pack 2 --tasks 1 --sbatch=--time=5
sbatch() { printf '%s\n' "$@"; }
eval "$(cat "$out")" >words
[ "$(head -n 5 words | tr '\n' ' ')" = "--parsable --job-name=short --array=1-2%1 --output=50%% it's/slurm/%A_%a.txt --time=5 " ] ||
    fail "sbatch gets: $(cat words)"
has words "^--wrap=exec .* --out '50% it'.''s' --pack 2 --shard \"[$]SLURM_ARRAY_TASK_ID\"/2\$"
# SLURM_JOB_ID of one task is the number of the whole array, so a task is requeued by the array's number and its own.
accepts env PATH=/nowhere "$dawn9" experiment short.yaml --dry-run --slurm --requeue
eval "$(cat "$out")" >words
has words '^--requeue$' '^--wrap=.* scontrol requeue "[$][{]SLURM_ARRAY_JOB_ID[}]_[$][{]SLURM_ARRAY_TASK_ID[}]"; exit'
rm words
rejects 2 '--out back.slash backslash' "$dawn9" experiment short.yaml --out 'back\slash' --slurm --dry-run
prints '^runs       0 of 4 done, 4 waiting$' "$dawn9" experiment short.yaml --status
[ "$before" = "$(listing)" ] || fail "looking left files: $(listing)"
tiny | slower | sed 's|\[4, 4, 8, 8\]|[48, 48, 96, 96]|' >slow.yaml # the eight steps of --time take seconds
sed 's/tiny/slow/' short.yaml >short-slow.yaml
left_early() {
    "$dawn9" experiment short-slow.yaml --dry-run --time &
    child=$!
    until_catching $child
    kill -s INT $child
    wait $child
}
ends 130 'interrupted' left_early

# ---- every run once ----
accepts "$dawn9" experiment short.yaml
says '^short: 2 arms x 2 seeds = 4 runs$' '^ +1/4 +both +seed 1 +[0-9.]+%, with TTA +[0-9.]+% .* left$'
says '^runs       4 of 4 done$' '^verdict    one ' '^record     runs/short$' '^report     .*/dawn9 report runs/short$'
[ "$(cd runs/short && find . -type d | LC_ALL=C sort | tr '\n' ' ')" = '. ./runs ./runs/both ./runs/both/seed1 ./runs/both/seed2 ./runs/one ./runs/one/seed1 ./runs/one/seed2 ' ] ||
    fail "the folders are: $(cd runs/short && find . -type d | LC_ALL=C sort | tr '\n' ' ')"
[ "$(ls runs/short/runs/one/seed2 | tr '\n' ' ')" = 'config.yaml epochs.tsv events.jsonl predictions.safetensors result.json submission.json ' ] ||
    fail "a run left: $(ls runs/short/runs/one/seed2)"
json runs/short/experiment.json 'd["title"] == "short" and d["kind"] == "grid" and d["target"] == 5 and d["seeds"] == [1, 2]' \
    '[(a["name"], a["baseline"], a["edits"]) for a in d["arms"]] == [("both", None, []), ("one", "both", ["--without flip"])]' \
    'all(json.load(open("runs/short/" + r["folder"] + "/result.json"))["seed"] == r["seed"] for r in d["runs"]) and len(d["runs"]) == 4' \
    'all(json.load(open("runs/short/runs/" + a["name"] + "/seed1/result.json"))["config_hash"] == a["config_hash"] for a in d["arms"])'
has runs/short/runs/one/seed2/config.yaml '^seed: 2$'
cp -rp runs/short held
prints '^work       0 of 4 runs left$' "$dawn9" experiment short.yaml --dry-run
prints '^short: .* = 4 runs, 4 done before$' "$dawn9" experiment short.yaml
diff -r runs/short held >/dev/null || fail "a second pass changed the folder"

# ---- more seeds run only the new ones; fewer lose nothing ----
accepts "$dawn9" experiment short.yaml --seeds 3 --json
json "$out" 'd["done"] == 6 and d["failed"] == 0 and [r["state"] for r in d["runs"]] == ["done"] * 6'
same runs/short/runs/one/seed2/result.json held/runs/one/seed2/result.json "a finished run was done again"
accepts "$dawn9" experiment short.yaml --seeds 1 --quiet
mv runs/short "$(printf "it's\na \033 run")"
accepts "$dawn9" experiment short.yaml --seeds 3 --out "$(printf "it's\na \033 run")" --quiet
accepts bash -c "$(sed -n 's/^report *//p' "$out")" # the command can be pasted
mv "$(printf "it's\na \033 run")" runs/short && [ -f runs/short/report.html ] || fail "the command makes no report"
rm -r runs/short/report runs/short/report.html
json runs/short/experiment.json 'sorted(d["seeds"]) == [1, 2, 3]'

# ---- models that finished runs did not keep: a note says how many, and how to get them ----
sed 's/^seeds: 2/seeds: 3\nkeep: model/' short.yaml >kept.yaml
prints '^note       6 finished runs .* keep .*runs/short/runs/ARM/seedN' "$dawn9" experiment kept.yaml
rm -r runs/short/runs/one/seed3
prints '^note       5 finished runs .* keep ' "$dawn9" experiment kept.yaml --quiet
[ -s runs/short/runs/one/seed3/model.safetensors ] || fail "a run that was deleted has no model"
accepts "$dawn9" experiment short.yaml --seeds 3 --status
hides '^note'

# ---- the last run of a process equals a separate run ----
accepts "$dawn9" experiment short.yaml --seeds 4 --quiet --out batch
accepts "$dawn9" train tiny.yaml --without flip --seed 4 --quiet --out alone
same_bits alone batch/runs/one/seed4
record alone 'd["config_hash"] == result("batch/runs/one/seed4")["config_hash"]'

# ---- interim results; arms with identical configurations share runs ----
cat >alike.yaml <<'YAML'
config: tiny.yaml
seeds: 3
arms:
  both: {}
  again: {set: {train.epochs: 1}, baseline: both}
  hushed: {set: {eval.every: 0}}
  one: {without: [flip], baseline: both, label: "one\e[31m"}
YAML
accepts "$dawn9" experiment alike.yaml --dry-run
says '^alike: 4 arms x 3 seeds = 12 runs, 9 trained: arms with identical configurations share runs'
says '^again .* \(against both\)  \(the runs of both\)$'
accepts "$dawn9" experiment alike.yaml
says '^so far     one.x1b\[31m ' '^verdict    one.x1b\[31m ' '^runs       12 of 12 done$'
lacks "$out" "$(printf '\033')"
[ "$(ls runs/alike/runs | tr '\n' ' ')" = 'both hushed one ' ] || fail "twins were trained: $(ls runs/alike/runs)"
accepts "$dawn9" report runs/alike --json
cp "$out" alike.json
awk -F '\t' '$1 == "again" { n++; filled += $4 $5 $6 $7 != "" } END { exit filled || n > 1 }' runs/alike/report/effects.tsv || fail "an arm is compared with its own runs"
json alike.json '[(a["arm"], a["runs"]) for a in d["arms"]] == [("both", 3), ("again", 3), ("hushed", 3), ("one\x1b[31m", 3)]'
sed '/^  one:/d' alike.yaml >fewer.yaml && mv fewer.yaml alike.yaml
accepts "$dawn9" experiment alike.yaml --out runs/alike --quiet
json runs/alike/experiment.json 'len(d["runs"]) == 12 and len({(r["arm"], r["seed"]) for r in d["runs"]}) == 12'
sed 's/^arms:/&\n  first: {}/' alike.yaml >more.yaml && mv more.yaml alike.yaml # a twin in front of the arm that was trained
prints '^runs       12 of 12 done$' "$dawn9" experiment alike.yaml --status
prints '^work       0 of 12 runs left$' "$dawn9" experiment alike.yaml --dry-run

ends 2 'keep' "$dawn9" experiment alike.yaml --out kept --set keep=model
ends 2 '--set seed=9 seeds' "$dawn9" experiment alike.yaml --out kept --set seed=9
ends 2 '--set seed=9 seeds' "$dawn9" ablate tiny.yaml --out kept --set seed=9 --dry-run
echo '{config: tiny.yaml, set: {seed: 9}}' >seed.yaml
ends 2 'seed.yaml:1:33 seeds' "$dawn9" experiment seed.yaml --out kept

# ---- commands of the tasks, for other launchers ----
accepts "$dawn9" experiment --out listed --commands --pack 2 --threads 1 --quiet -- short.yaml
[ "$(grep -c -- "experiment --out listed --pack 2 --threads 1 --quiet --shard [12]/2 -- short.yaml\$" "$out")" = 2 ] || fail "commands: $(cat "$out")"
cp "$out" commands.sh
head -n 1 commands.sh >first.sh
accepts sh -e first.sh
[ "$(cd listed/runs && ls -d */seed1 | tr '\n' ' ')" = 'both/seed1 one/seed1 ' ] && [ ! -e listed/runs/both/seed2 ] ||
    fail "a pack is not a seed of each arm: $(ls -d listed/runs/*/*)"
accepts sh -e commands.sh
accepts "$dawn9" experiment short.yaml --out listed --commands --pack 2
[ ! -s "$out" ] || fail "commands for what is done: $(cat "$out")"
rejects 2 '--commands newline' "$dawn9" experiment short.yaml --out 'two
lines' --commands
rejects 2 '--pack --slurm --commands --shard' "$dawn9" experiment short.yaml --out listed --pack 2
rejects 2 '--requeue --slurm' "$dawn9" experiment short.yaml --out listed --requeue

# ---- shards and workers: the same runs, each once ----
prints '^runs       1 of 4 done, 3 waiting$' "$dawn9" experiment short.yaml --out shards --shard 2/3
accepts "$dawn9" experiment short.yaml --out shards --shard 1/3 --quiet
prints '^runs       4 of 4 done$' "$dawn9" experiment short.yaml --out shards --shard 3/3 --quiet
# Only failures of its own runs make a shard fail. --commands prints no task for a run that is being trained.
echo '{config: tiny.yaml, seeds: 1, arms: {bad: {set: {train.lr: {knots: [0, end], values: [1.0e6, 1.0e6]}}}, good: {}}}' >some.yaml
ends 5 'bad' "$dawn9" experiment some.yaml --out some --shard 1/2 --quiet
accepts "$dawn9" experiment some.yaml --out some --shard 2/2 --quiet
mkdir -p taken/runs/bad/seed1
flock taken/runs/bad/seed1/lock "$dawn9" experiment some.yaml --out taken --commands >commands.txt
[ "$(grep -o 'shard [12]/2' commands.txt)" = 'shard 2/2' ] || fail "a task for a run that is being trained: $(cat commands.txt)"
rm -r taken
prints '4 runs, 3 at a time$' "$dawn9" experiment short.yaml --out workers --workers 3
[ "$(grep -c ' seed [12]  ' "$out")" = 4 ] || fail "not a line for each run: $(cat "$out")"
for run in both/seed1 both/seed2 one/seed1 one/seed2; do
    same_bits runs/short/runs/$run shards/runs/$run workers/runs/$run
done
[ -z "$(find . -name lock -o -name '*.partial')" ] || fail "left behind: $(find . -name lock -o -name '*.partial')"
for way in '' --dry-run; do
    ends 2 '--devices reference' "$dawn9" experiment short.yaml --out devices --devices 0,1 $way
    ends 4 '--devices 4096' "$dawn9" experiment short.yaml --set backend=auto --set precision=auto --out gpus --devices 4096 $way # no such GPU
    ends 2 '--devices reference' "$dawn9" ablate tiny.yaml --out devices --devices 0 $way
done
[ ! -e devices ] && [ ! -e gpus ] || fail "--devices wrote before a GPU was found"

# ---- a parent that ignores SIGCHLD: dawn9 waits for its children all the same, and sees which have failed ----
cat >ignoring.py <<'PYTHON'
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])
PYTHON
accepts timeout -k 1 120 python3 ignoring.py "$dawn9" experiment short.yaml --seeds 1 --out ignored --workers 2 --quiet
mkdir bin && printf '#!/bin/sh\nexit 1\n' >bin/sbatch && chmod +x bin/sbatch
ends 4 'sbatch' env PATH="$PWD/bin:$PATH" python3 ignoring.py "$dawn9" experiment short.yaml --out unsent --slurm
ends 4 'sbatch Slurm' env PATH=/nowhere "$dawn9" experiment short.yaml --out unsent --slurm
printf '#!/bin/sh\necho 7; echo more\n' >bin/sbatch
prints '^submitted  job 7, [0-9]+ tasks ' env PATH="$PWD/bin:$PATH" "$dawn9" experiment short.yaml --out unsent --slurm
ends 4 '--devices 4096' timeout -k 1 120 python3 ignoring.py "$dawn9" experiment short.yaml --set backend=auto --set precision=auto --out gpus --devices 4096

# ---- names that are not UTF-8 ----
odd=$(printf 'odd\377')
cp tiny.yaml "$odd.yaml"
accepts "$dawn9" ablate "$odd.yaml" --only flip --seeds 1 --out "$odd" --quiet
json "$odd/experiment.json" '[a["name"] for a in d["arms"]] == ["full", "plain", "without-flip", "with-flip"]'
accepts "$dawn9" ablate "$odd.yaml" --only flip --seeds 1 --out "$odd" --status --json
json "$out" 'd["out"] == "odd?" and d["done"] == 4'
rm -r "$odd"
ends 4 '1 1 ranks.log' "$dawn9" ablate "$odd.yaml" --only flip --seeds 1 --out "$odd" --set train.norm_groups=2 --ranks 2 --launcher false --shard 1/4
json "$odd/runs/full/seed1/failure.json" 'd["status"] == 4 and "odd?/runs/full/seed1/ranks.log" in d["message"]'

# ---- options that would replace the values of a grid are rejected ----
echo '{config: tiny.yaml, seeds: 1, grid: {tricks.crop.pad: [1, 2]}}' >grid.yaml
for set in tricks.crop.pad=3 'tricks.crop={pad: 3}' tricks.crop=off; do
    rejects 2 "grid.yaml:1:38 tricks.crop.pad --set" "$dawn9" experiment grid.yaml --dry-run --set "$set"
done
rejects 2 'grid.yaml:1:38 tricks.crop.pad --without' "$dawn9" experiment grid.yaml --dry-run --without crop
accepts "$dawn9" experiment grid.yaml --dry-run --without flip --set train.epochs=3
says '^grid: 2 arms x 1 seed = 2 runs, '

# ---- changed configurations; folders that do not belong to the experiment ----
rm -rf held && cp -rp runs/short held
sed 's/title: short/title: other/' short.yaml >other.yaml
for way in '' --status --dry-run; do
    rejects 2 'runs/short both --out' "$dawn9" experiment short.yaml --set train.momentum=0.8 $way
    rejects 2 'runs/short short other' "$dawn9" experiment other.yaml --out runs/short $way
    rejects 2 'experiment' "$dawn9" ablate tiny.yaml --out runs/short $way
done
diff -r runs/short held >/dev/null || fail "a rejected experiment touched the folder"
echo '{"title":' >held/experiment.json
rejects 2 'held/experiment.json:[0-9]+' "$dawn9" experiment short.yaml --out held

# ---- records of many runs and epochs may be larger than other texts ----
cp -rp runs/short large
for file in experiment.json runs/both/seed1/result.json; do head -c 17000000 /dev/zero | tr '\0' ' ' >>large/$file; done
accepts "$dawn9" experiment short.yaml --out large --seeds 3
says '^short: .* = 6 runs, 6 done before$'
accepts "$dawn9" report large --json
json "$out" 'd["finished"] == 6 and d["problems"] == []'

# ---- a result that cannot be read is an error: its run counts neither as done nor as left ----
rm held/experiment.json held/runs/both/seed1/result.json && ln -s result.json held/runs/both/seed1/result.json
for way in '' --status --commands --dry-run; do
    ends 3 'held/runs/both/seed1/result.json Too.many.levels' "$dawn9" experiment short.yaml --out held $way
done

# ---- a failed run does not stop the others and is reported at the end ----
sed 's/arms:/arms:\n  hot: {set: {train.epochs: 4, train.lr: {knots: [0, end], values: [1.0e6, 1.0e6]}}}/' short.yaml >hot.yaml
ends 5 '2 6 hot 1 image' "$dawn9" experiment hot.yaml --out hot
says '^runs       4 of 6 done, 2 failed$' 'hot +seed 1 +failed: the logits of evaluation image 0 are not finite'
ends 5 '2 6' "$dawn9" experiment hot.yaml --out hot
[ "$(grep -c ' seed ' "$out")" = 0 ] || fail "a failed run was done again"
prints 'hot +seed 2 +failed: the logits of' "$dawn9" experiment hot.yaml --out hot --status
prints '^work       0 of 6 runs left$' "$dawn9" experiment hot.yaml --out hot --dry-run
prints '^work       2 of 6 runs left, ' "$dawn9" experiment hot.yaml --out hot --dry-run --retry
ends 5 '2 6' "$dawn9" experiment hot.yaml --out hot --retry
[ "$(grep -c ' seed ' "$out")" = 2 ] || fail "--retry did not do the two again"
sed 's/dataset: synthetic, /dataset: cifar10, path: nowhere, /' tiny.yaml >nodata.yaml
sed 's/tiny.yaml/nodata.yaml/' short.yaml >nodata-short.yaml
ends 3 'nowhere' "$dawn9" experiment nodata-short.yaml --out nodata
ends 3 'nowhere' "$dawn9" experiment nodata-short.yaml --out nodata --workers 2

# ---- truncated records ----
head -c 100 runs/short/runs/one/seed1/result.json >cut && mv cut runs/short/runs/one/seed1/result.json
observe "$dawn9" experiment short.yaml --seeds 3
[ $status = 0 ] && grep -q '^dawn9: warning: .*one/seed1/result.json: .*; the run is repeated$' "$err" || fail "a damaged result: $(cat "$err")"
for kept in 40 0; do # an unfinished run whose configuration was truncated
    rm runs/short/runs/one/seed1/result.json
    head -c $kept runs/short/runs/one/seed1/config.yaml >cut && mv cut runs/short/runs/one/seed1/config.yaml
    observe "$dawn9" experiment short.yaml --seeds 3
    [ $status = 0 ] && [ -f runs/short/runs/one/seed1/result.json ] && grep -q '^dawn9: warning: .*one/seed1/config.yaml: .*; the run is repeated$' "$err" ||
        fail "a damaged configuration: $(cat "$err")"
done

# ---- bad input, one line each ----
rejects 2 '2 I/N' "$dawn9" experiment short.yaml --out x --shard 2
rejects 2 '4/3 I/N' "$dawn9" experiment short.yaml --out x --shard 4/3
rejects 2 '0,,1' "$dawn9" experiment short.yaml --out x --devices 0,,1
rejects 2 '1 N' "$dawn9" experiment short.yaml --out x --seed 3
rejects 2 '--slurm' "$dawn9" experiment short.yaml --out x --sbatch=-n1
long=$(printf '%0300d' 0 | tr 0 t)
sed "s/title: short/title: $long/" short.yaml >long.yaml
rejects 2 'title 300 255 --out' "$dawn9" experiment long.yaml
rejects 2 'title 306 255 --out' "$dawn9" train tiny.yaml --set title=$long
rejects 6 '/proc' "$dawn9" experiment short.yaml --out /proc/none

# ---- the files of experiments/ ----
for file in "$source"/experiments/*.yaml; do
    accepts "$dawn9" experiment "$file" --dry-run --json
    cp "$out" plan.json
    title=$(basename "$file" .yaml)
    title=${title%-baseline} # more seeds of one arm, into the same folder
    json plan.json 'd["question"].endswith("?") and (len(d["seeds"]) >= 5 or d["kind"] == "search") and len(d["runs"]) == len(d["arms"]) * len(d["seeds"])' \
        'd["title"] == "'"$title"'" and len({a["config_hash"] for a in d["arms"]}) >= len(d["arms"]) - ("ladder" in d["title"])'
done
accepts "$dawn9" experiment "$source/experiments/convergence.yaml" --dry-run --json
cp "$out" plan.json
json plan.json '[a["published"]["accuracy"] for a in d["arms"]] == [94.41, 95.18, 95.57, 95.7, 95.71, 95.12, 95.76, 95.9, 96.13, 96.12]' \
    'all(a["published"]["epochs"] == a["grid"]["train.epochs"] == a["epochs"] for a in d["arms"])'
verdict
