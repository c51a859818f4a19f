# dawn9 train and eval: the record, the five closing lines, plans, several seeds, interrupts and resuming, the live
# page, keep: best, early stopping, --find-lr, and runs that are rejected or fail.
. "$(dirname "$0")/lib.sh"
tiny >tiny.yaml
{ tiny; echo 'published: {accuracy: 94.1, seconds: 26, epochs: 10, hardware: V100, source: "a notebook"}'; } >known.yaml

# ---- a run and its record ----
started=$(date +%s)
accepts "$dawn9" train known.yaml --out run
wall=$(($(date +%s) - started + 1))
[ "$(tail -n 5 "$out" | cut -c1-11 | tr -d ' \n')" = accuracytimerecordpublishedreport ] || fail "the end is not its five lines"
says '^    1  ' '^accuracy   [0-9.]+% plain, [0-9.]+% with TTA, on 64 test images'
says '^time       train_seconds [0-9.]+ \(Page.s timer\), process_seconds [0-9.]+ \(everything\)$'
says '^published  94.1% after 10 epochs, train_seconds 26 on V100 \(a notebook\)' '^report     .*/dawn9 report run$'
[ "$(ls run | tr '\n' ' ')" = 'config.yaml epochs.tsv events.jsonl model.safetensors predictions.safetensors result.json submission.json ' ] ||
    fail "the record holds: $(ls run)"
[ "$(head -n 1 run/epochs.tsv)" = "$(printf 'epoch\thours\ttop1Accuracy')" ] || fail "epochs.tsv has another header"
[ "$(wc -l <run/epochs.tsv)" = 3 ] && [ "$(wc -l <run/events.jsonl)" = 2 ] || fail "not a row for each epoch"
record run 'd["seed"] == 1 and d["backend"] == "reference" and d["threads"] == 1 and not d["resumed"]' \
    'len(d["params_sha256"]) == 64 and len(d["plan_sha256"]) == 64 and len(d["config_hash"]) == 64' \
    '0 < d["train_seconds"] < d["process_seconds"] <= '$wall \
    'd["epoch_to_target"] is None or 0 < d["dawnbench_seconds"] < d["process_seconds"]' \
    'abs(sum(s["seconds"] for s in d["timeline"][:-2]) - d["process_seconds"]) < 1e-3' \
    'all(abs(a["start"] + a["seconds"] - b["start"]) < 1e-3 for a, b in zip(d["timeline"], d["timeline"][1:]))'
