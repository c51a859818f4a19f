# dawn9 compare on runs, folders of runs, configurations and rejected input; tools/compare_builds.py.
. "$(dirname "$0")/lib.sh"
tiny >tiny.yaml
accepts "$dawn9" train tiny.yaml --out runs/a --quiet
accepts "$dawn9" train tiny.yaml --out runs/b --quiet --seed 2 --set train.epochs=1 --without flip --with ema --precision f64
accepts "$dawn9" train tiny.yaml --out runs/deep/c --quiet --set train.batch_size=64

# ---- two runs: the differences, and all results ----
accepts "$dawn9" compare runs/a runs/b
says '^ +runs/a +runs/b$' '^  seed +1 +2$' '^  train.epochs +2 +1$' '^  tricks.ema.momentum +- +0.99$'
says '^  tricks.flip.* +[a-z]+ +-$' '^  precision +f32 +f64$' '^  accuracy_tta +[0-9]+\.[0-9]{2} +[0-9]+\.[0-9]{2}$'
for clock in train airbench dawnbench process; do says "^  ${clock}_seconds +[-0-9.]+ +[-0-9.]+\$"; done
says '^  params_sha256 +[0-9a-f]{12} +[0-9a-f]{12}$' '^rules$'
if grep -Eq '^  (train.batch_size|threads|model|title|backend) ' "$out"; then fail "what is equal is shown: $(grep -E '^  (train.batch_size|threads|model|title|backend) ' "$out")"; fi

# ---- the same run twice: nothing differs ----
cp -r runs/a again
accepts "$dawn9" compare runs/a again
for part in configuration machine rules; do says "^$part +the same\$"; done
says '^  params_sha256 '

# ---- JSON has the values of the records; a folder stands for its runs, in the order of names ----
accepts "$dawn9" compare runs/ --json
json "$out" 'd["runs"] == ["runs//a", "runs//b", "runs//deep/c"] or d["runs"] == ["runs/a", "runs/b", "runs/deep/c"]' \
    'd["configuration"]["train.batch_size"] == [32, 32, 64] and d["configuration"]["tricks.ema.momentum"] == [None, 0.99, None]' \
    'd["outcome"]["accuracy"] == [json.load(open("runs/" + r + "/result.json"))["accuracy"] for r in ["a", "b", "deep/c"]]' \
    'd["machine"]["precision"] == ["f32", "f64", "f32"] and "backend" not in d["machine"]'

# ---- the committed record ----
accepts "$source/experiments/keep.sh" unpack "$source/experiments/results/cpu/dawn94-bf16" kept
prints '^  accuracy_tta +[0-9.]+ +94.20$' "$dawn9" compare runs/a kept/seed1

# ---- one run alone is an error; a name that is not UTF-8 ----
rejects 2 'runs/a' "$dawn9" compare runs/a

odd=$(printf 'odd\377')
cp -r runs/a "$odd"
replies 'd["runs"] == ["runs/a", "odd?"]' "$dawn9" compare runs/a "$odd" --json

# ---- configurations compared with each other and with a run; input that cannot be compared ----
tiny >one.yaml
sed 's/epochs: 2/epochs: 3/' one.yaml >two.yaml
accepts "$dawn9" compare one.yaml two.yaml
[ "$(sed -n '2,$p' "$out" | tr -s ' ')" = "$(printf 'configuration\n train.epochs 2 3')" ] || fail "two configurations: $(cat "$out")"
replies 'list(d) == ["runs", "configuration"] and d["runs"] == ["one.yaml", "runs/a"]' "$dawn9" compare one.yaml runs/a --json
rejects 2 'one.yaml' "$dawn9" compare one.yaml
echo 'seed: x' >bad.yaml
rejects 2 'bad.yaml:1:7 seed' "$dawn9" compare one.yaml bad.yaml
mkdir configs && mv two.yaml configs/
replies 'd["configuration"] == {"train.epochs": [2, 3]} and d["runs"] == ["one", "two.yaml"]' "$dawn9" compare one two.yaml --json
mv configs/two.yaml . && rmdir configs
rejects 2 'two.yaml' "$dawn9" compare one.yaml twoo.yaml
rejects 3 'nothing' "$dawn9" compare runs/a nothing
mkdir empty
rejects 3 'empty' "$dawn9" compare runs/a empty
mkdir cut && head -c 300 runs/a/result.json >cut/result.json
rejects 3 'cut/result.json:[0-9]+' "$dawn9" compare runs/a cut
mkdir other && echo '{"accuracy": 99}' >other/result.json
rejects 3 'other/result.json' "$dawn9" compare runs/a other
echo '[1]' >other/result.json
rejects 3 'other/result.json' "$dawn9" compare runs/a other

# ---- tools/compare_builds.py notices a flipped bit in each tensor of a plain run, and of one with tricks in fp16 ----
compare="python3 $source/tools/compare_builds.py"

tiny | sed 's/epochs: 2/epochs: 3/' >plain.yaml # 12 steps
{
    sed '/^precision/d; /^tricks/d; /^model/d' plain.yaml
    echo 'precision: fp16'
    echo 'model: {name: resnet9, channels: [4, 6, 8, 10]}'
    echo 'tricks: {crop: {pad: 4}, flip_tta: {}, ghost_batchnorm: {group_size: 8}, frozen_bn_scale: {},'
    echo '  patch_whitening: {images: 100}, ema: {momentum: 0.9, every: 2}}'
} >tricks.yaml
for name in plain tricks; do
    accepts "$dawn9" train $name.yaml --set keep=all --out $name --quiet
    accepts "$dawn9" eval $name --logits $name/logits.safetensors
    prints '^self-check: a flipped bit in each of [0-9]+ tensors: noticed$' $compare --self-check $name
done

# ---- compare_builds.py rejects a run with another number of steps than 12 ----
accepts "$dawn9" train plain.yaml --set keep=all --set train.epochs=2 --out short --quiet
observe $compare --self-check short
[ $status = 1 ] && grep -q 'the checkpoint is of step 8, not 12' "$err" || fail "status $status, 1 expected"

# ---- compare_builds.py rejects folders that are no builds ----
observe $compare . . both
[ $status = 1 ] && grep -q 'CMakeCache.txt' "$err" || fail "status $status, 1 expected"
verdict
