# dawn9 train and eval: the record, the end in five lines, seeds, resuming, and runs that must not start or finish.
. "$(dirname "$0")/lib.sh"
tiny >tiny.yaml
{ tiny; echo 'published: {accuracy: 94.1, seconds: 26, epochs: 10, hardware: V100, source: "a notebook"}'; } >known.yaml

# ---- a run and its record ----
started=$(date +%s)
accepts "$dawn9" train known.yaml --out run
wall=$(($(date +%s) - started + 1))
[ "$(tail -n 5 "$out" | cut -c1-11 | tr -d ' \n')" = accuracytimerecordpublishedcompare ] || fail "the end is not its five lines"
says '^    1  '
says '^accuracy   [0-9.]+% plain, [0-9.]+% with TTA, on 64 test images'
says '^time       train_seconds [0-9.]+ \(Page.s timer\), process_seconds [0-9.]+ \(everything\)$'
says '^published  94.1% after 10 epochs, train_seconds 26 on V100 \(a notebook\)'
says '^compare    dawn9 compare run OTHER '
[ "$(ls run | tr '\n' ' ')" = 'config.yaml epochs.tsv events.jsonl model.safetensors predictions.safetensors result.json submission.json ' ] ||
    fail "the record holds: $(ls run)"
[ "$(head -n 1 run/epochs.tsv)" = "$(printf 'epoch\thours\ttop1Accuracy')" ] || fail "epochs.tsv has another header"
[ "$(wc -l <run/epochs.tsv)" = 3 ] && [ "$(wc -l <run/events.jsonl)" = 2 ] || fail "not a row for each epoch"
json run/result.json 'd["seed"] == 1 and d["backend"] == "reference" and d["threads"] == 1 and not d["resumed"]'
json run/result.json 'len(d["params_sha256"]) == 64 and len(d["plan_sha256"]) == 64 and len(d["config_hash"]) == 64'
json run/result.json '0 < d["train_seconds"] < d["process_seconds"] <= '$wall
json run/result.json 'd["epoch_to_target"] is None or 0 < d["dawnbench_seconds"] < d["process_seconds"]'
json run/result.json 'abs(sum(s["seconds"] for s in d["timeline"][:-2]) - d["process_seconds"]) < 1e-3'
json run/result.json 'all(abs(a["start"] + a["seconds"] - b["start"]) < 1e-3 for a, b in zip(d["timeline"], d["timeline"][1:]))'
json run/submission.json 'd["framework"] == "dawn9" and d["model"] == "resnet9"'
cat run/*.json run/*.jsonl run/*.yaml run/*.tsv | grep -qwF "$(uname -n)" && fail "the record names the machine"

# ---- all four clocks; and one view alone has no column and no figure of its own ----
accepts "$dawn9" train tiny.yaml --without flip_tta --verbose --out plain
says '^time       train_seconds [0-9.]+ \(Page.s timer\), airbench_seconds .*dawnbench_seconds .*process_seconds [0-9.]+ \(everything\)$'
says '^epoch  train loss  accuracy  images/s  seconds$'
says '^accuracy   [0-9.]+%, on 64 test images; '
grep -q TTA "$out" && fail "a run with one view speaks of TTA"

# ---- eval gives the accuracy of the record, from the record alone ----
accepts "$dawn9" eval run/config.yaml run/model.safetensors --json
cp "$out" eval.json
json run/result.json 'd["accuracy"] == json.load(open("eval.json"))["accuracy"]'
json run/result.json 'd["accuracy_tta"] == json.load(open("eval.json"))["accuracy_tta"]'
accepts "$dawn9" eval run/config.yaml run/model.safetensors --logits run.logits
cat >logits.py <<'PYTHON'
import json, struct
def tensors(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    letters = {"F32": "f", "I32": "i", "U8": "B"}
    def values(entry):
        raw = data[8 + length:][slice(*entry["data_offsets"])]
        return struct.unpack(f"<{len(raw) // struct.calcsize(letters[entry['dtype']])}{letters[entry['dtype']]}", raw)
    return {name: (entry["shape"], values(entry)) for name, entry in header.items() if name != "__metadata__"}
found, predicted, result = tensors("run.logits"), tensors("run/predictions.safetensors"), json.load(open("run/result.json"))
assert sorted(found) == ["images", "labels", "logits", "logits_tta"]
assert found["images"][0] == [64, 3, 16, 16] and len(set(found["images"][1])) > 50
labels = found["labels"][1]
assert labels == predicted["label"][1] and found["logits"][1] != found["logits_tta"][1]
for name, key in (("logits", "accuracy"), ("logits_tta", "accuracy_tta")):
    shape, values = found[name]
    assert shape == [64, 10]
    rows = [values[10 * i:10 * i + 10] for i in range(64)]
    top1 = tuple(row.index(max(row)) for row in rows)
    assert 100 * sum(a == b for a, b in zip(top1, labels)) / 64 == result[key], name
assert top1 == predicted["top1"][1]
PYTHON
accepts python3 logits.py
refuses 2 'run/model.safetensors: .* is .*, in this configuration.s network ' "$dawn9" eval run/config.yaml run/model.safetensors --set model.channels=[4,4,8,16]
refuses 3 'nothing.safetensors' "$dawn9" eval run/config.yaml nothing.safetensors
head -c 1000 run/model.safetensors >cut.safetensors
refuses 3 'cut.safetensors' "$dawn9" eval run/config.yaml cut.safetensors

# ---- quiet, JSON, several seeds ----
accepts "$dawn9" train tiny.yaml --out quiet --quiet --data "$scratch/elsewhere"
grep -rqF "$scratch" quiet && fail "an absolute path is in $(grep -rlF "$scratch" quiet | tr '\n' ' ')"
[ "$(wc -l <"$out")" = 4 ] || fail "--quiet without a published number is not four lines"
accepts "$dawn9" train tiny.yaml --out json --json
cp "$out" printed.json
json printed.json 'd == json.load(open("json/result.json"))'
json printed.json 'd["params_sha256"] == json.load(open("run/result.json"))["params_sha256"]'
accepts "$dawn9" train tiny.yaml --runs 2 --seed 5 --set train.epochs=1 --out many
says '^mean       [0-9.]+% plain \(sd [0-9.]+\)'
json many/seed5/result.json 'd["seed"] == 5'
json many/seed6/result.json 'd["seed"] == 6 and d["params_sha256"] != json.load(open("many/seed5/result.json"))["params_sha256"]'
says '^compare    dawn9 compare many$'

# ---- several seeds, interrupted: --resume counts what is finished by its record ----
cp -r many half && rm -r half/seed6 && cp half/seed5/result.json seed5.json
accepts "$dawn9" train tiny.yaml --runs 1 --set train.epochs=1 --out one --json
json "$out" 'd["accuracy"]["runs"] == 1 and d["accuracy"]["standard_deviation"] == 0'
accepts "$dawn9" train tiny.yaml --runs 2 --seed 5 --set train.epochs=1 --out half --resume
says '^seed 5: finished before, half/seed5$'
cmp -s half/seed5/result.json seed5.json || fail "a finished seed was trained again"
accepts "$dawn9" train tiny.yaml --runs 2 --seed 5 --set train.epochs=1 --out half --resume --json
json "$out" 'len(d["runs"]) == 2 and d["accuracy"]["runs"] == 2'
json "$out" 'd["runs"][1]["params_sha256"] == json.load(open("many/seed6/result.json"))["params_sha256"]'
refuses 2 'half/seed5: holds a run of another' "$dawn9" train tiny.yaml --runs 2 --seed 5 --out half --resume
echo '{}' >half/seed5/result.json
refuses 3 'half/seed5/result.json: is not the result of a run' \
    "$dawn9" train tiny.yaml --runs 2 --seed 5 --set train.epochs=1 --out half --resume
accepts "$dawn9" train tiny.yaml --set train.epochs=1 --set keep=none --quiet
[ -f runs/tiny-seed1/result.json ] && [ ! -f runs/tiny-seed1/model.safetensors ] || fail "runs/tiny-seed1 is not as keep: none has it"
accepts "$dawn9" train tiny.yaml --set title=a/b --set train.epochs=0.5 --quiet
[ -f runs/a-b-seed1/result.json ] || fail "the slash of a title nests: $(ls runs)"

# ---- plans ----
accepts "$dawn9" train tiny.yaml --set train.epochs=1 --out plan --save-plan saved.plan --quiet
accepts "$dawn9" train tiny.yaml --set train.epochs=1 --out planned --plan saved.plan --quiet
json planned/result.json 'd["plan_sha256"] == json.load(open("plan/result.json"))["plan_sha256"]'
refuses 3 'no.plan' "$dawn9" train tiny.yaml --out x --plan no.plan
echo nonsense >bad.plan
refuses 2 'plan' "$dawn9" train tiny.yaml --out x --plan bad.plan

# A plan with rules that pool, and the same rule by rule: both are followed, and give the same bits.
cat >pools.yaml <<Y
backend: cpu
precision: f32
model: {name: resnet9, channels: [16, 17, 33, 18]}
data: {dataset: synthetic, synthetic_train: 16, synthetic_test: 8}
train: {epochs: 1, batch_size: 8}
tricks: {pool_before_activation: {position: before_norm}}
Y
accepts "$dawn9" train pools.yaml --out pools --save-plan pools.plan --quiet
grep -q '^pool_backward+conv_backward_weight+conv_backward_data' pools.plan || fail "no rule of pools.plan pools"
awk -F '\t' 'BEGIN { OFS = "\t" } { stem = $2; sub(/\.[a-z]*$/, "", stem) }
    $1 == "conv+pool" { print "conv", $2, $3; print "pool", stem ".pool", ""; next }
    /^pool_backward[+]/ { n = split($1, rule, "+"); print rule[1], $2, ""
        for (i = 2; i <= n; i++) print rule[i], stem ".conv", $3; next } { print }' pools.plan >apart.plan
cmp -s pools.plan apart.plan && fail "apart.plan has rules that pool"
accepts "$dawn9" train pools.yaml --out followed --plan pools.plan --quiet
accepts "$dawn9" train pools.yaml --out apart --plan apart.plan --quiet
for folder in followed apart; do
    json $folder/result.json 'd["params_sha256"] == json.load(open("pools/result.json"))["params_sha256"]'
done

# ---- folders: another configuration's, and ones that cannot be written ----
cp -r run held
refuses 2 'run: holds a run of another configuration' "$dawn9" train tiny.yaml --out run --set train.epochs=3
refuses 2 'run: holds a run of another configuration' "$dawn9" train tiny.yaml --out run --set train.epochs=3 --resume
diff -r run held >/dev/null || fail "a refused run touched the record"
echo x >file
refuses 6 'file' "$dawn9" train tiny.yaml --out file/run
refuses 6 '/proc' "$dawn9" train tiny.yaml --out /proc/none

# ---- a loss that leaves the finite numbers: 5, and no result ----
hot='train.lr={knots: [0, end], values: [1.0e6, 1.0e6]}'
ends 5 'the logits of evaluation image [0-9]+ are not finite' "$dawn9" train tiny.yaml --out last --quiet --set "$hot"
[ ! -e last/result.json ] && [ ! -e last/model.safetensors ] || fail "logits that are no numbers have an accuracy"
ends 5 'the loss became non-finite at step [0-9]+ \(epoch [0-9]+\)' "$dawn9" train tiny.yaml --out hot --quiet --set "$hot" \
    --set eval.every=0
[ ! -e hot/result.json ] && [ ! -e hot/model.safetensors ] || fail "a run that failed left a result"

# ---- interrupts: a checkpoint, status 130 and 143; the resumed run equals the uninterrupted one ----
{ tiny | slower | sed 's/synthetic_train: 128/synthetic_train: 64/; s/epochs: 2/epochs: 30/'; echo 'eval: {every: 10}'; } >long.yaml
interrupted() { # SIGNAL FOLDER: a signal once the first epoch is on record
    "$dawn9" train long.yaml --out "$2" --quiet &
    child=$!
    until_written "$2/events.jsonl" $child
    kill -s "$1" $child
    wait $child
}
ends 130 'interrupted before step [0-9]+ of 60: a checkpoint was written; --resume continues: .*dawn9 train long.yaml --out broken --quiet --resume$' interrupted INT broken
ends 143 'interrupted before step [0-9]+ of 60.*--resume' interrupted TERM stopped
[ -f stopped/checkpoint.safetensors ] && [ ! -e stopped/result.json ] || fail "an interrupted run left: $(ls stopped)"
refuses 2 'another' "$dawn9" train long.yaml --out stopped --resume --seed 2
accepts "$dawn9" train long.yaml --out stopped --resume --quiet
accepts "$dawn9" train long.yaml --out straight --quiet
json stopped/result.json 'd["resumed"] and "process_seconds" not in d'
json stopped/result.json 'd["params_sha256"] == json.load(open("straight/result.json"))["params_sha256"]'
[ "$(cut -f1,3 stopped/epochs.tsv)" = "$(cut -f1,3 straight/epochs.tsv)" ] || fail "the resumed run's epochs are others"
verdict
