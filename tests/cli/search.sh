# dawn9 experiment with a search, end to end: promotions, rejected trials, kills, two workers, budget, the report.
. "$(dirname "$0")/lib.sh"
tiny | sed 's/epochs: 2/epochs: 1/; s/synthetic_train: 128/synthetic_train: 80, validation: 16/' >tiny.yaml
cat >short.yaml <<'YAML'
title: short
question: Which momentum is best?
config: tiny.yaml
set: {eval.every: 0}
search:
  trials: 7
  seed: 5
  eta: 2
  rungs: {seeds: [1, 2]}
  ranges:
    train.momentum: {uniform: [0.4, 1.3]}
    model.channels: [4, {whole: [4, 8, 2]}, 8, 8]
    tricks.cutout: {choice: [off, {size: 4}]}
YAML
runs_of() { (cd "$1/runs" && grep -H '"params_sha256"' /dev/null */seed*/result.json && ls -d */seed*) | LC_ALL=C sort; }

# ---- dry run ----
before=$(listing)
accepts "$dawn9" experiment short.yaml --dry-run
says '^short: a search of 7 trials, rungs of 1, 2 seeds, the best 1/2 promoted, into runs/short$' '^next       trial000[1-7] seed 1$'
says '^work       about [0-9]+ runs left if none fails, [0-9]+ steps, [0-9.e-]+ TFLOP; --time '
says '^trial000[1-7] .*\(rejected: short.yaml:11:21: search.ranges.train.momentum: .*0.999999'
[ "$before" = "$(listing)" ] || fail "looking left files: $(listing)"
accepts "$dawn9" experiment short.yaml --dry-run --json
json "$out" 'd["kind"] == "search" and d["search"]["rungs"] == [1, 2] and len(d["arms"]) == 7' \
    '[("rejected" in a) == (a["grid"]["train.momentum"] > 0.999999) for a in d["arms"]] == [True] * 7' \
    '0 < sum("rejected" in a for a in d["arms"]) < 5'

# ---- options that a search cannot have, and one that it needs ----
rejects 2 '--shard search command disk' "$dawn9" experiment short.yaml --shard 1/2
rejects 2 '--commands search' "$dawn9" experiment short.yaml --commands
rejects 2 '--slurm --tasks' "$dawn9" experiment short.yaml --slurm --dry-run
rejects 2 '--pack search' "$dawn9" experiment short.yaml --slurm --dry-run --tasks 2 --pack 2
rejects 2 'short.yaml:9:18 seeds --seeds' "$dawn9" experiment short.yaml --seeds 3
rejects 2 'short.yaml:13:5 tricks.cutout --without' "$dawn9" experiment short.yaml --without cutout
accepts "$dawn9" experiment short.yaml --slurm --dry-run --tasks 3
says ' --array=1-3(%3)? ' 'experiment short.yaml'
grep -q -- --shard "$out" && fail "a task of a search is a shard: $(cat "$out")"

# ---- one process: exactly the runs that successive halving selects from these scores ----
accepts "$dawn9" experiment short.yaml
says '^ +1  trial000[1-7] +seed 1 ' '^runs       [0-9]+ done, [1-4] failed$' '^search     7 of 7 trials begun, [1-4] failed, ' '^verdict    [0-9] of 7 '
prints '^work       0 runs left$' "$dawn9" experiment short.yaml --dry-run
prints '^work       about [0-9]+ runs? left if none fails, ' "$dawn9" experiment short.yaml --dry-run --retry
asserts <<'PYTHON'
import glob, os
plan = json.load(open("runs/short/experiment.json"))
def result(trial, seed):
    path = "runs/short/runs/%s/seed%d/result.json" % (trial, seed)
    return json.load(open(path)) if os.path.exists(path) else None
def score(trial, seeds):
    return sum(result(trial, s)["accuracy_tta"] for s in range(1, seeds + 1)) / seeds