json run/submission.json 'd["framework"] == "dawn9" and d["model"] == "resnet9"'
cat run/*.json run/*.jsonl run/*.yaml run/*.tsv | grep -qwF "$(uname -n)" && fail "the record names the machine"

# ---- gradient accumulation: two updates in four batches; a complete run prints no line "ended" ----
accepts "$dawn9" train tiny.yaml --set train.accumulate=2 --set train.epochs=1 --lr 0.1 --out accumulated
says '4 steps of 32 images, .* an update every 2 steps,'
hides '^ended'

# ---- a warm-up that takes the whole run ----
runs "$dawn9" train tiny.yaml --set 'train.lr={shape: cosine, peak: 0.1, warmup: 1}' --set train.epochs=1 --quiet --out warm
[ "$(wc -l <"$err")" = 1 ] && grep -q '^dawn9: warning: train.lr: .*warm-up.* 1,' "$err" || fail "a warm-up as long as the run: $(cat "$err")"
accepts "$dawn9" train tiny.yaml --set 'train.lr={shape: cosine, peak: 0.1, warmup: 0.5}' --set train.epochs=1 --quiet --out warm --overwrite
# a knot beyond the end of the run
runs "$dawn9" train tiny.yaml --set 'train.lr={knots: [0, 1.5, end]}' --set train.epochs=1 --quiet --out warm --overwrite
[ "$(wc -l <"$err")" = 1 ] && grep -q '^dawn9: warning: train.lr: .* 1, .* 1\.5, .* 0\.4$' "$err" || fail "a knot beyond the end: $(cat "$err")"
accepts "$dawn9" train tiny.yaml --set 'train.lr={knots: [0, 1, end]}' --set train.epochs=1 --quiet --out warm --overwrite
# whole images only after the end of the run
runs "$dawn9" train tiny.yaml --with 'progressive:scales=[0.75],until=[1]' --set train.epochs=1 --quiet --out warm --overwrite
[ "$(wc -l <"$err")" = 1 ] && grep -q '^dawn9: warning: tricks.progressive: .* epoch 1, .* 1$' "$err" || fail "no whole images: $(cat "$err")"
for sizes in 'scales=[0.75],until=[0.5]' 'scales=[0.75,1],until=[0.5,1]'; do
    accepts "$dawn9" train tiny.yaml --with "progressive:$sizes" --set train.epochs=1 --quiet --out warm --overwrite
done

# ---- all four clocks; no TTA column with a single view ----
accepts "$dawn9" train tiny.yaml --without flip_tta --verbose --out plain
says '^time       train_seconds [0-9.]+ \(Page.s timer\), airbench_seconds .*dawnbench_seconds .*process_seconds [0-9.]+ \(everything\)$'
says '^epoch  train loss  accuracy  images/s  seconds$' '^accuracy   [0-9.]+%, on 64 test images; '
grep -q TTA "$out" && fail "a run with one view speaks of TTA"
prints '^finished   before, [0-9.]+%; --overwrite' "$dawn9" train tiny.yaml --without flip_tta --verbose --out plain --resume
accepts "$dawn9" train tiny.yaml --without flip_tta --set train.epochs=1 --runs 2 --out plain-many
says '^mean       [0-9.]+% \(sd [0-9.]+\), over 2 runs$'
hides '^(ended|model) '

accepts "$dawn9" train tiny.yaml --backend cpu --precision f32 --verbose --out -shares
says "^report     .*/dawn9 report ./-shares$" '^epoch  train loss  accuracy  with TTA  images/s  seconds  x peak$'
says '^    2  .*  [0-9]\.[0-9][0-9]x$'
says '^rate       [0-9]+ GFLOP/s in training, [0-9]\.[0-9][0-9] times that of a large matrix product'

# ---- a small stack, of the main thread and of the others ----
small_stack() { (ulimit -s 192 && exec "$@"); }
accepts small_stack "$dawn9" train tiny.yaml --backend cpu --threads 2 --quiet --out small-stack
rejects 4 'threads 16 OMP_STACKSIZE=192k' env OMP_STACKSIZE=16k "$dawn9" train tiny.yaml --backend cpu --threads 2 --out no-stack

# ---- eval gives the accuracy of the record, from the record alone ----
accepts "$dawn9" eval run/config.yaml run/model.safetensors --json
cp "$out" eval.json
record run 'd["accuracy"] == json.load(open("eval.json"))["accuracy"]' \
    'd["accuracy_tta"] == json.load(open("eval.json"))["accuracy_tta"]'
accepts "$dawn9" eval run/config.yaml run/model.safetensors --logits run.logits
asserts <<'PYTHON'
found, predicted = read("run.logits")[1], read("run/predictions.safetensors")[1]
result = result("run")
assert sorted(found) == ["images", "labels", "logits", "logits_tta"]
assert found["images"][0] == [64, 3, 16, 16] and len(set(found["images"][1])) > 50
labels = found["labels"][1]
assert labels == predicted["label"][1] and found["logits"][1] != found["logits_tta"][1]
for name, key in (("logits", "accuracy"), ("logits_tta", "accuracy_tta")):
    shape, values = found[name]
    assert shape == [64, 10]
    rows = [values[10 * i:10 * i + 10] for i in range(64)]
    top1 = [row.index(max(row)) for row in rows]
    assert 100 * sum(a == b for a, b in zip(top1, labels)) / 64 == result[key], name
