# Training, evaluation and previews on a folder of images: results, warnings and errors.
. "$(dirname "$0")/lib.sh"
drawn_file 12 12 'crop: {pad: 1}'

# ---- six kinds of PNG, 20 to 60 pixels a side; 19 of 90 images are held out, by name ----
draw drawn bars=30 disc=30 stripes=30
prints '^accuracy   [0-9.]+%, on 19 test images' "$dawn9" train small.yaml --data drawn --out run
record run 'd["accuracy"] >= 80 and d["train_images"] == 71' 'd["classes"] == ["bars", "disc", "stripes"]' \
    'all(0.3 < m < 0.7 for m in d["mean"]) and all(0.1 < s < 0.5 for s in d["std"]) and len(d["std"]) == 3'

# ---- the split and the normalisation depend neither on the seed nor on the threads ----
accepts "$dawn9" train small.yaml --data drawn --out again --threads 2 --seed 5 --set train.epochs=0.5
record again 'all(d[k] == result("run")[k] for k in ("mean", "std", "classes"))'

# ---- the confusion matrix, and precision, recall and F1 of each class from it ----
accepts "$dawn9" train small.yaml --data drawn --out poor --set train.epochs=0.5 --quiet
accepts "$dawn9" eval poor --json --confusion poor.tsv
cat >matrix.py <<'PYTHON'
rows = [line.rstrip("\n").split("\t") for line in open("poor.tsv")]
names, counts = rows[0][1:], [[int(cell) for cell in row[1:]] for row in rows[1:]]
assert names == ["bars", "disc", "stripes"] == [row[0] for row in rows[1:]], rows
of = {n: (counts[i][i], sum(row[i] for row in counts), sum(counts[i])) for i, n in enumerate(names)}
share = lambda a, b: 100 * a / b if b else 0
scores = {n: {"precision": share(h, p), "recall": share(h, s), "f1": share(2 * h, p + s)} for n, (h, p, s) in of.items()}
assert sum(s for h, p, s in of.values()) == d["images"] and len(d["classes"]) == 3
assert len({s["precision"] for s in scores.values()} | {s["recall"] for s in scores.values()}) > 2, "nothing is told apart"
for row in d["classes"]:
    assert row["images"] == of[row["class"]][2] and abs(row["accuracy_tta"] - row["recall"]) < 1e-9, row
    assert all(abs(row[k] - v) < 1e-9 for k, v in scores[row["class"]].items()), row
assert all(abs(d["macro"][k] - sum(s[k] for s in scores.values()) / 3) < 1e-9 for k in ("precision", "recall", "f1")), d
PYTHON
json "$out" 'exec(open("matrix.py").read(), globals()) is None'
accepts "$dawn9" eval poor
says '^ +[0-9.]+%  disc \([0-9]+ of [0-9]+\), precision [0-9.]+%, F1 [0-9.]+%$' '^macro mean: precision [0-9.]+%, recall [0-9.]+%, F1 [0-9.]+%$'
rejects 6 'none/poor.tsv' "$dawn9" eval poor --confusion none/poor.tsv

# ---- the area of two classes depends on the order of the logits alone, also where probabilities are 1 in f32 ----
draw pair bars=20 disc=20
runs "$dawn9" train small.yaml --data pair --out two --set train.epochs=0.5 --quiet
accepts "$dawn9" eval two --data pair --json
cp "$out" two.json
json two.json '0 < d["auc"] < 1'
replies 'd["auc"] == json.load(open("two.json"))["auc"]' "$dawn9" eval two --data pair --json --set model.logits_scale=1e4

# ---- a preview does not depend on the number of epochs ----
for trick in cutmix mixup; do
    for epochs in 1 10; do
        accepts "$dawn9" data preview small.yaml --data drawn --with $trick --epochs $epochs --out $trick.$epochs.png
    done
    same $trick.1.png $trick.10.png
done

