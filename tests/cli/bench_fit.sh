# dawn9 bench fit: the largest batch that fits into a given memory, and the error if none does.
. "$(dirname "$0")/lib.sh"
tiny >tiny.yaml

accepts "$dawn9" bench fit --config tiny.yaml --memory 2M
says '^tiny on reference \(.*\), [0-9]+ parameters: the largest batch in 2 MiB$' '^included: buffers of the run'
accepts "$dawn9" bench fit --config tiny.yaml --memory 2M --json
cp "$out" fit.json
json fit.json 'd["bench"] == "fit" and d["memory_bytes"] == 2 << 20 and d["data_counted"] and len(d["rows"]) == 1' \
    'd["rows"][0]["bytes"] <= 2 << 20 and d["rows"][0]["precision"] == "f32" and d["rows"][0]["limit"] == "memory" and not d["rows"][0]["all_images"]' \
    'd["rows"][0]["bytes"] == sum(d["rows"][0][k + "_bytes"] for k in ("state", "gradient", "activation", "data", "other"))'
# The batch found is accepted as train.batch_size; in 1 TiB all training images fit.
batch=$(sed -n 's/.*"batch_size": \([0-9]*\),/\1/p' fit.json)
[ "$batch" -ge 1 ] || fail "no batch in fit.json"
prints 'all training images$' "$dawn9" bench fit --config tiny.yaml --memory 1T --set train.batch_size="$batch"
# Of 128 images ten groups of 12 fit into a batch. Training rejects a batch with which the run would have no step.
prints ' 120 .* of 128 training images$' "$dawn9" bench fit --config tiny.yaml --memory 1T --with ghost_batchnorm:group_size=12 --batch-size 12
prints ' 25 .* training rejects 26$' "$dawn9" bench fit --config tiny.yaml --memory 1T --epochs 0.1 --batch-size 16
accepts "$dawn9" train tiny.yaml --epochs 0.1 --batch-size 25 --out short
rejects 2 'train.epochs 0.1' "$dawn9" train tiny.yaml --epochs 0.1 --batch-size 26 --out shorter
# A title that is not UTF-8, the name of the file, is shown with question marks.
odd=$(printf 'odd\377.yaml')
cp tiny.yaml "$odd"
replies 'd["title"] == "odd?" and len(d["rows"]) == 1' "$dawn9" bench fit --config "$odd" --memory 2M --json
# bench step counts the same buffers.
replies 'd["buffer_bytes"] == json.load(open("fit.json"))["rows"][0]["bytes"]' "$dawn9" bench step --config tiny.yaml --steps 1 --set train.batch_size="$batch" --json

# One row for each precision of the backend, unless one is requested; half precision fits more images.
accepts "$dawn9" bench fit --config tiny.yaml --memory 4M --backend cpu --precision auto --json
cp "$out" all.json
accepts "$dawn9" devices --json
cp "$out" devices.json
json all.json '[r["precision"] for r in d["rows"]] == next(b for b in json.load(open("devices.json")) if b["backend"] == "cpu")["precisions"]' \
    'all(r["batch_size"] > d["rows"][0]["batch_size"] for r in d["rows"] if r["precision"] in ("bf16", "fp16"))'

# Without --memory the limit is the device's memory. A batch is a multiple of the ghost group's size. Images of a folder
# are neither counted nor read.
prints 'a multiple of 16$' "$dawn9" bench fit --config tiny.yaml --with ghost_batchnorm:group_size=16
prints "^images in your own files are not included" "$dawn9" bench fit --config tiny.yaml --set data.dataset=folder --memory 8M
stream_files
rejects 2 'corpus vocabulary bench.step' "$dawn9" bench fit --config language.yaml --data corpus --memory 8M
accepts "$dawn9" bench step --config language.yaml --data corpus --steps 1

# Errors. If no precision fits, the message has the smallest batch, and its memory in the smallest precision.
rejects 2 '1 f32 [0-9.]+ MiB' "$dawn9" bench fit --config tiny.yaml --memory 4K
rejects 2 '1 bf16' "$dawn9" bench fit --config tiny.yaml --backend cpu --precision auto --memory 4K
rejects 2 '16 f32' "$dawn9" bench fit --config tiny.yaml --with ghost_batchnorm:group_size=16 --memory 4K --precision f32
rejects 2 '--steps' "$dawn9" bench fit --config tiny.yaml --steps 3
rejects 2 'batch_size 500 128' "$dawn9" bench fit --config tiny.yaml --set train.batch_size=500
for size in 16 16X G 0G -1G 1e9T 1.5.5M nanG; do
    rejects 2 '16G' "$dawn9" bench fit --config tiny.yaml --memory=$size
done
rejects 2 'memory fit' "$dawn9" bench step --config tiny.yaml --memory 1G
rejects 4 'tf32' "$dawn9" bench fit --config tiny.yaml --precision tf32
verdict