first, promoted = [], []
for arm in plan["arms"]:
    if "rejected" in arm: continue
    first.append(arm["name"])
    best = sorted(first, key=lambda name: -score(name, 1))[:len(first) // 2]
    for name in best:
        if name not in promoted: promoted.append(name)
expected = {(name, 1) for name in first} | {(name, 2) for name in promoted}
found = {(path.split("/")[-3], int(path.split("/")[-2][4:])) for path in glob.glob("runs/short/runs/*/seed*/result.json")}
assert found == expected, (found, expected)
PYTHON
arm=$(ls runs/short/runs | head -n 1)
edits=$(python3 -c 'import json; d = json.load(open("runs/short/experiment.json")); print(" ".join(d["shared"] + [a["edits"] for a in d["arms"] if a["name"] == "'$arm'"][0]))')
accepts sh -c "'$dawn9' train tiny.yaml $edits --seed 1 --quiet --out alone"
same_bits alone runs/short/runs/$arm/seed1
runs_of runs/short >calm.txt
accepts "$dawn9" experiment short.yaml
[ "$(grep -c ' seed ' "$out")" = 0 ] || fail "a finished search trains: $(cat "$out")"
accepts "$dawn9" experiment short.yaml --status
says '^search     7 of 7 trials begun' ' failed: short.yaml:11:21: '
hides '^next'

# ---- killed, then continued: the same runs with the same numbers ----
for results in 1 3 5; do
    "$dawn9" experiment short.yaml --out killed --quiet >"$out" 2>"$err" &
    child=$!
    until [ "$(ls killed/runs/*/*/result.json 2>/dev/null | wc -l)" -ge $results ] || ! kill -0 $child 2>/dev/null; do sleep 0.02; done
    sleep 0.0$results
    kill -KILL $child 2>/dev/null
    wait $child 2>/dev/null
done
accepts "$dawn9" experiment short.yaml --out killed --quiet
runs_of killed >again.txt
same calm.txt again.txt "a killed search ended with other runs: $(diff calm.txt again.txt)"

# ---- two workers: every trial is begun, runs of seed 1 have the same numbers ----
prints '^search     7 of 7 trials begun' "$dawn9" experiment short.yaml --out two --workers 2
grep 'seed1/' calm.txt >calm1.txt || fail "no run of seed 1: $(cat calm.txt)"
runs_of two | grep 'seed1/' | cmp -s calm1.txt - || fail "two workers: other numbers of seed 1"
[ -n "$(ls -d two/runs/*/seed2)" ] && [ -z "$(find two -name lock -o -name '*.partial')" ] || fail "no promotion, or left behind: $(find two)"

# ---- a spent budget ends the search; more trials continue in the same folder ----
sed 's/eta: 2/eta: 2\n  budget: {teraflop: 1.0e-9}/' short.yaml >poor.yaml
accepts "$dawn9" experiment poor.yaml --out budget
says '^runs       1 done' ': the budget is spent$'
prints '^runs       1 done' "$dawn9" experiment poor.yaml --out budget --quiet
accepts "$dawn9" experiment poor.yaml --out budget --status
hides '^next'
sed 's/trials: 7/trials: 8/' short.yaml >more.yaml
prints '^search     8 of 8 trials begun' "$dawn9" experiment more.yaml --out two --quiet
runs_of two | grep -v trial0008 | grep 'seed1/' | cmp -s calm1.txt - || fail "another number of trials changed those before"
sed 's/0.4, 1.3/0.3, 1.3/' short.yaml >other.yaml
rejects 2 'runs/short trial000[1-7] --out' "$dawn9" experiment other.yaml

# ---- hours of a resumed run count; other rungs need another folder ----
sed 's/eta: 2/eta: 2\n  budget: {hours: 1.0e-5}/; s/rungs: .*/rungs: {seeds: [1]}/; s/0.4, 1.3/0.4, 0.9/; s/tiny.yaml/long.yaml/' short.yaml >hours.yaml
sed 's/epochs: 1/epochs: 30/' tiny.yaml >long.yaml
signalled TERM hours/runs/trial0001/seed1/events.jsonl "$dawn9" experiment hours.yaml --out hours --quiet
accepts "$dawn9" experiment hours.yaml --out hours
says '^runs       1 done' ': the budget is spent$'
record hours/runs/trial0001/seed1 'd["resumed"]' '"process_seconds" not in d or d["process_seconds"] is None' 'all(s["start"] is None or s["start"] >= 0 for s in d["timeline"])'
sed 's/seeds: \[1, 2\]/train.epochs: [1, 2]/' short.yaml >rungs.yaml
rejects 2 'runs/short rungs --out' "$dawn9" experiment rungs.yaml

# ---- the report ----
plots && frontier='id="plot-frontier"' || frontier=frontier
runs "$dawn9" report runs/short --json
cp "$out" report.json
json report.json 'len(d["trials"]) == 7 and all((t["failure"] != "") == (t["accuracy"] is None) for t in d["trials"])' \
    '{t["rung"] for t in d["trials"] if not t["failure"]} == {1, 2}' \
    'sorted(t["trial"] for t in d["trials"] if t["frontier"] == "yes") == sorted(t["trial"] for t in d["frontier"])' \
    '[all(not (o["accuracy"] >= t["accuracy"] and o["teraflop"] <= t["teraflop"] and o["trial"] != t["trial"]) or (o["accuracy"], o["teraflop"]) == (t["accuracy"], t["teraflop"]) for o in d["trials"] if o["runs"]) for t in d["frontier"]] == [True] * len(d["frontier"])' \
    'd["problems"] == [] and "missing" not in d["verdict"]'
[ "$(wc -l <runs/short/report/trials.tsv)" = 8 ] && head -n 1 runs/short/report/frontier.tsv | grep -q 'train.momentum' || fail "no trials.tsv and frontier.tsv"
has runs/short/report.html "$frontier"
verdict