# ---- a record has no absolute path: --data names the data again ----
accepts "$dawn9" train small.yaml --data "$PWD/drawn" --out far --set train.epochs=0.5 --quiet
rejects 2 'data.path --data DIR' "$dawn9" eval far
replies 'd["accuracy"] == result("far")["accuracy"]' "$dawn9" eval far --data "$PWD/drawn" --json
rejects 2 'data.path --data DIR' "$dawn9" train far/config.yaml --out further --resume
accepts "$dawn9" train far/config.yaml --out further --resume --data drawn --quiet
mkdir beside && cd beside || exit 1
rejects 3 'drawn --data DIR' "$dawn9" eval ../run
accepts "$dawn9" eval ../run --data ../drawn
cd ..

# ---- a copy of a picture is named; eval says that the test images changed; another folder is evaluated whole ----
cp -r drawn grown
i=0 && while [ $i -lt 8 ]; do cp grown/bars/00.png "grown/bars/!$i.png" && i=$((i + 1)); done
cp grown/disc/00.png grown/stripes/disc.png
runs "$dawn9" eval run --data grown
warns 'grown/bars/.* and grown/bars/.* are the same image, one to train on, one to test$'
warns 'grown/.*/.*.png and grown/.*/.*.png are the same image, in two classes$'
warns 'the test images differ from those of the training: .*'
for option in data.fit=crop data.grey=on; do # the same images have other pixels
    runs "$dawn9" eval run --data drawn --set $option
    says ', on 19 test images$'
    warns ".*data.fit .* only the test part "
done
runs "$dawn9" train small.yaml --data drawn --out grey --set data.grey=on --set train.epochs=0.5 --quiet
prints 'ONNX, images .* in grey' "$dawn9" export grey grey.onnx # the network does not convert them
runs "$dawn9" eval small.yaml run --data drawn --set data.image_size=20
says ', on 19 test images$'
draw others bars=7 disc=8 stripes=9
replies 'd["images"] == 24' "$dawn9" eval run --data others --json
rm -r others/disc
replies 'd["images"] == 16 and {c["class"]: c["images"] for c in d["classes"]} == {"bars": 7, "stripes": 9}' "$dawn9" eval run --data others --json
mv others/bars others/bar
rejects 3 'others/bar model' "$dawn9" eval run --data others

# ---- configs/folder.yaml accepts a small folder ----
accepts "$dawn9" train "$source/configs/folder.yaml" --data drawn --out given --set train.epochs=0.5 --set threads=1 \
    --set model.channels=[4,4,4,4] --set data.image_size=16
record given 'd["config"]["train"]["batch_size"] <= d["train_images"] and len(d["classes"]) == 3'

# ---- warnings about uneven and small classes; a manual split ----
mkdir -p uneven/train uneven/test
draw uneven/train bars=36 disc=20 stripes=6
draw uneven/test bars=4 disc=4 stripes=4
runs "$dawn9" train small.yaml --data uneven --out uneven-run --set train.epochs=0.5 --quiet
lines_are 2 "$err"
warns 'uneven classes: bars has 6 times the training images of stripes \(36 and 6\); train.class_weights=balanced lets each class count as much$'
warns 'few images: 1 of 3 classes have fewer than 20 to train on \(stripes 6\)$'
record uneven-run 'd["train_images"] == 62 and d["eval_images"] == 12'

