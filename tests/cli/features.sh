# dawn9 predict --features: the inputs of the classifier, as .npy and .safetensors, in the order of the predictions;
# weights from a file without metadata. tests/cli/pytorch.sh compares features with PyTorch's.
. "$(dirname "$0")/lib.sh"
network_files
tensors="python3 $source/tests/support/tensors.py"
draw drawn bars=40 disc=37
printf broken >drawn/bars/05.png
for name in bottleneck vgg; do
    accepts "$dawn9" train $name.yaml --out $name --quiet
done

# The probabilities that follow from the features and the last layer are those of the predictions.
cat >check.py <<'PY'
import json, math, struct, sys
from tensorfile import read
features, lines, model, layer, width = sys.argv[1:]
rows = [json.loads(line) for line in open(lines)]
rows = [row for row in rows if "error" not in row]
width = int(width)
if features.endswith(".npy"):
    data = open(features, "rb").read()
    assert data[:8] == b"\x93NUMPY\x01\x00" and struct.unpack_from("<H", data, 8) == (118,) and data[127:128] == b"\n"
    header = eval(data[10:128])
    assert header == {"descr": "<f4", "fortran_order": False, "shape": (len(rows), width)}, header
    values = struct.unpack("<%df" % (len(rows) * width), data[128:])
else:
    metadata, all = read(features)
    shape, values = all["features"]
    assert shape == [len(rows), width] and json.loads(metadata["dawn9.files"]) == [row["file"] for row in rows]
_, model = read(model)
(classes, inputs), weight = model[layer + ".weight"]
bias = model[layer + ".bias"][1]
assert len(rows) == 76 and inputs == width and max(values) > 0
for i, row in enumerate(rows):
    x = values[i * width:(i + 1) * width]
    logits = [sum(a * b for a, b in zip(x, weight[c * width:(c + 1) * width])) + bias[c] for c in range(classes)]
    sums = sum(map(math.exp, logits))
    for top in row["top"]:
        assert abs(math.exp(logits[top["class"]]) / sums - top["probability"]) < 1e-5, row["file"]
PY
for name in bottleneck vgg; do
    [ $name = vgg ] && layer=fc2 width=10 || layer=fc width=128
    for kind in npy safetensors; do
        observe "$dawn9" predict $name drawn --json --top 10 --features $name.$kind
        [ $status = 3 ] || fail "$name $kind: status $status, 3 expected of a broken picture"
        cp "$out" lines.json
        accepts python3 check.py $name.$kind lines.json $name/model.safetensors $layer $width
    done
done

# ---- a file with torchvision's names needs a configuration ----
accepts $tensors bottleneck/model.safetensors foreign.safetensors +bn1.num_batches_tracked
printf 'precision: f32\nbackend: cpu\nthreads: 2\nmodel: {name: resnet, depth: 50, width: 4, stem: cifar}\ndata: {dataset: folder, image_size: 20}\n' >foreign.yaml
rm drawn/bars/05.png
accepts "$dawn9" predict foreign.safetensors drawn --config foreign.yaml --set data.normalize=imagenet --features foreign.npy --top 3
says '^drawn/bars/00.png  [0-9] +[0-9.]+%  [0-9] +[0-9.]+%  [0-9] '
head -c 128 foreign.npy | grep -q "'shape': (76, 128)" || fail "features of another shape"
rejects 3 'foreign.safetensors dawn9.config' "$dawn9" predict foreign.safetensors drawn --features x.npy
rejects 2 'foreign.safetensors data.normalize' "$dawn9" predict foreign.safetensors drawn --config foreign.yaml
rejects 2 'fc2.weight [0-9]+ fc.weight 128' \
    "$dawn9" predict foreign.safetensors drawn --config vgg.yaml --set data.normalize=imagenet
rejects 2 'foreign.safetensors layer3.6.conv1.weight 16 64 1' \
    "$dawn9" predict foreign.safetensors drawn --config foreign.yaml --set data.normalize=imagenet --set model.depth=101
accepts $tensors bottleneck/model.safetensors empty.safetensors fc.weight=0,0 fc.bias=0,0
rejects 2 'fc.weight 128 0' "$dawn9" predict empty.safetensors drawn --config foreign.yaml --set data.normalize=imagenet
accepts "$dawn9" eval bottleneck.yaml foreign.safetensors --set data.normalize=imagenet
rejects 2 'data.normalize CONFIG' "$dawn9" eval vgg --set data.normalize=imagenet

for option in features=x.npy sheet=x.png; do
    rejects 6 "no/where/x.*" "$dawn9" predict vgg drawn "--${option%=*}" "no/where/${option#*=}"
    [ ! -s "$out" ] || fail "--${option%=*}: pictures were looked at before"
done
rejects 6 'no/where' "$dawn9" eval vgg --logits no/where

# ---- file names that are not UTF-8 ----
mkdir names
for name in first "$(printf 'other\377')" third; do cp drawn/bars/00.png "names/$name.png"; done
accepts "$dawn9" predict vgg names --features names.safetensors
accepts grep -aqF 'names/first.png\",\"names/other?.png\",\"names/third.png' names.safetensors

# ---- impossible requests ----
rejects 2 '--features out.txt .npy .safetensors' "$dawn9" predict vgg drawn --features out.txt
rejects 2 '--set --config' "$dawn9" predict vgg drawn --set model.hidden=3
rejects 2 'out.npy --sheet --features' "$dawn9" predict vgg drawn --sheet out.npy --features out.npy
cp drawn/bars/00.png picture.npy
rejects 2 'picture.npy' "$dawn9" predict vgg picture.npy --features picture.npy
rejects 2 'vgg/model.safetensors 20x20 24x24' "$dawn9" predict vgg drawn --config vgg.yaml --set data.image_size=24
verdict
