# dawn9 export: nodes, inputs, outputs and weights of the ONNX file, read by a decoder of the test; the description in
# a model file; models that cannot be exported. tests/cli/onnx.sh tests that a runtime computes the right logits.
. "$(dirname "$0")/lib.sh"
{
    tiny | sed '/^tricks/d; /^model/d; s/epochs: 2/epochs: 1/'
    echo 'model: {name: resnet9, channels: [4, 6, 8, 10], logits_scale: 0.5}'
    echo 'tricks: {pool_before_activation: {}, celu: {alpha: 0.3}, ghost_batchnorm: {group_size: 8}, patch_whitening: {images: 10}}'
} >dawn94.yaml
accepts "$dawn9" train dawn94.yaml --out run --quiet --set keep=model
accepts "$dawn9" export run/model.safetensors model.onnx
accepts "$dawn9" export run folder.onnx
same model.onnx folder.onnx "a folder's model is not its file's"

# Weights in bf16 are exported as the same numbers in f32.
asserts <<'PYTHON'
whole = open("run/model.safetensors", "rb").read()
begin = 8 + int.from_bytes(whole[:8], "little")
header = json.loads(whole[8:begin])
def write(path, dtype, put):
    entries, data = {"__metadata__": header["__metadata__"]}, b""
    for name, entry in header.items():
        if name == "__metadata__": continue
        at, end = (begin + offset for offset in entry["data_offsets"])
        values = b"".join(put(whole[i + 2:i + 4]) for i in range(at, end, 4))
        entries[name] = {"dtype": dtype, "shape": entry["shape"], "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(entries).encode()
    open(path, "wb").write(len(text).to_bytes(8, "little") + text + data)
write("bf16.safetensors", "BF16", lambda upper: upper)
write("f32.safetensors", "F32", lambda upper: bytes(2) + upper)
PYTHON
for type in bf16 f32; do accepts "$dawn9" export $type.safetensors $type.onnx; done
same bf16.onnx f32.onnx

asserts <<'PYTHON'
import collections, struct
from tfevents import fields, varint

def several(data, number):
    return [value for n, value in fields(data) if n == number]

def text(data, number):
    return [value.decode() for value in several(data, number)]

metadata, tensors = read("run/model.safetensors")

model = open("model.onnx", "rb").read()
assert several(model, 1) == [8] and [several(o, 2) for o in several(model, 8)] == [[17]] # IR, opset
kept = {text(entry, 1)[0]: text(entry, 2)[0] for entry in several(model, 14)}
assert kept["dawn9.config"] == metadata["dawn9.config"] and kept["dawn9.classes"] == metadata["dawn9.classes"]
(graph,) = several(model, 7)

# Weights and statistics: the bytes of model.safetensors; besides them three constants.
def integers(packed):
    found, at = [], 0
    while at < len(packed):
        value, at = varint(packed, at)
        found.append(value)
    return found
weights = {text(t, 8)[0]: (integers(several(t, 1)[0]) if several(t, 1) else [], several(t, 9)[0]) for t in several(graph, 5)}
for name, (shape, numbers) in tensors.items():
    assert weights[name] == (shape, numbers.tobytes()), name
constants = {name: struct.unpack(f"<{len(value) // 4}f", value) for name, (_, value) in weights.items() if name not in tensors}
assert sorted(constants) == ["head.scale.factor", "mean", "std"] and constants["head.scale.factor"] == (0.5,)
for name in ("mean", "std"):
    wanted = json.loads(metadata["dawn9." + name])
    assert all(abs(a - 255 * b) <= 1e-4 for a, b in zip(constants[name], wanted)) and weights[name][0] == [3, 1, 1]

# Nodes: each reads what came before it, and together they are the network.
known, kinds = set(weights) | {"images"}, collections.Counter()
for node in several(graph, 1):
    assert set(text(node, 1)) <= known, text(node, 3)
    assert not set(text(node, 2)) & known, text(node, 3)
    known |= set(text(node, 2))
    kinds[text(node, 4)[0]] += 1
assert "logits" in known
assert kinds == {"Sub": 1, "Div": 1, "Conv": 9, "BatchNormalization": 8, "Celu": 8, "MaxPool": 4, "Add": 2, "Flatten": 1,
                 "Gemm": 1, "Mul": 1}, kinds
assert text(several(graph, 11)[0], 1) == ["images"] and text(several(graph, 12)[0], 1) == ["logits"]
PYTHON

# ---- the description in the model file: the same nodes ----
cat >graph.py <<'PYTHON'
import json, sys
from tensorfile import read
metadata, tensors = read(sys.argv[1])
graph = json.loads(metadata["dawn9.graph"])
known, ops = {"images"} | set(tensors) | set(graph["constants"]), [node["op"] for node in graph["nodes"]]
for node in graph["nodes"]:
    assert set(node["inputs"]) <= known and node["output"] not in known, node
    known.add(node["output"])
assert graph["nodes"][-1]["output"] == "logits" and [view["mirror"] for view in graph["views"]] == json.loads(sys.argv[2])
assert all(axes == [1, 2] for name, axes in graph["constants"].items() if name.endswith(".axes"))
assert {op: ops.count(op) for op in ops} == json.loads(sys.argv[3]), ops
PYTHON
accepts python3 graph.py run/model.safetensors '[false]' '{"Sub": 1, "Div": 1, "Conv": 9, "BatchNormalization": 8,
    "Celu": 8, "MaxPool": 4, "Add": 2, "Flatten": 1, "Gemm": 1, "Mul": 1}'
network_files
accepts "$dawn9" train vgg.yaml --out vgg --quiet
accepts python3 graph.py vgg/model.safetensors '[false, true]' '{"Sub": 1, "Div": 1, "Conv": 4, "Unsqueeze": 4, "Add": 6,
    "Relu": 5, "MaxPool": 2, "Flatten": 2, "Gemm": 2}'

# A linear layer that reads images: its columns are in the order (C, H, W) in the model file, (H, W, C) in the engine.
replies 'd["accuracy"] == result("vgg")["accuracy"]' "$dawn9" eval vgg.yaml vgg/model.safetensors --json

# Dropout that stays in evaluation cannot be exported: the run succeeds without a description, and there is no ONNX.
accepts "$dawn9" train vgg.yaml --out stays --quiet --set model.dropout_in_evaluation=on
accepts "$dawn9" eval stays
grep -q dawn9.graph stays/model.safetensors && fail "a description without dropout"
rejects 2 'block1.drop ONNX' "$dawn9" export stays/model.safetensors x.onnx
[ ! -e x.onnx ] || fail "a rejected export left a file"

rejects 3 'nothing.safetensors' "$dawn9" export nothing.safetensors x.onnx
rejects 3 'dawn9.config' "$dawn9" export run/predictions.safetensors x.onnx
rejects 6 'nowhere/x.onnx' "$dawn9" export run/model.safetensors nowhere/x.onnx
rejects 2 'OUT' "$dawn9" export run/model.safetensors
rejects 2 'OUT m.pt ONNX .onnx' "$dawn9" export run/model.safetensors m.pt
[ ! -e m.pt ] || fail "ONNX is in m.pt"
verdict