# ---- a folder for validation is the test part, unless there is a test folder or data.validation is 1 ----
mkdir named && cp -r drawn named/train && cp -r uneven/test named/val
runs "$dawn9" train small.yaml --data named --out named-run --set train.epochs=0.5 --quiet
warns 'named/val: .* no test/; data.validation=1 '
record named-run 'd["eval_images"] == 12'
accepts "$dawn9" train small.yaml --data named --out named-best --set data.validation=1 --set keep=best --set train.epochs=0.5
says '^accuracy .* on 12 validation images'
hides '^test '
runs "$dawn9" eval named-best --set data.validation=0 # warns of val/ in an evaluation too: it may have selected the epoch
warns 'named/val: .* no test/; data.validation=1 '
cp -r drawn named/test
runs "$dawn9" train small.yaml --data named --out named-again --set train.epochs=0.5 --quiet
warns 'named/val: not used: .* named/test; data.validation=1 '
record named-again 'd["eval_images"] > 12'
runs "$dawn9" train small.yaml --data named --out named-both --set data.validation=1 --set keep=best --set train.epochs=0.5
says '^accuracy .* on 12 validation images' '^test .* eval named-both --set data.validation=0$'
runs "$dawn9" eval named-both --set data.validation=0
says '^accuracy .* on 90 test images'
runs "$dawn9" eval named-both
says '^accuracy .* on 12 validation images'
mv named/val val
observe "$dawn9" eval named-both
[ $status = 3 ] && grep -q '^dawn9: folder: .* validation part; --set data.validation=0 ' "$err" || fail "a lost val/: $(cat "$err")"
mv val named/val
cp -r named/val named/validation
rejects 3 'named/val named/validation' "$dawn9" train small.yaml --data named --out none
rm -r named/validation

# ---- folders without images ----
mkdir -p named/train/__MACOSX/bars named/test/nothing
runs "$dawn9" train small.yaml --data named --out named-empty --set train.epochs=0.5 --quiet --skip-empty
warns 'named/train/__MACOSX: a folder without images, left out$'
warns 'named/test/nothing: a folder without images, left out$'
record named-empty 'd["params_sha256"] == result("named-again")["params_sha256"]' \
    'd["config_hash"] == result("named-again")["config_hash"]'
rm -r named/train/__MACOSX
rejects 3 'named/test/nothing' "$dawn9" train small.yaml --data named --out none --set data.validation=1
rm -r named/test/nothing

# ---- folders and images beside train/ and test/ are named; names in any case; the legal names of a missing part ----
mv named/train named/Train && mv named/test named/TEST && rm -r named/val
cp -r drawn/bars named/cats && cp drawn/bars/0[01].png named/
runs "$dawn9" train small.yaml --data named --out named-beside --set train.epochs=0.5 --quiet
[ "$(grep -c 'outside\|not used' "$err")" = 2 ] || fail "other warnings than of two images and a folder: $(cat "$err")"
warns 'named: 2 images are left out, outside ' 'named/cats: not used: .* named/Train .* named/TEST$'
cp drawn/bars/00.png named/Train/
runs "$dawn9" train small.yaml --data named/Train --out named-loose --set train.epochs=0.5 --quiet
[ "$(cat "$err")" = 'dawn9: warning: named/Train: 1 image is left out, outside the class folders' ] || fail "an image beside class folders: $(cat "$err")"
mv named/TEST named/Tests
rejects 3 'named/Train test/ val/ valid/ validation/' "$dawn9" train small.yaml --data named --out none
mv named/Tests named/Test && mv named/Train named/learn
rejects 3 'named/Test train/' "$dawn9" train small.yaml --data named --out none

# ---- class weights change no bit if classes are even ----
mkdir even && cp -r drawn even/train && cp -r uneven/test even/test
for weights in none balanced; do
    accepts "$dawn9" train small.yaml --data even --out even-$weights --set train.epochs=0.5 --quiet --set train.class_weights=$weights
    runs "$dawn9" train small.yaml --data uneven --out uneven-$weights --set train.epochs=0.5 --quiet --set train.class_weights=$weights
done
same_bits even-balanced even-none
other_bits uneven-balanced uneven-none
record uneven-none 'd["config_hash"] == result("uneven-run")["config_hash"]'

# ---- a class without test images ----
rm -r uneven/test/stripes
observe "$dawn9" train small.yaml --data uneven --out untested --set train.epochs=0.5 --quiet
[ $status = 0 ] && [ "$(wc -l <"$err")" = 3 ] || fail "status $status of an untested class: $(cat "$err")"
warns 'the accuracy leaves out .*\(stripes 0\)$'
mkdir uneven/test/stripes # an empty folder is like a missing one
observe "$dawn9" train small.yaml --data uneven --out untested --overwrite --set train.epochs=0.5 --quiet
[ $status = 0 ] && grep -q '^dawn9: warning: the accuracy leaves out .*(stripes 0)$' "$err" || fail "status $status of an empty class: $(cat "$err")"
mkdir -p hollow-test/test/stripes && cp -r uneven/train hollow-test/
rejects 3 'hollow-test/test evaluate' "$dawn9" train small.yaml --data hollow-test --out none