assert top1 == list(predicted["top1"][1])
PYTHON
rejects 2 'run/model.safetensors' "$dawn9" eval run/config.yaml run/model.safetensors --set model.channels=[4,4,8,16]
rejects 3 'nothing.safetensors' "$dawn9" eval run/config.yaml nothing.safetensors
head -c 1000 run/model.safetensors >cut.safetensors
rejects 3 'cut.safetensors' "$dawn9" eval run/config.yaml cut.safetensors

# ---- quiet, JSON, several seeds ----
accepts "$dawn9" train tiny.yaml --out quiet --quiet --data "$scratch/elsewhere"
grep -rqF "$scratch" quiet && fail "an absolute path is in $(grep -rlF "$scratch" quiet | tr '\n' ' ')"
lines_are 4 "$out"
accepts "$dawn9" train tiny.yaml --out json --json
json "$out" 'd == result("json")' 'd["params_sha256"] == result("run")["params_sha256"]'
prints '^mean       [0-9.]+% plain \(sd [0-9.]+\)' "$dawn9" train tiny.yaml --runs 2 --seed 5 --set train.epochs=1 --out many
record many/seed5 'd["seed"] == 5'
record many/seed6 'd["seed"] == 6 and d["params_sha256"] != result("many/seed5")["params_sha256"]'
says '^compare    .*/dawn9 compare many$'

rejects 2 'run --runs --out' "$dawn9" train tiny.yaml --runs 2 --out run
rejects 2 'many --out' "$dawn9" train tiny.yaml --out many --overwrite

# ---- several seeds, interrupted: --resume skips the seeds whose record shows that they finished ----
cp -r many half && rm -r half/seed6 && cp half/seed5/result.json seed5.json
accepts "$dawn9" train tiny.yaml --runs 1 --set train.epochs=1 --out one --json
json "$out" 'd["accuracy"]["runs"] == 1 and d["accuracy"]["standard_deviation"] is None'
accepts "$dawn9" train tiny.yaml --runs 1 --set train.epochs=1 --out one --overwrite
says '^mean       [0-9.]+%( plain, [0-9.]+% with TTA)?, over 1 run$'
prints '^seed 5: finished before, half/seed5$' "$dawn9" train tiny.yaml --runs 2 --seed 5 --set train.epochs=1 --out half --resume
same half/seed5/result.json seed5.json "a finished seed was trained again"
accepts "$dawn9" train tiny.yaml --runs 2 --seed 5 --set train.epochs=1 --out half --resume --json
json "$out" 'len(d["runs"]) == 2 and d["accuracy"]["runs"] == 2' \
    'd["runs"][1]["params_sha256"] == result("many/seed6")["params_sha256"]'
rejects 2 'half/seed5' "$dawn9" train tiny.yaml --runs 2 --seed 5 --out half --resume
# A damaged result is found before a seed is trained; without it --resume trains this seed again.
mv half/seed5 seed5
for damaged in '{}' '{"accuracy": "x"}' '{"accuracy": -5}' '{"accuracy_tta": 5}' '{"accur'; do
    echo "$damaged" >half/seed6/result.json
    rejects 3 'half/seed6/result.json --resume' "$dawn9" train tiny.yaml --runs 2 --seed 5 --set train.epochs=1 --out half --resume
    lacks "$err" '--overwrite'
    rejects 3 'half/seed6/result.json --resume' "$dawn9" train tiny.yaml --seed 6 --set train.epochs=1 --out half/seed6 --resume
