# Invalid configurations, edits, backends and precisions are rejected; files are found by name.
. "$(dirname "$0")/lib.sh"
tiny >tiny.yaml
train="$dawn9 train"

# ---- files ----
rejects 2 'none.yaml' $train none.yaml

# ---- edits from the command line ----
rejects 2 'cleu.*celu' $train tiny.yaml --with cleu
rejects 2 '--with ema,celu' $train tiny.yaml --with ema,celu
rejects 2 '--without crop,flip' $train tiny.yaml --without crop,flip
rejects 2 '--with ema=3 NAME NAME:KEY=VALUE' $train tiny.yaml --with ema=3
rejects 2 '--seed 9000000000000000001' $train tiny.yaml --seed 9000000000000000001
rejects 2 'seed 9000000000000000001 9e.18' $train tiny.yaml --set seed=9000000000000000001
rejects 2 '--seed 9000000000000000001' $train tiny.yaml --seed 9000000000000000000 --runs 2
rejects 2 '--seed 9223372036854775808 64.bits' $train tiny.yaml --seed 9223372036854775808
rejects 2 'seed 18446744073709551616 range 9e.18' $train tiny.yaml --set seed=18446744073709551616

# ---- a key in the wrong place ----
rejects 2 'epochs train.epochs' $train tiny.yaml --set epochs=3
rejects 2 'ema tricks.ema' $train tiny.yaml --set ema.every=3
rejects 2 'train.seed seed' $train tiny.yaml --set train.seed=3
{ tiny; echo 'batch_size: 32'; } >bad.yaml
rejects 2 'bad.yaml:9:1 batch_size train.batch_size' $train bad.yaml
{ tiny; echo 'train.batch_size: 32'; } >bad.yaml
rejects 2 'bad.yaml:9:1 train:.{batch_size:' $train bad.yaml
rejects 2 'lr:.{peak:' $train tiny.yaml --set 'train={lr.peak: 1}'
printf 'config: tiny.yaml\nseeds: 2\n' >experiment.yaml
rejects 2 'experiment.yaml:1:1 dawn9.experiment' $train experiment.yaml
# Records are JSON, which is YAML: what was meant is the configuration beside them, or their folder.
mkdir run && echo '{"title": "x", "config": {"train": {"epochs": 1}}, "rules": []}' >run/result.json
echo '{"question": null, "arms": [], "grid": {}}' >run/experiment.json
for command in "$train" "$dawn9 config" "$dawn9 compare tiny.yaml"; do
    rejects 2 'run/result.json:1:16 config.yaml folder' $command run/result.json
    rejects 2 'run/experiment.json:1:20 record folder' $command run/experiment.json
done
rejects 2 'tiny.yaml:[0-9]+:1' "$dawn9" experiment tiny.yaml
rejects 2 'experimnt.yaml experiment.yaml' "$dawn9" experiment experimnt.yaml
rejects 2 'tinny.yaml tiny.yaml' "$dawn9" ablate tinny.yaml
rejects 2 'empty' "$dawn9" ablate tiny.yaml --only crop,

# ---- files found by name, and suggestions of similar names ----
mkdir configs && tiny >configs/small.yaml
prints '^title: small' "$dawn9" config small
rejects 2 'smal.yaml configs/small.yaml' $train smal.yaml
mkdir -p runs/first
rejects 2 'runs/frist runs/first' "$dawn9" report runs/frist
rejects 2 'runs/frist runs/first' "$dawn9" compare runs/first runs/frist
rejects 3 'zzzzzz' "$dawn9" report zzzzzz

# ---- backends and precisions: misspelt, not installed, or not supported ----
rejects 2 'referense reference' $train tiny.yaml --backend referense
rejects 2 'f23 f32' $train tiny.yaml --precision f23
"$dawn9" devices >"$out"
if grep -q '^onednn .*absent' "$out"; then
    rejects 4 'onednn.*libdnnl-dev' $train tiny.yaml --backend onednn
else
    rejects 4 'f64 onednn' $train tiny.yaml --backend onednn --precision f64
    rejects 4 'tf32 onednn f32' $train tiny.yaml --backend onednn --precision tf32
fi
rejects 4 'tf32 reference f64 f32 bf16 fp16' $train tiny.yaml --backend reference --precision tf32

# ---- the printed configuration loads again, whatever the bytes of the file's name ----
odd=$(printf 'odd\377.yaml')
cp tiny.yaml "$odd"
accepts "$dawn9" config "$odd" --origins
cp "$out" printed.yaml
prints '^title: untitled' "$dawn9" config printed.yaml

# ---- --data and --set of a text ----
prints '^  path: "lab #2"' "$dawn9" config tiny.yaml --data 'lab #2'
prints '^title: "run 1: baseline"' "$dawn9" config tiny.yaml --set 'title=run 1: baseline'
rejects 2 '--data data.path UTF-8' "$dawn9" config tiny.yaml --data "$odd"
verdict