# ---- a folder whose name has special characters; a broken link ----
cp -r drawn 'my #1: "data"'
accepts "$dawn9" train small.yaml --data 'my #1: "data"' --out marks --set train.epochs=0.5 --quiet
accepts "$dawn9" eval marks
ln -s nowhere 'my #1: "data"/bars/link.png'
rejects 3 'bars/link.png --skip-damaged' "$dawn9" eval marks
observe "$dawn9" eval marks --skip-damaged
[ $status = 0 ] && [ "$(wc -l <"$err")" = 1 ] || fail "status $status with a broken link: $(cat "$err")"

# ---- many damaged images, a stray file, a broken link; --data in the commands of pages ----
mkdir -p many/bars many/disc && cp drawn/bars/0[01].png many/bars/ && cp drawn/disc/0[01].png many/disc/ && echo >many/disc/notes.txt
i=100 && while [ $i -lt 160 ]; do echo 'no picture' >many/bars/$i.png && i=$((i + 1)); done
observe "$dawn9" train small.yaml --data many --out many-run
[ "$(tail -n 1 "$err")" = 'dawn9: 60 images cannot be read, the first of them named above; --skip-damaged leaves them out' ] ||
    fail "many damaged pictures: status $status, $(tail -n 1 "$err")"
warns 'many/disc: 1 file is not .png, .jpg, .jpeg or .webp and left out$'

cp -r drawn ghosts && ln -s nowhere ghosts/ghost
rejects 3 'ghosts/ghost' "$dawn9" train small.yaml --data ghosts --out ghost
rejects 2 'drawn/disc/04.png --out' "$dawn9" data preview small.yaml --data drawn --out drawn/disc/04.png
accepts "$dawn9" ablate small.yaml --data "$PWD/drawn" --set train.epochs=0.5 --seeds 1 --only crop --quiet --out ablated
accepts "$dawn9" report ablated
has ablated/report.html '--data DIR --seeds 1 --out runs/ablated$'
accepts "$dawn9" report far
has far/report.html 'config.yaml --out runs/again --data DIR$'

# ---- folders and a batch size that are rejected ----
train="$dawn9 train small.yaml --out rejected --data"
mkdir -p one/bars hollow/bars hollow/disc flat
cp drawn/bars/00.png one/bars/
cp drawn/bars/0[012].png flat/
cp drawn/bars/00.png drawn/bars/01.png hollow/bars/
rejects 3 'flat 3 flat/CLASS/picture.png' $train flat
cp drawn/disc/00.png hollow/disc/
head -c 60 drawn/disc/00.png >hollow/disc/01.png
cp hollow/disc/01.png hollow/disc/02.png
for threads in 1 2; do
    observe $train hollow --threads $threads
    [ $status = 3 ] && [ "$(wc -l <"$err")" = 3 ] || fail "damaged pictures: status $status, $(cat "$err")"
    [ "$(head -n 1 "$err")" = 'dawn9: warning: hollow/disc/01.png: damaged or cut short, cannot be decoded' ] || fail "the first is not named first"
done
cp hollow/disc/01.png hollow/disc/00.png
observe $train hollow --skip-damaged
[ $status = 3 ] && grep -q '^dawn9: disc: no training image .*files.*class' "$err" || fail "a class without pictures: $(cat "$err")"
mkdir "$(printf 'one/caf\351')" && cp drawn/disc/0[01].png one/caf*/
cp drawn/bars/01.png one/bars/
rejects 3 'one' $train one
# Evaluation alone accepts any batch size.
accepts "$dawn9" eval far/config.yaml further/model.safetensors --data drawn --set train.batch_size=1000
rejects 2 'train.batch_size 1000 71' $train drawn --set train.batch_size=1000
verdict