done
mv seed5 half && rm half/seed6/result.json
accepts "$dawn9" train tiny.yaml --runs 2 --seed 5 --set train.epochs=1 --out half --resume --quiet
says '^seed 5: finished before'
same_bits half/seed6 many/seed6
accepts "$dawn9" train tiny.yaml --set train.epochs=1 --set keep=none --quiet
[ -f runs/tiny-seed1/result.json ] && [ ! -f runs/tiny-seed1/model.safetensors ] || fail "runs/tiny-seed1 is not as keep: none has it"
# The error about a folder without a model says why there is none.
rejects 3 'runs/tiny-seed1 keep' "$dawn9" eval runs/tiny-seed1
rejects 2 'train.from runs/tiny-seed1 keep' "$dawn9" train tiny.yaml --set train.from=runs/tiny-seed1
mkdir begun && : >begun/checkpoint.safetensors
rejects 3 'begun --resume' "$dawn9" export begun begun.onnx
accepts "$dawn9" train tiny.yaml --set title=a/b --set train.epochs=0.5 --quiet
[ -f runs/a-b-seed1/result.json ] || fail "the slash of a title nests: $(ls runs)"

# ---- plans ----
accepts "$dawn9" train tiny.yaml --set train.epochs=1 --out plan --save-plan saved.plan --quiet
accepts "$dawn9" train tiny.yaml --set train.epochs=1 --out planned --plan saved.plan --quiet
record planned 'd["plan_sha256"] == result("plan")["plan_sha256"]'
rejects 3 'no.plan' "$dawn9" train tiny.yaml --out x --plan no.plan
echo nonsense >bad.plan
rejects 2 'plan' "$dawn9" train tiny.yaml --out x --plan bad.plan

# A plan with rules that include pooling, and the same plan with single rules: both give the same bits.
cat >pools.yaml <<Y
backend: cpu
precision: f32
model: {name: resnet9, channels: [16, 17, 33, 18]}
data: {dataset: synthetic, synthetic_train: 16, synthetic_test: 8}
train: {epochs: 1, batch_size: 8}
tricks: {pool_before_activation: {position: before_norm}}
Y
accepts "$dawn9" train pools.yaml --out pools --save-plan pools.plan --quiet
has pools.plan '^pool_backward\+conv_backward_weight\+conv_backward_data'
awk -F '\t' 'BEGIN { OFS = "\t" } { stem = $2; sub(/\.[a-z]*$/, "", stem) }
    $1 == "conv+pool" { print "conv", $2, $3; print "pool", stem ".pool", ""; next }
    /^pool_backward[+]/ { n = split($1, rule, "+"); print rule[1], $2, ""
        for (i = 2; i <= n; i++) print rule[i], stem ".conv", $3; next } { print }' pools.plan >apart.plan
differ pools.plan apart.plan "apart.plan has rules that pool"
accepts "$dawn9" train pools.yaml --out followed --plan pools.plan --quiet
accepts "$dawn9" train pools.yaml --out apart --plan apart.plan --quiet
same_bits pools followed apart

# ---- folders that cannot be written ----
echo x >file
rejects 6 'file' "$dawn9" train tiny.yaml --out file/run
rejects 6 '/proc' "$dawn9" train tiny.yaml --out /proc/none

# ---- a non-finite loss: status 5 and no result ----
hot='train.lr={knots: [0, end], values: [1.0e6, 1.0e6]}'
ends 5 'logits image [0-9]+' "$dawn9" train tiny.yaml --out last --quiet --set "$hot"
[ ! -e last/result.json ] && [ ! -e last/model.safetensors ] || fail "logits that are no numbers have an accuracy"
ends 5 'non-finite [0-9]+' "$dawn9" train tiny.yaml --out hot --quiet --set "$hot" --set eval.every=0
ends 5 'dawn9:.seed.7: non-finite [0-9]+' "$dawn9" train tiny.yaml --runs 2 --seed 7 --out hot-many --quiet --set "$hot" --set eval.every=0
[ ! -e hot/result.json ] && [ ! -e hot/model.safetensors ] || fail "a run that failed left a result"

