# dawn9 predict, and eval of a model alone: the model file is all they need besides the images.
. "$(dirname "$0")/lib.sh"
drawn_file 8 16 'ghost_batchnorm: {group_size: 8}, patch_whitening: {}, ema: {}, flip_tta: {}'
mkdir -p drawn/train drawn/test
draw drawn/train bars=24 disc=24 stripes=24
draw drawn/test bars=7 disc=7 stripes=7
runs "$dawn9" train small.yaml --data "$PWD/drawn" --set data.fit=crop --out run
grep -rqF "$PWD" run && fail "an absolute path is in the record"

# predict gives the record's predictions of all test images, in the order in which the folder is listed.
accepts "$dawn9" predict run drawn/test --json --top 9
cp "$out" lines.json
asserts <<'PYTHON'
recorded = read("run/predictions.safetensors")[1]
rows = [json.loads(line) for line in open("lines.json")]
result = result("run")
names = result["classes"]
assert len(rows) == 21 and names == ["bars", "disc", "stripes"]
assert [r["class"] for r in rows] == list(recorded["top1"][1]), "top1"
assert all(names[r["class"]] == r["label"] == r["top"][0]["label"] for r in rows)
assert max(abs(r["probability"] - c) for r, c in zip(rows, recorded["confidence"][1])) <= 1e-6, "confidence"
assert all(abs(sum(t["probability"] for t in r["top"]) - 1) <= 1e-6 and len(r["top"]) == 3 for r in rows)
right = sum(r["file"].split("/")[-2] == r["label"] for r in rows)
assert abs(100 * right / 21 - result["accuracy_tta"]) < 1e-9, "accuracy"
PYTHON

# ---- a prediction does not depend on the batch or the path ----
mkdir elsewhere && cp run/model.safetensors elsewhere/my-model
accepts "$dawn9" predict elsewhere/my-model drawn/test/disc/03.png --json --top 3
grep -qxF "$(cat "$out")" lines.json || fail "alone the picture got another answer"
accepts "$dawn9" predict run drawn/test/disc/03.png drawn/test/bars --top 2
lines_are 8 "$out"
says '^drawn/test/disc/03.png  (bars|disc|stripes) +[0-9.]+%  (bars|disc|stripes) +[0-9.]+%$'

# ---- the sheet: tiles of 192 x 320 in rows of five, with --worst-first in another order ----
accepts "$dawn9" predict run drawn/test --sheet sheet.png
accepts "$dawn9" predict run drawn/test --sheet sheet.PNG
rejects 2 'sheet.jpg PNG .png' "$dawn9" predict run drawn/test --sheet sheet.jpg
python3 -c 'import struct
head = open("sheet.png", "rb").read(24)
assert head[:8] == b"\x89PNG\r\n\x1a\n", head
assert struct.unpack(">II", head[16:]) == (5 * (192 + 12) + 12, 5 * (320 + 12) + 12), struct.unpack(">II", head[16:])' \
    2>"$err" || fail "the sheet is not what it should be"

