# dawn9 verify and bench: rows, JSON, and the verdict in the exit status.
. "$(dirname "$0")/lib.sh"
tiny >tiny.yaml

# ---- one case through the step program; its patch statistics are of CIFAR-10, which is changed here ----
export DAWN9_CASES="$source/tests/golden/cases/patch_whitening.safetensors"
mkdir changed
for file in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    printf '\1' >changed/$file.bin
    truncate -s 30730000 changed/$file.bin
done
accepts "$dawn9" verify --backend reference --precision f64 --threads 1 --data changed
says '^patch_whitening +.*loss.* ok' '^1 case: [1-9][0-9]* comparisons ok \([0-9]+ by sensitivity\), 0 FAILED, 1 skipped' \
    'skipped: cifar10 is not the published one'
accepts "$dawn9" verify --backend reference --precision f64 --threads 1 --data changed --json
json "$out" 'd["cases"] == 1 and d["failed"] == 0 and d["passed"] >= 5' \
    'all((r["error"] <= r["limit"] or r["sensitivity"] > 0) and r["passed"] and r["compared"] > 0 for r in d["rows"] if not r["skipped"])'

# ---- a case with one wrong number fails with its place ----
for spoilt in 'eval/logits 1000' 'step1/loss nan'; do
    # shellcheck disable=SC2086 # two words
    accepts python3 "$source/tests/support/tensorfile.py" "$DAWN9_CASES" wrong.safetensors $spoilt
    rejects 1 '' "$dawn9" verify --cases wrong.safetensors --backend reference --precision f64 --threads 1
    says "^wrong .* FAILED .*${spoilt% *}\$"
done

# ---- a case whose name is not UTF-8 has its rows, too ----
odd=$(printf 'odd\377.safetensors')
cp wrong.safetensors "$odd"
rejects 1 '' "$dawn9" verify --cases "$odd" --backend reference --precision f64 --threads 1 --json
json "$out" '[r["case"] for r in d["rows"]] == ["odd?"] * (d["passed"] + d["failed"] + d["skipped"]) != []'

# ---- files that are not cases ----
rejects 3 'nowhere' "$dawn9" verify --cases nowhere
mkdir empty
rejects 3 'empty' "$dawn9" verify --cases empty
head -c 5000 "$DAWN9_CASES" >cut.safetensors
rejects 3 'cut.safetensors' "$dawn9" verify --cases cut.safetensors --backend reference

# ---- bench ----
accepts "$dawn9" bench step --config tiny.yaml --json
json "$out" 'd["images_per_second"] > 0 and d["step_seconds"] > 0 and d["peak_bytes"] > 1 << 20 and d["steps"] == 20' \
    'abs(d["images_per_second"] * d["step_seconds"] - d["batch_size"]) < 1e-6 * d["batch_size"]' \
    'all(n["rule"] and n["role"] for n in d["nodes"]) and any(n["gflop_per_second"] > 0 for n in d["nodes"])' \
    'sum(n["seconds"] for n in d["nodes"]) <= d["step_seconds"] * 1.01' \
    'all(min((n["gigabytes_per_second"] for n in d["nodes"] if n["node"] == name), default=0) > 0 for name in ("norm", "update", "augment"))' \
    '{"update", "metrics", "gather", "loss", "conv_backward_data"} <= {n["node"] for n in d["nodes"]}'
# bench eval: a batch of the evaluation, without gradients, updates and labels
accepts "$dawn9" bench eval --config tiny.yaml --json
json "$out" 'd["bench"] == "eval" and d["batch_size"] == 32 and d["images_per_second"] > 0'
json "$out" 'any(n["node"] == "norm_eval" for n in d["nodes"])' 'd["evaluation_share"] > 0'
json "$out" 'not any("backward" in n["node"] or n["node"] in ("update", "metrics", "gather", "loss") for n in d["nodes"])'
prints '^an evaluation, .*: [0-9]+[.][0-9]{2} of this rate$' "$dawn9" bench eval --config tiny.yaml --steps 2
accepts "$dawn9" bench pipeline --config tiny.yaml
says '^augment ' 'images/s' 'of which making its batch is [0-9.]*%'
accepts "$dawn9" bench cold --config tiny.yaml --json
json "$out" '0 < d["seconds_to_first_step"] < d["seconds_after_first_step"] < 60' \
    'd["first"] == d["segments"]["train"] and 0 < d["again"] < 60' \
    'abs(sum(d["segments"].values()) - d["seconds_after_first_step"]) < 1e-6'
prints 'process start to first training step .*; step 1 [0-9.]* ms, step 2 [0-9.]* ms$' "$dawn9" bench cold --config tiny.yaml
rejects 2 '--steps' "$dawn9" bench cold --config tiny.yaml --steps 3
verdict