# ---- interrupts: a checkpoint, status 130 and 143; the resumed run equals the uninterrupted one ----
{ tiny | slower | sed 's/synthetic_train: 128/synthetic_train: 64/; s/epochs: 2/epochs: 8/'; echo 'eval: {every: 4}'; } >long.yaml
interrupted() { # SIGNAL FILE FOLDER OPTION...: trains into FOLDER, and sends SIGNAL once FILE is there
    signal=$1 file=$3/$2 folder=$3
    shift 3
    signalled "$signal" "$file" "$dawn9" train long.yaml --out "$folder" "$@"
}
ends 130 '[0-9]+ 16 --resume long.yaml --out --quiet --html' interrupted INT events.jsonl broken --quiet --html
has broken/live.html '<p>interrupted before step [0-9]* of 16'
accepts "$dawn9" train long.yaml --out broken --quiet --html --resume
[ "$(grep -c '^<tr><td>' broken/live.html)" = 8 ] || fail "the page of a resumed run lacks epochs"
ends 143 '[0-9]+ 16 again --resume' interrupted TERM events.jsonl stopped --quiet --set "title=$(printf '%0900d' 1)" # no room
[ -f stopped/checkpoint.safetensors ] && [ ! -e stopped/result.json ] || fail "an interrupted run left: $(ls stopped)"
rejects 2 'another' "$dawn9" train long.yaml --out stopped --resume --seed 2
accepts "$dawn9" train long.yaml --out stopped --resume --quiet
accepts "$dawn9" train long.yaml --out straight --quiet
record stopped 'd["resumed"] and "process_seconds" not in d'
same_bits stopped straight
[ "$(cut -f1,3 stopped/epochs.tsv)" = "$(cut -f1,3 straight/epochs.tsv)" ] || fail "the resumed run's epochs are others"
# ---- the live page of a run ----
prints '^page       paged/live.html' "$dawn9" train tiny.yaml --seed 7 --html --out paged
has paged/live.html '<p>finished: accuracy [0-9.]*%, with TTA [0-9.]*%</p>'
lacks paged/live.html 'http-equiv=refresh'
asserts paged/live.html <<'PYTHON'
import re
for picture in re.findall("<svg.*?</svg>", open(sys.argv[1]).read(), re.S):
    for axis in "x", "y": # multiples of 1, 2 or 5 times a power of ten, at equal distances
        texts = re.findall(f"<text class={axis} .*?>(.*?)</text>", picture)
        ticks = [float(text) for text in texts]
        steps = {round(b - a, 9) for a, b in zip(ticks, ticks[1:])}
        assert len(ticks) >= 2 and len(steps) == 1, ticks
        step = steps.pop()
        assert f"{step:e}"[0] in "125" and float(f"{step:e}"[1:8]) == 0, ticks
        assert all(abs(tick / step - round(tick / step)) < 1e-6 for tick in ticks), ticks
        assert "-" not in "".join(texts) and (axis == "x" or "Accuracy" not in picture or max(ticks) <= 100), ticks
    assert ">epoch<" in picture
PYTHON
[ "$(grep -c '<polyline class=first' paged/live.html)" = 2 ] || fail "the page has not two curves"
[ "$(grep -c '<circle class=first' paged/live.html)" = 4 ] || fail "the page's curves have not a point for each epoch"
[ "$(grep -c '<circle class=second' paged/live.html)" = 3 ] || fail "the page's dashed curves have not a point for each evaluation"
grep -q TTA paged/live.html || fail "the page of a run with views has no column for them"
accepts "$dawn9" train tiny.yaml --without flip_tta --html --out paged-plain --set train.epochs=1
[ "$(grep -c '<circle' paged-plain/live.html)" = 3 ] || fail "one epoch is not to be seen in the page's curves"
grep -q TTA paged-plain/live.html && fail "the page of a run with one view speaks of TTA"
rejects 2 '--html --events' "$dawn9" train tiny.yaml --seed 8 --html --events --out none

