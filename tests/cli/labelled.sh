# Pictures with a table of labels: one label and several, areas under the curve in record, report and eval, rows with errors.
. "$(dirname "$0")/lib.sh"
draw drawn bars=24 disc=24 stripes=24
for file in drawn/*/*.png; do
    place=${file#drawn/} kind=${file#drawn/} number=${file##*/}
    kind=${kind%/*} number=${number%.png}
    case $kind in bars) names='lines|straight' ;; stripes) names='lines' ;; *) names='none' ;; esac
    echo "$place,$names,$kind,$((1${number#0} % 12))"
done >rows
{ echo file,names,kind,group && cat rows; } >drawn/labels.csv
cat >several.yaml <<'YAML'
data: {dataset: labelled, image_size: 20, fit: letterbox, input_size: 16, grey: on, label_column: names, group_column: group, no_label: none}
model: {name: resnet9, channels: [8, 8, 8, 8]}
train: {loss: sigmoid, epochs: 6, batch_size: 8, lr: {knots: [0, 1, end], values: [0, 0.2, 0.01]}}
tricks: {flip: {}}
precision: f32
YAML
runs "$dawn9" train several.yaml --data drawn --out runs/several
record runs/several 'd["measure"] == "auc" and d["auc"] > 0.7' 'd["classes"] == ["lines", "straight"]' \
    '[l["label"] for l in d["labels"]] == d["classes"]' \
    'abs(sum(l["auc"] for l in d["labels"]) / 2 - d["auc"]) < 1e-9'
accepts "$dawn9" eval runs/several --data drawn --json
json "$out" 'abs(d["auc"] - result("runs/several")["auc"]) < 1e-9' 'len(d["labels"]) == 2'
cp "$out" evaluated
accepts "$dawn9" predict runs/several drawn/bars/00.png --top 2 --json
json "$out" 'len(d["top"]) == 2 and all(0 <= t["probability"] <= 1 for t in d["top"])'
accepts "$dawn9" report runs
grep -q straight runs/report/labels.tsv || fail "the report has no table of labels"

# ---- predict reads pictures as the evaluation does: stored size, grey, size of the network ----
accepts "$dawn9" eval runs/several --data drawn --logits logits.safetensors
awk -F, '$4 >= 9 { print "drawn/" $1 }' rows >tested
"$dawn9" predict runs/several $(cat tested) --top 2 --json >predicted || fail "predict of the test images: status $?"
asserts <<'PYTHON'
import math
tensors = read("logits.safetensors")[1]
(rows, labels), logits = tensors["logits"]
lines = [json.loads(line) for line in open("predicted")]
assert len(lines) == rows > 10, (len(lines), rows)
for i, line in enumerate(lines):
    for top in line["top"]:
        wanted = 1 / (1 + math.exp(-logits[i * labels + top["class"]]))
        assert abs(top["probability"] - wanted) < 1e-5, (line["file"], top, wanted)

# the loss of the last evaluation: binary cross-entropy, mean over labels and images
bits = tensors["labels"][1]
loss = sum(math.log1p(math.exp(-z if bits[i // labels] >> i % labels & 1 else z)) for i, z in enumerate(logits)) / len(logits)
recorded = [epoch["eval_loss"] for epoch in result("runs/several")["epochs"]]
assert abs(recorded[-1] - loss) < 1e-5 and recorded[0] > loss and len(recorded) == 6, (recorded, loss)

# precision, recall and F1 of each label, predicted where its logit is above 0, and their means
evaluated = json.load(open("evaluated"))
names = result("runs/several")["classes"]
for label in evaluated["labels"]:
    k = names.index(label["label"])
    has, said = [b >> k & 1 for b in bits], [z > 0 for z in logits[k::labels]]
    hits = sum(h and s for h, s in zip(has, said))
    wanted = [100 * hits / sum(said) if sum(said) else 0, 100 * hits / sum(has), 200 * hits / (sum(said) + sum(has))]
    assert all(abs(a - label[b]) < 1e-9 for a, b in zip(wanted, ("precision", "recall", "f1"))), (label, wanted)
assert any(0 < label["f1"] < 100 for label in evaluated["labels"]), evaluated
for key in "precision", "recall", "f1":
    assert abs(evaluated["macro"][key] - sum(label[key] for label in evaluated["labels"]) / labels) < 1e-9, evaluated

# the report's table has the same numbers
heading, *rows = [line.rstrip("\n").split("\t") for line in open("runs/report/labels.tsv")]
assert len(rows) == labels
for row in (dict(zip(heading, row)) for row in rows):
    label = next(label for label in evaluated["labels"] if label["label"] == row["label"])
    assert all(abs(float(row[key]) - label[key]) < 1e-6 for key in ("auc", "precision", "recall", "f1")), (row, label)
PYTHON
has runs/report.html 'Macro mean of [^<]*: precision'

# ---- one label: the same table, with classes by name ----
runs "$dawn9" train several.yaml --data drawn --out single --epochs 1 --set train.loss=cross_entropy --set data.no_label= --set data.label_column=kind
record single 'd["classes"] == ["bars", "disc", "stripes"]' '"accuracy" in d and "labels" not in d'

# ---- a split column without test rows: images that the model has not seen are all evaluated, others are an error ----
parts() { # TABLE CONDITION PART: rows for which the awk condition holds, of this part (awk)
    { echo file,kind,split && awk -F, "$2"' { print $1 "," $3 "," '"$3"' }' rows; } >"drawn/$1"
}
parts parts.csv 1 '($4 < 9 ? "train" : "test")'
parts unseen.csv '$4 >= 9' '"train"'
parts trained.csv '$4 < 9' '"train"'
parts tests.csv 1 '"test"'
sed 's/label_column: names, group_column: group, no_label: none/label_column: kind, split_column: split, table: parts.csv/
    s/loss: sigmoid, //' several.yaml >parts.yaml
runs "$dawn9" train parts.yaml --data drawn --out parts --epochs 1
count=$(awk -F, '$4 >= 9' rows | wc -l)
prints "on all $count images: none is among" "$dawn9" eval parts --data drawn --set data.table=unseen.csv
rejects 3 'trained.csv: no image to evaluate on' "$dawn9" eval parts --data drawn --set data.table=trained.csv
observe "$dawn9" eval parts.yaml parts/model.safetensors --data drawn --set data.table=tests.csv
[ $status = 3 ] && grep -q 'dawn9: tests.csv: no training image' "$err" || fail "status $status: $(cat "$err")"

# A damaged picture of the validation part does not end an evaluation that does not ask for this part.
{ cat drawn/parts.csv && sed -n '2s/^[^,]*,\([^,]*\),.*/damaged.png,\1,valid/p' drawn/parts.csv; } >drawn/valid.csv
echo damaged >drawn/damaged.png
runs "$dawn9" train parts.yaml --data drawn --set data.table=valid.csv --out valid --epochs 1
runs "$dawn9" eval valid --data drawn
warns 'drawn/damaged.png: .*; left out$'
rejects 3 'damaged.png --skip-damaged' "$dawn9" train parts.yaml --data drawn --set data.table=valid.csv --out no --set data.validation=1
rm drawn/damaged.png

# ---- rejected configurations and tables ----
rejects 2 'train.loss data.dataset labelled' "$dawn9" train several.yaml --set data.dataset=folder --set data.label_column=label \
    --set data.group_column= --set data.no_label= --data drawn --out no
for command in train config; do # config reads no images
    rejects 2 'data.group_column data.dataset labelled folder' "$dawn9" $command several.yaml --set data.dataset=folder \
        --set data.path=drawn --set train.loss=cross_entropy
done
rejects 2 'label_smoothing' "$dawn9" train several.yaml --with label_smoothing --set data.validation=1 --data drawn --out no
rejects 2 'class_weights' "$dawn9" train several.yaml --set train.class_weights=balanced --data drawn --out no
rejects 2 'data.no_label: .*train.loss=sigmoid' "$dawn9" train several.yaml --set train.loss=cross_entropy --data drawn --out no
rejects 2 'data.separator: .*train.loss=sigmoid' "$dawn9" train several.yaml --set train.loss=cross_entropy --set data.no_label= \
    --set 'data.separator=;' --data drawn --out no
for shares in '[0.5,0.5]' '[0.9]' '[0,0,0]' '[0.5,0.2,0.4]' '[0,0.5,0.5]'; do
    rejects 2 'data.shares: must be three' "$dawn9" train several.yaml --set "data.shares=$shares" --data drawn --out no
done
rejects 2 'data.shares: .*data.group_column' "$dawn9" train several.yaml --set data.group_column= \
    --set 'data.shares=[0.5,0.2,0.3]' --data drawn --out no
{ cat drawn/labels.csv && echo 'missing.png,lines,bars,1' && echo 'bars/00.png'; } >drawn/faulty.csv
observe "$dawn9" train several.yaml --set data.table=faulty.csv --data drawn --out no
[ $status = 3 ] && grep -q '^dawn9: .*faulty.csv: 2 errors' "$err" || fail "rows with errors: status $status"
grep -q 'faulty.csv:74: no picture missing.png' "$err" && grep -q 'faulty.csv:75: 1 cell,' "$err" || fail "the list of rows"
verdict