rejects 2 '--worst-first --sheet' "$dawn9" predict run drawn/test --worst-first
accepts "$dawn9" predict run drawn/test/disc --sheet disc.png
accepts "$dawn9" predict run drawn/test/disc/ --sheet slash.png
cmp disc.png slash.png || fail "a slash behind the folder hides the true class"
cat >pixels.py <<'PYTHON'
import struct, zlib
def pixels(path): # the rows of an 8-bit RGB PNG, whose filters are undone
    data = open(path, "rb").read()
    width, height = struct.unpack(">II", data[16:24])
    at, packed = 8, b""
    while at < len(data):
        size, = struct.unpack(">I", data[at:at + 4])
        packed += data[at + 8:at + 8 + size] if data[at + 4:at + 8] == b"IDAT" else b""
        at += size + 12
    raw, rows, above = zlib.decompress(packed), [], bytearray(3 * width)
    for y in range(height):
        kind, row = raw[y * (3 * width + 1)], bytearray(raw[y * (3 * width + 1) + 1:(y + 1) * (3 * width + 1)])
        if kind == 2: # Up, the most frequent filter, without a loop
            row = bytearray((a + b) & 255 for a, b in zip(row, above))
        for i in range(3 * width) if kind in (1, 3, 4) else ():
            left, up, corner = row[i - 3] if i >= 3 else 0, above[i], above[i - 3] if i >= 3 else 0
            guess = left + up - corner
            nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            row[i] = (row[i] + (0, left, up, (left + up) // 2, nearest)[kind]) & 255
        rows.append(bytes(row))
        above = row
    return rows
PYTHON
# --worst-first has the tiles of the plain sheet in the order of the probability of the true class, the folder's name.
for order in '' --worst-first; do
    accepts "$dawn9" predict run drawn/test/*/00.png drawn/test/bars/01.png drawn/test/stripes/01.png --sheet row$order.png $order
done
asserts <<'PYTHON'
from pixels import pixels
def tile(rows, place):
    return [row[3 * (12 + place * 204):3 * (204 + place * 204)] for row in rows[12:332]]
files = [f"drawn/test/{name}.png" for name in ("bars/00", "disc/00", "stripes/00", "bars/01", "stripes/01")]
lines = {line["file"]: line for line in map(json.loads, open("lines.json"))}
true = [next(t["probability"] for t in lines[file]["top"] if t["label"] == file.split("/")[-2]) for file in files]
order = sorted(range(5), key=lambda i: true[i]) # sorted() is stable
plain, worst = pixels("row.png"), pixels("row--worst-first.png")
assert order != list(range(5)) and len({bytes().join(tile(plain, i)) for i in range(5)}) == 5
assert all(tile(worst, place) == tile(plain, i) for place, i in enumerate(order)), order
PYTHON

# ---- eval --mistakes: a tile for each misclassified test image, the most confident prediction first ----
runs "$dawn9" train small.yaml --data "$PWD/drawn" --set train.epochs=0.5 --out poor --quiet
accepts "$dawn9" predict poor drawn/test --json
cp "$out" lines.json
accepts "$dawn9" eval poor --data drawn --mistakes mistakes.png
asserts <<'PYTHON'
from pixels import pixels
wrong = sorted((line["probability"] for line in map(json.loads, open("lines.json"))
                if line["label"] != line["file"].split("/")[-2]), reverse=True)
rows, columns = pixels("mistakes.png"), next(c for c in range(1, 11) if c * c >= len(wrong))
assert len(wrong) > 2 and len({round(192 * p) for p in wrong}) > 1, wrong
assert len(rows[0]) == 3 * (12 + 204 * columns) and len(rows) == 12 + 332 * -(-len(wrong) // columns), (wrong, len(rows))
bars = []
for place in range(len(wrong)): # the bar's length is 192 pixels times the probability
    row, left = rows[12 + place // columns * 332 + 197], 12 + place % columns * 204
    bars.append(sum(row[3 * x:3 * x + 3] == bytes((43, 103, 178)) for x in range(left, left + 192)))
assert all(abs(bar - 192 * p) <= 1 for bar, p in zip(bars, wrong)), (bars, wrong)
PYTHON
rejects 2 'mistakes.jpg PNG .png' "$dawn9" eval poor --data drawn --mistakes mistakes.jpg

# ---- the same image as PNG and as WebP, with transparent pixels ----
base64 -d >same.png <<'PICTURE'
iVBORw0KGgoAAAANSUhEUgAAAAYAAAAGCAYAAADgzO9IAAAAcklEQVR4nA3MMRUEMQwDUcExgwOxjRkERBoxCAg3YhAQacxgQSwIXep5fwCYgc+J18Sh
sN0oA/E54nXGIWNbUe5YBPJ15GHmNrOsXOycV/AwuJ0sk4vidHPcoO1QObVITUvDreeuuhy9mD3NHlY/7P75Dz/mT3WVYjQkAAAAAElFTkSuQmCC
PICTURE
base64 -d >same.webp <<'PICTURE'
UklGRkQAAABXRUJQVlA4TDcAAAAvBUABEJmM6H9sIgre/4CCtm0Ywyl/it2hMChn/xcIJGtHsLbatA2YyU65hLQSrdL9SUqK5A8aAA==
PICTURE
if "$dawn9" predict run same.webp 2>"$err" >"$out"; then
    accepts "$dawn9" predict run same.png same.webp --top 3
    [ "$(sed 's/^[^ ]* *//' "$out" | sort -u | wc -l)" = 1 ] || fail "WebP is another picture than PNG: $(cat "$out")"
    head -c 60 same.webp >cut.webp
    rejects 3 'cut.webp' "$dawn9" predict run cut.webp
else
    omits webp "this build has no libwebp"
    has "$err" 'same.webp: a WebP image, but this build has no libwebp'
fi

# ---- unreadable files: one line each, the others are predicted, status 3 ----
mkdir odd && cp drawn/test/bars/00.png drawn/test/bars/01.png odd/ && head -c 50 odd/00.png >odd/00a.png && mkdir nothing
observe "$dawn9" predict run odd nothing gone.png --json
[ $status = 3 ] || fail "status $status, 3 expected of broken pictures"
[ "$(wc -l <"$out")" = 5 ] && [ "$(grep -c '"error"' "$out")" = 3 ] || fail "not a line for each of five"
warns 'odd/00a.png: ' 'nothing: no .png, .jpg, .jpeg or .webp in it$'
[ "$(tail -n 1 "$err")" = 'dawn9: 3 of 5 files could not be read' ] || fail "the last line counts otherwise"
rejects 3 'odd/00a.png' "$dawn9" predict run odd/00a.png
rejects 3 'gone.png' "$dawn9" predict run gone.png --sheet sheet2.png

# ---- folders that other programs add are left out ----
mkdir -p added/@eaDir/00.png added/__MACOSX && cp odd/00.png added && cp odd/00.png added/@eaDir/00.png && cp odd/00.png added/__MACOSX
runs "$dawn9" predict run added
lines_are 1 "$out"

# ---- a link to a folder above: the pictures are predicted, the link is named ----
mkdir -p loop/in && cp odd/00.png loop/in && ln -s .. loop/in/again
runs "$dawn9" predict run loop/in/00.png loop/in/again
[ "$(wc -l <"$out")" = 2 ] && grep -q '^dawn9: warning: loop/in/again/in/again: ' "$err" || fail "a folder in itself: $(cat "$out" "$err")"

# ---- invalid models ----
rejects 3 'drawn/model.safetensors' "$dawn9" predict drawn odd/00.png
rejects 3 'run/predictions.safetensors dawn9.config' "$dawn9" predict run/predictions.safetensors odd/00.png
rejects 2 'FILE' "$dawn9" predict run
prints '^usage: dawn9 predict MODEL FILE... ' "$dawn9" predict --help
rejects 2 'backend' "$dawn9" predict run odd/00.png --backend abacus

# ---- eval: the record's accuracy from the model and the data alone ----
accepts "$dawn9" eval run --data drawn --json
cp "$out" eval.json
record run 'all(d[k] == json.load(open("eval.json"))[k] for k in ("accuracy", "accuracy_tta"))'
prints '^accuracy [0-9.]+%, on 21 test images$' "$dawn9" eval elsewhere/my-model --data drawn --without flip_tta
mv drawn/train/disc drawn/train/ring && mv drawn/test/disc drawn/test/ring
rejects 3 'drawn/train/ring 3 classes bars' "$dawn9" eval run --data drawn

# ---- a model of the synthetic set predicts images ----
tiny >tiny.yaml
accepts "$dawn9" train tiny.yaml --out tiny --set train.epochs=0.5 --quiet
prints ' (disc|square|triangle|plus) ' "$dawn9" predict tiny odd/00.png --top 10

# ---- columns have widths in characters, not bytes ----
mkdir -p wide && cp odd/00.png "wide/$(printf 'gr\303\266\303\237e.png')" && cp odd/00.png wide/zwei01.png
accepts "$dawn9" predict tiny wide
[ "$(python3 -c 'import re, sys; print(len({re.search("  [a-z]", line).start() for line in open(sys.argv[1], encoding="utf-8")}))' "$out")" = 1 ] ||
    fail "names with other letters than ASCII's are not in line"
verdict