# ---- keep: best and early stopping, by validation images only ----
rejects 2 'keep data.validation' "$dawn9" train tiny.yaml --set keep=best --out best
rejects 2 'eval.patience data.validation' "$dawn9" train tiny.yaml --set eval.patience=2 --out best
rejects 2 'eval.patience eval.every 1' "$dawn9" train tiny.yaml --set eval.patience=2 --set eval.every=2 \
    --set data.validation=64 --out best
accepts "$dawn9" train tiny.yaml --set keep=best --set data.validation=64 --set train.epochs=6 --lr 0.9 --out best
says "^test       $dawn9 eval best --set data.validation=0\$" # the test part is not evaluated yet
says '^model      of epoch [1-6], best validation accuracy without TTA: '
cp "$out" best.txt
record best 'd["best_epoch"] == max(d["epochs"], key=lambda e: (e["accuracy"], -e["epoch"]))["epoch"]'
replies 'abs(d["accuracy_tta"] - result("best")["accuracy_tta"]) < 1e-9' "$dawn9" eval best/model.safetensors --json
record best 'd["accuracy"] == d["epochs"][d["best_epoch"] - 1]["accuracy"] and d["best_epoch"] < len(d["epochs"])' \
    'd["accuracy_tta"] == d["epochs"][d["best_epoch"] - 1]["accuracy_tta"]' \
    'd["accuracy"] == max(e["accuracy"] for e in d["epochs"])' \
    'any(e["accuracy_tta"] is None for e in d["epochs"]) and d["epochs"][-1]["accuracy_tta"] is not None'
accepts "$dawn9" train tiny.yaml --set keep=best --set data.validation=64 --set train.epochs=6 --lr 0.9 --set eval.tta=every --out every
says '^model      of epoch [1-6], best validation accuracy: '
accepts "$dawn9" train tiny.yaml --without flip_tta --set keep=best --set data.validation=64 --set train.epochs=1 --out one-view
says '^model      of epoch 1, best validation accuracy: '
record every 'd["accuracy_tta"] == max(e["accuracy_tta"] for e in d["epochs"]) > d["epochs"][-1]["accuracy_tta"]' \
    '[e["accuracy"] for e in d["epochs"]] == [e["accuracy"] for e in result("best")["epochs"]]'
cp best.txt "$out"
hides '^ended '
accepts "$dawn9" report best --json
kept=$(sed -n 's/^model *of epoch \([1-6]\),.*/\1/p' best.txt)
has best/report.html "The model is of epoch $kept, the best of 6 trained"
right=$(awk -F '\t' '$1 == $3 && NR > 1 { n += $5 } END { printf "%.6f", 100 * n / 64 }' best/report/confusion.tsv)
json best/result.json "abs(d['accuracy_tta'] - $right) < 1e-5" # the confusion matrix is the kept model's
verdict=$(sed -n 's/^<p class=verdict>One run: \([0-9.]*\)%.*/\1/p' best/report.html)
record best "abs(d['accuracy_tta'] - $verdict) < 0.01"
json "$out" 'abs(sum(c["images"] * c["accuracy"] for c in d["classes"]) / 64 - result("best")["accuracy_tta"]) < 1e-6'
prints ', on 64 validation images$' "$dawn9" eval best
prints ', on 64 test images$' "$dawn9" eval best --set data.validation=0
accepts "$dawn9" eval best --set data.validation=32
lacks "$err" 'training images'
runs "$dawn9" eval best --set data.validation=80
warns 'data.validation 80: 16 of .* training images .* 64$'
runs "$dawn9" eval tiny.yaml best --set data.validation=65
warns 'data.validation 65: 1 of .* training images .* 64$'
tired="--set eval.patience=2 --set data.validation=64 --set train.epochs=8.5 --lr 1e-9 --without flip_tta"
accepts "$dawn9" train tiny.yaml $tired --runs 2 --set keep=best --out tired-many
[ "$(grep -A 2 '^seed [12]: ' "$out" | grep -c '^ended      after epoch [3-8] of 9: 2 epochs without improvement$')" = 2 ] ||
    fail "not each seed says that it ended early"
