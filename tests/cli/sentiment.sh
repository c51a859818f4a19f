# A network of texts: it learns, is evaluated by its own words, classifies text files, starts another run, stops and
# resumes; kinds of samples that do not fit, and texts that cannot be read.
. "$(dirname "$0")/lib.sh"
text_files
train() { # NAME OPTION...
    name=$1
    shift
    accepts "$dawn9" train sentiment.yaml --data texts --out "$name" --quiet "$@"
}

# ---- it learns, and the file holds its words ----
train run
record run 'd["accuracy"] >= 90 and d["eval_images"] == 64'
# ---- no message calls a text an image ----
accepts "$dawn9" train sentiment.yaml --data texts --out shown --set train.epochs=1 --html
says ' steps of 16 texts, ' '^epoch  train loss  accuracy   texts/s  seconds$' ', on 64 test texts'
cat shown/live.html >>"$out"
says '>texts/s<' '128 training texts, '
grep -i image "$out" && fail "images of a run on texts"
accepts "$dawn9" bench step --config sentiment.yaml --data texts --steps 1
says ' steps of 16 texts$' ' texts/s, '
prints ' MiB/text ' "$dawn9" bench fit --config sentiment.yaml --data texts
runs "$dawn9" eval run --data texts --set data.validation=5
warns '.* 5 of these texts are training texts '
asserts <<'PYTHON'
metadata, tensors = read("run/model.safetensors")
words = json.loads(metadata["dawn9.words"])
assert words[:4] == ["<pad>", "<start>", "<unknown>", "<unused>"] and "bad" in words and len(words) <= 60
assert metadata["dawn9.length"] == "12" and not {"dawn9.image_size", "dawn9.mean", "dawn9.std"} & set(metadata)
assert tensors["encoder.weight"][0] == [len(words), 8] and tensors["rnn.weight_hh_l0"][0] == [36, 12]
PYTHON

# ---- eval: the record's accuracy; texts of another folder by the model's words ----
replies "d['accuracy'] == result('run')['accuracy'] and d['images'] == 64" "$dawn9" eval run --data texts --json
cp "$out" eval.json
prints '^AUC 0[.][0-9]+, of pos against neg$' "$dawn9" eval run --data texts --logits run.logits
asserts <<'PYTHON'
_, tensors = read("run.logits")
(_, logits), (_, labels) = tensors["logits_tta"], tensors["labels"]
second = [b - a for a, b in zip(logits[::2], logits[1::2])]
pairs = [(p > n) + 0.5 * (p == n) for p, a in zip(second, labels) if a for n, b in zip(second, labels) if not b]
assert len(pairs) == 32 * 32 and abs(json.load(open("eval.json"))["auc"] - sum(pairs) / len(pairs)) < 1e-6
PYTHON
cp -r texts/test other
for config in '' sentiment.yaml; do
    accepts "$dawn9" eval $config run --data other --json # a new vocabulary of these texts would renumber the words
    json "$out" "d['accuracy'] == result('run')['accuracy'] and d['images'] == 64"
done

# ---- predict ----
accepts "$dawn9" predict run texts/test --json --top 2
cp "$out" lines
asserts <<'PYTHON'
rows = [json.loads(line) for line in open("lines")]
right = sum(row["file"].split("/")[-2] == row["label"] for row in rows)
assert len(rows) == 64 and 100 * right / 64 == result("run")["accuracy"]
assert all(abs(sum(t["probability"] for t in row["top"]) - 1) <= 1e-6 for row in rows)
PYTHON
printf 'word1 word2 GOOD! word3' >good.txt
printf 'It is bad' >bad.TXT
mkdir texts.d && cp good.txt texts.d/ && echo x >texts.d/notes.md
accepts "$dawn9" predict run good.txt bad.TXT texts.d
says '^good.txt +pos +[0-9.]+%$' '^bad.TXT +neg' '^texts.d/good.txt +pos'
lines_are 3 "$out"
accepts "$dawn9" predict run good.txt --features features.npy

