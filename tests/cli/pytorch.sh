# tools/load_in_pytorch.py: the logits of dawn9 eval in PyTorch, for each network of images, dawn94's tricks, texts with
# each recurrent cell, and models changed in PyTorch; the perplexity of language models. dawn9 computes the features of
# PyTorch from weights with torchvision's names, for a narrow ResNet-50 and for the full one. Needs PyTorch.
. "$(dirname "$0")/lib.sh"
python=
for candidate in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! "$candidate" -c 'import torch' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || skips pytorch "no Python here has it"
export PYTHONPATH="$source/tools"

tiny | sed 's/, flip_tta: {}//' >baseline.yaml
dawn94_file
sed 's/before_norm/before_act/; s/whitening: {/&size: 5, /' dawn94.yaml >before_act.yaml
network_files
for name in baseline dawn94 before_act $networks; do
    accepts "$dawn9" train $name.yaml --out $name --quiet
    accepts "$dawn9" eval $name.yaml $name/model.safetensors --logits $name.logits
    accepts "$python" "$source/tools/load_in_pytorch.py" $name/model.safetensors $name.logits
    says '^logits: 64 images, largest difference [0-9.e-]+ of ' '^logits_tta: 64 images, '
done
text_files
for cell in $cells; do
    accepts "$dawn9" train sentiment.yaml --data texts --out $cell --quiet --set model.cell=$cell --set model.layers=2
    accepts "$dawn9" eval $cell --data texts --logits $cell.logits
    accepts "$python" "$source/tools/load_in_pytorch.py" $cell/model.safetensors $cell.logits
    says '^logits: 64 texts, largest difference [0-9.e-]+ of ' '^logits_tta: 64 texts, '
done
# In PyTorch texts get the tokens that dawn9 gives them. A run can start from a file without dawn9's metadata. load and
# save work without NumPy.
cat >texts.py <<'PYTHON'
import sys
sys.modules["numpy"] = None
import glob, json, struct, torch
from load_in_pytorch import load, read, save
net = load("lstm/model.safetensors")
files = [open(name).read() for name in glob.glob("texts/test/*/*.txt")]
assert sorted(net.encode(files).tolist()) == sorted(read("lstm.logits")[0]["texts"].tolist())
assert net.encode(["Good, it's \t\u00c9 <br />"]).tolist()[0][:4] == [1, net.words.index("good"), 2, 2]
with torch.no_grad():
    net.decoder.bias += torch.tensor([0.5, -0.5])
net.metadata = {}
save(net, "plain.safetensors")
PYTHON
accepts "$python" -W ignore texts.py
accepts "$dawn9" train sentiment.yaml --data texts --out plain --quiet --set model.cell=lstm --set model.layers=2 \
    --set train.from=plain.safetensors --set 'train.lr={knots: [0], values: [0]}'
accepts "$dawn9" eval plain --data texts --logits plain.logits
accepts "$python" -c 'from load_in_pytorch import read
a, b = (read(name + ".logits")[0]["logits"] for name in ("lstm", "plain"))
import torch
assert (b - a - torch.tensor([0.5, -0.5])).abs().max() < 1e-5'

# In PyTorch a language model has the record's perplexity, as loaded and as the module of pytorch/examples; and dawn9
# finds the perplexity of the model that PyTorch changed.
stream_files
for cell in $cells; do
    run=$cell-stream
    stream_model $cell
    accepts "$python" "$source/tests/support/stream_perplexity.py" $run 3 5
    changed=$(sed 's/.*; //' "$out")
    replies "abs(d['perplexity'] / $changed - 1) <= 1e-5" "$dawn9" eval $run.back.safetensors --data corpus --json
done

prints 'CELU\(alpha=0.3\)' "$python" "$source/tools/load_in_pytorch.py" dawn94/model.safetensors

# The comparison fails for the logits of another model.
observe "$python" "$source/tools/load_in_pytorch.py" dawn94/model.safetensors before_act.logits
[ $status = 1 ] || fail "the logits of another model pass: status $status"

# A file that is cut off or missing: a line that names it, and no traceback.
head -c 3000 dawn94/model.safetensors >cut.safetensors
head -c 5 dawn94/model.safetensors >short.safetensors
for name in cut short none; do
    observe "$python" "$source/tools/load_in_pytorch.py" $name.safetensors
    [ $status = 1 ] && [ "$(wc -l <"$err")" = 1 ] && grep -q "^load_in_pytorch.py: .*$name.safetensors" "$err" || fail "$name: $(cat "$err")"
done

# ---- the way back: changed in PyTorch, evaluated here ----
cat >tune.py <<'PYTHON'
import torch
from load_in_pytorch import load, save
net = load("dawn94/model.safetensors")
assert len(net.classes) == 10 and not net.training
with torch.no_grad():
    for number, parameter in enumerate(net.parameters()):
        parameter.mul_(1 + 0.1 * torch.sin(torch.arange(parameter.numel()) + number).reshape(parameter.shape))
save(net, "tuned.safetensors")
PYTHON
accepts "$python" tune.py
accepts "$dawn9" eval dawn94.yaml tuned.safetensors --logits tuned.logits
accepts "$python" "$source/tools/load_in_pytorch.py" tuned.safetensors tuned.logits
observe "$python" "$source/tools/load_in_pytorch.py" dawn94/model.safetensors tuned.logits
[ $status = 1 ] || fail "what was changed in PyTorch did not arrive"

# ---- features of weights with torchvision's names ----
features() { # WIDTH SIDE PICTURES ENDING
    accepts "$python" "$source/tests/support/torchvision_weights.py" make 50 $1 $2 $3 width$1
    cat >width$1.yaml <<YAML
backend: cpu
precision: f32
model: {name: resnet, depth: 50, width: $1, stem: imagenet}
data: {dataset: folder, image_size: $2, normalize: imagenet}
YAML
    accepts "$dawn9" predict width$1/weights.$4 width$1/pictures --config width$1.yaml --features width$1.npy
    accepts "$python" "$source/tests/support/torchvision_weights.py" compare width$1/wanted.safetensors width$1.npy
    says "^features: $3 x $(($1 * 32)), largest difference "
}
features 16 65 20 pth
features 64 224 9 safetensors
# ---- a wide residual network has as many parameters as its definition in PyTorch (tests/golden) ----
parameters() { # DEPTH WIDTH
    accepts "$python" "$source/tests/support/wide_resnet_parameters.py" $1 $2
    counted=$(cat "$out")
    accepts "$dawn9" bench fit --config "$source/configs/wide-resnet.yaml" --set model.depth=$1 --set model.width=$2 \
        --backend cpu --memory 8G
    says ", $counted parameters: "
}
parameters 16 4
parameters 28 10
sed 's/stem: imagenet/stem: cifar/' width16.yaml >wrong.yaml
rejects 2 'weights.safetensors conv1.weight 16 3 7' \
    "$dawn9" predict width16/weights.safetensors width16/pictures --config wrong.yaml --features x.npy
verdict