[ "$(grep -A 2 '^seed [12]: ' "$out" | grep -c '^model      of epoch [1-6], ')" = 2 ] || fail "not each seed says its best epoch"
accepts "$dawn9" train tiny.yaml $tired --set keep=best --html --out tired-page
says '^ended      after epoch 3 of 9: 2 epochs without improvement$'
grep -Eq '<p>finished: accuracy [0-9.]+%; ended after epoch 3 of 9: 2 epochs without .*; model of epoch 1, .*: [0-9.]+%</p>' \
    tired-page/live.html || fail "the page does not say how it ended early: $(grep '^<p>' tired-page/live.html)"
[ "$(grep '<text class=x ' tired-page/live.html | tail -n 1 | sed 's/.*>\(.*\)<.*/\1/')" = 3 ] || fail "the axis of the page is of the epochs that were asked for"
replies '[a["epochs"] for a in d["arms"]] == [3]' "$dawn9" report tired-page --json
has tired-page/report.html 'The model is of epoch 1, the best of 3 trained'
has tired-page/live.html '^<progress max=([0-9]+) value=\1>'
accepts "$dawn9" train tiny.yaml --set eval.patience=2 --set data.validation=64 --set train.epochs=9 --lr 1e-9 --without flip_tta --out tired
record tired 'len(d["epochs"]) == 3 and d["steps"] == 3 * (d["train_images"] // d["batch_size"])' \
    'd["airbench_seconds"] > d["train_seconds"] > 0 and d["train_teraflop"] < result("best")["train_teraflop"]'

best='--set keep=best --set data.validation=16 --set eval.every=1'
accepts "$dawn9" train long.yaml $best --out best-straight --quiet
ends 130 '[0-9]+' interrupted INT model.safetensors best-broken --quiet $best
accepts "$dawn9" train long.yaml $best --out best-broken --quiet --resume
same best-straight/model.safetensors best-broken/model.safetensors "an interrupt changes or loses the best model"

# ---- the learning rate range test ----
accepts "$dawn9" train tiny.yaml --batch-size 16 --find-lr --out rates
says '^ *rate +loss$' '^tiny: 120 steps of 16 images, learning rates from 0.0004 to 40$'
says '^(lowest loss at learning rate [0-9.e+-]+; a usual peak is a tenth of it: --lr |the loss still falls at the largest learning rate tried)'
grep -q muon "$out" && fail "a test of rates without muon speaks of it"
says '^plot       rates/rates.svg$'
awk -F '\t' 'NR > 2 && !($1 > before) { falls++ } { before = $1 } END { exit falls || NR < 20 }' rates/rates.tsv || fail "the rates do not grow"
cp "$out" said
asserts <<'PYTHON'
import math, re
picture = open("rates/rates.svg").read()
rows = [[float(field) for field in line.split("\t")] for line in open("rates/rates.tsv").read().splitlines()[1:]]
points = [[float(part) for part in pair.split(",")] for pair in re.search('points="(.*?) ?"', picture).group(1).split()]
y = [(float(value), float(at) - 4) for at, value in re.findall('class="y" x="[0-9]+" y="([0-9.]+)" text-anchor="end">([0-9.]+)<', picture)]
x = [(math.log10(float(value)), float(at)) for at, value in re.findall('class="x" x="([0-9.]+)" .*?>([0-9.e+-]+)<', picture)]
assert len(points) == len(rows) and len(x) >= 2 and len(y) >= 2
bent = max(row[2] for row in rows) > 10 * min(row[2] for row in rows)
y = [(math.log(value) if bent else value, at) for value, at in y]
def place(ticks, value):
    (a, at), (b, other) = ticks[0], ticks[-1]
    return at + (value - a) / (b - a) * (other - at)