# ---- texts that cannot be read: a line each, and the others are classified ----
printf 'a\0b' >zero.txt
printf '\377\376' >bytes.txt
: >empty.txt
echo ' ... ' >signs.txt
python3 -c 'print("a" * 1000000)' >long.txt
observe "$dawn9" predict run zero.txt bytes.txt empty.txt signs.txt long.txt none.txt good.txt
[ $status = 3 ] && [ "$(wc -l <"$out")" = 1 ] && [ "$(wc -l <"$err")" = 7 ] || fail "bad texts: status $status, $(cat "$out")"
cp "$err" warnings
for name in zero bytes empty signs long none; do
    has warnings "^dawn9: warning: $name.txt: "
    rejects 3 "$name.txt" "$dawn9" predict run $name.txt
done
observe "$dawn9" predict run empty.txt --json
python3 -c 'import json, sys; assert "empty.txt" in json.load(open(sys.argv[1]))["error"]' "$out" || fail "no line of JSON says it"

# ---- images for texts, texts for images ----
mkdir pictures && draw pictures disc=1
tiny | sed 's/image_size: 16, //' >tiny.yaml
accepts "$dawn9" train tiny.yaml --out images --quiet
rejects 3 'disc/00.png image texts' "$dawn9" predict run pictures/disc/00.png
rejects 3 'pictures .txt' "$dawn9" predict run pictures
rejects 3 'good.txt text images' "$dawn9" predict images good.txt
rejects 3 'texts .png' "$dawn9" predict images texts
rejects 2 '--sheet images texts' "$dawn9" predict run good.txt --sheet sheet.png
rejects 2 '--mistakes images texts' "$dawn9" eval run --mistakes sheet.png
rejects 3 'images/model.safetensors images texts' "$dawn9" eval images --set data.dataset=text --data texts
rejects 3 'run/model.safetensors 12 20' "$dawn9" eval run --data texts --set data.length=20
rejects 2 'run/model.safetensors 12 20' "$dawn9" predict run good.txt --config sentiment.yaml --set data.length=20
rejects 2 'run/model.safetensors texts images' "$dawn9" predict run good.txt --config tiny.yaml

# ---- a network of a stream has no samples to classify ----
mkdir corpus && for part in train valid test; do seq 1 200 | sed 's/$/ a b c/' >corpus/$part.txt; done
sed '/^train/d; /^data/d; s/^model.*/model: {name: language, embedding: 4, hidden: 4}/; s/^target.*/target: 1/' sentiment.yaml >stream.yaml
echo 'data: {dataset: corpus, length: 5}' >>stream.yaml
echo 'train: {epochs: 0.1, batch_size: 4, momentum: 0, weight_decay: 0, lr: {knots: [0], values: [0.1]}}' >>stream.yaml
runs "$dawn9" train stream.yaml --data corpus --out stream --quiet
rejects 2 'stream/model.safetensors language' "$dawn9" predict stream good.txt
rejects 2 'stream.logits language' "$dawn9" eval stream --data corpus --logits stream.logits

# ---- weights of a model: with its words, not with others ----
train tuned --set train.from=run --set 'train.lr={knots: [0], values: [0]}' --set train.epochs=1
record tuned "d['accuracy'] == result('run')['accuracy']"
ends 2 'run/model.safetensors vocabulary token' "$dawn9" train sentiment.yaml --data other --out never --set train.from=run
python3 "$source/tests/support/tensorfile.py" run/model.safetensors odd.safetensors dawn9.words '["<pad>", 1, "a", "b", "c"]'
rejects 3 'odd.safetensors dawn9.words' "$dawn9" predict odd.safetensors good.txt
python3 "$source/tests/support/tensorfile.py" run/model.safetensors odd.safetensors dawn9.words '["a", "b", "c", "d", "e"]'
rejects 2 'odd.safetensors encoder.weight 5' "$dawn9" predict odd.safetensors good.txt
python3 "$source/tests/support/tensorfile.py" run/model.safetensors odd.safetensors dawn9.length 0
rejects 3 'odd.safetensors dawn9.length' "$dawn9" predict odd.safetensors good.txt

# ---- equal bits: with one thread and two, and stopped within an epoch and resumed ----
same_bits_by_threads
slow="--set train.batch_size=2 --set model.hidden=80 --set train.epochs=2 --set data.length=40"
ends 130 '128 --resume' stop_within_epoch sentiment.yaml texts $slow
has "$err" 'before step ([1-9]|[1-5][0-9]|6[0-3]) of 128'
accepts "$dawn9" train sentiment.yaml --data texts --out stopped --quiet $slow --resume
train straight $slow
same_bits stopped straight
record stopped 'd["resumed"]'
verdict