for (rate, loss, mean), point in zip(rows, points): # each point lies where the labels of the axes place its values
    assert abs(place(x, math.log10(rate)) - point[0]) < 0.5, (rate, point)
    assert abs(place(y, math.log(mean) if bent else mean) - point[1]) < 0.5, (mean, point)
mark = re.findall('class="suggestion" d="M([0-9.]+) ', picture)
said = re.findall("a usual peak is a tenth of it: --lr ([0-9.e-]+)", open("said").read())
assert len(mark) == len(said) == 1 and abs(place(x, math.log10(float(said[0]))) - float(mark[0])) < 6, (mark, said)
PYTHON
[ "$(ls rates | tr '\n' ' ')" = 'rates.svg rates.tsv ' ] || fail "a test of rates left $(ls rates)"
rejects 2 '--find-lr train.lr 0' "$dawn9" train tiny.yaml --find-lr --lr 0 --out rates
rejects 2 '--find-lr --resume' "$dawn9" train tiny.yaml --find-lr --resume
rejects 2 '--find-lr --html' "$dawn9" train tiny.yaml --find-lr --html
rejects 2 'run config.yaml --out' "$dawn9" train tiny.yaml --find-lr --out run
rejects 2 '--html --events' "$dawn9" train tiny.yaml --runs 2 --html --events --out none
prints '^no learning rate from [0-9.e+-]+ on lowers the loss' "$dawn9" train tiny.yaml --find-lr --lr 1000000 --out hot-rates
[ -z "$(grep -E '^ +[0-9]' "$out" | sort | uniq -d)" ] || fail "rows of a short table are there twice"
prints '^no learning rate up to 1e-07 lowers the loss; ' "$dawn9" train tiny.yaml --batch-size 8 --find-lr --lr 1e-9 --out cold-rates --quiet
hides '--lr [0-9]'
lines_are 3 "$out" # the advice, and the names of two files
# The range test starts from the weights that train.from names.
accepts "$dawn9" train tiny.yaml --batch-size 16 --find-lr --set train.from=run/model.safetensors --out begun-rates
differ rates/rates.tsv begun-rates/rates.tsv "a test of rates forgets train.from"
# Muon has a rate of its own, which grows with the others', from a thousandth of its peak to a hundred times its peak.
accepts "$dawn9" train tiny.yaml --find-lr --lr 0.01 --with muon:rate=0.2 --out muon-rates
says '^lowest loss at learning rate [0-9.e+-]+; a usual peak is a tenth of it: --lr [0-9.e+-]+ --set tricks.muon.rate=[0-9.e+-]+$'
says "^tricks.muon.rate is another peak; here its ratio to train.lr stayed 0.2 to 0.01$"
sed -n 's/.*--lr \(.*\) --set tricks.muon.rate=\(.*\)/{"lr": \1, "muon": \2}/p' "$out" >both.json
json both.json 'abs(d["muon"] / d["lr"] / 20 - 1) < 0.15 and d["lr"] < 0.002'
ends 130 'interrupted' interrupt_at ' ([2-9]|[1-9][0-9]+)/120 ' "$dawn9" train long.yaml --find-lr --out slow-rates
[ "$(wc -l <slow-rates/rates.tsv)" -gt 2 ] && [ "$(wc -l <slow-rates/rates.tsv)" -lt 121 ] && [ -s slow-rates/rates.svg ] ||
    fail "a test of rates that was interrupted does not keep those until then"
says '^ *rate +loss$'
hides '^(lowest loss|the loss|no learning rate)'
echo x >a-file
rejects 6 'a-file' "$dawn9" train tiny.yaml --set data.dataset=cifar10 --data nowhere --out a-file
rejects 6 'a-file' "$dawn9" train tiny.yaml --find-lr --out a-file
[ ! -s "$out" ] || fail "a folder that cannot be is rejected after $(cat "$out")"
verdict
