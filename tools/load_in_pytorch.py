#!/usr/bin/env python3
"""Loads a model.safetensors of dawn9 as a PyTorch module and writes it back. The file describes its own network. Needs
only torch.

    from load_in_pytorch import load, save
    net = load("runs/dawn94-seed1/model.safetensors")   # in eval mode
    logits = net(images)                # (N, 3, H, W), bytes 0 to 255; the net normalises them; net.classes names the logits
    logits = net.tta(images)            # their weighted mean over the views of test-time augmentation
    logits = net(net.encode(["A text."]))  # of a model of texts, whose input is tokens (N, T)
    logits, state = net(tokens, state)  # of a stream, whose input is tokens (T, N); state: PyTorch's, or None; logit k
                                        # is that of net.words[k] as the next token; net.state_dict() fits
                                        # pytorch/examples' RNNModel
    save(net, "tuned.safetensors")      # for dawn9 eval

The module is the network in evaluation, so it has no dropout.

usage: load_in_pytorch.py MODEL             prints the module
       load_in_pytorch.py MODEL LOGITS      compares its logits with those that `dawn9 eval --logits` wrote: status 1
                                            if a difference is above 1e-4 of the largest logit
"""
import ctypes
import json
import re
import struct
import sys

import torch
from torch import nn
from torch.nn import functional as F

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
         "I32": torch.int32, "U8": torch.uint8}


def read(path):
    """The tensors and the metadata of a safetensors file. A truncated file or another format raises ValueError with the
    file's name."""
    try:
        with open(path, "rb") as file:
            header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
            data = bytearray(file.read())
        metadata, tensors = header.pop("__metadata__", {}), {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            tensors[name] = torch.frombuffer(data[begin:end], dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
    except (struct.error, MemoryError, OverflowError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path}: no whole safetensors file ({error})") from None
    return tensors, metadata


def pool(kind, a):
    """A pooling layer of class `kind` from a node's attributes. Only padding that is equal on all sides occurs."""
    return kind(a["kernel_shape"], a["strides"], a.get("pads", [0])[0])


# ONNX operation: function that makes a node's layer from the node's attributes `a` and the weights `w` that it reads.
LAYERS = {
    "Conv": lambda a, w: nn.Conv2d(w.shape[1], w.shape[0], w.shape[2:], a["strides"], a["pads"][0], bias=False),
    "BatchNormalization": lambda a, w, *_: nn.BatchNorm2d(len(w), eps=a["epsilon"]),
    "Gemm": lambda a, w: nn.Linear(w.shape[1], w.shape[0], bias=False),
    "Relu": lambda a: nn.ReLU(),
    "Celu": lambda a: nn.CELU(a["alpha"]),
    "Sigmoid": lambda a: nn.Sigmoid(),
    "MaxPool": lambda a: pool(nn.MaxPool2d, a),
    "AveragePool": lambda a: pool(nn.AvgPool2d, a),
    "Flatten": lambda a: nn.Flatten(a["axis"]),
    "Gather": lambda a, w: nn.Embedding(*w.shape),
    "MatMul": lambda a, w: nn.Linear(w.shape[1], w.shape[0], bias=False),
}
RECURRENT = {"GRU": nn.GRU, "LSTM": nn.LSTM, "RNN": nn.RNN}
# ONNX operation without weights: function that computes the output from the node's attributes and inputs.
FUNCTIONS = {
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Erf": lambda a, x: torch.erf(x),
    "Concat": lambda a, *inputs: torch.cat(inputs, a["axis"]),
    "Gather": lambda a, x, index: x.index_select(a["axis"], index % x.shape[a["axis"]]),
    "Squeeze": lambda a, x, axes: x.squeeze(axes.item()),
    "Transpose": lambda a, x: x.permute(a["perm"]),
}


class Network(nn.Module):
    """The network of a file. A layer is named after its weights (net.layer1.conv), or after its node if it has none."""

    def __init__(self, weights, metadata):
        super().__init__()
        graph = json.loads(metadata["dawn9.graph"])
        self.metadata, self.classes, self.views = metadata, json.loads(metadata["dawn9.classes"]), graph["views"]
        self.words, self.length = (json.loads(metadata.get("dawn9." + key, "null")) for key in ("words", "length"))
        named = {name for node in graph["nodes"] for name in node["inputs"]}
        self.input = next(name for name in ("images", "texts", "tokens") if name in named)
        self.nodes, self.constants, self.state, seen = [], set(graph["constants"]), None, {}
        for name, value in graph["constants"].items():
            value = torch.tensor(value)
            per_channel = value.dim() and value.is_floating_point()
            self.register_buffer("constant_" + name.replace(".", "_"), value.reshape(-1, 1, 1) if per_channel else value,
                                 persistent=False)
        for node in graph["nodes"]:
            self.add(node, weights, seen)
        weights = {**weights, **{name: weights[tied] for name, tied in seen.items() if name.endswith(".weight")}}
        later = {self.output}
        for index, (run, inputs, output) in reversed(list(enumerate(self.nodes))):
            self.nodes[index] = run, inputs, output, set(inputs) - later  # values that no later node reads
            later |= set(inputs)
        self.load_state_dict(weights)

    def add(self, node, weights, seen):
        """Adds a node's layer or function. `seen` maps names of the file to the names used here, if these differ."""
        op, attributes, output = node["op"], node["attributes"], node["output"]
        inputs = [seen.get(name, name) for name in node["inputs"]]
        read = [name for name in inputs if name in weights]
        other = [name for name in inputs if name not in weights and name not in self.constants]
        if not other:  # ONNX needs the weight in another layout; PyTorch's layers use the weight itself
            seen[output] = inputs[0]
        elif op in RECURRENT:
            self.add_recurrent(op, attributes, other[0], output, read[0], weights)
        elif op == "Add" and read:  # the bias of the layer that computed the other input
            layer = self.get_submodule(read[0].rpartition(".")[0])
            if self.nodes[-1][0] is not layer or self.nodes[-1][2] != inputs[0]:
                raise ValueError(f"{node['name']}: {read[0]} follows no layer")
            layer.bias = nn.Parameter(weights[read[0]].clone())
            seen[output] = inputs[0]
        elif op in FUNCTIONS and not read:
            self.nodes.append((lambda *x: FUNCTIONS[op](attributes, *x), inputs, output))
        else:
            layer = LAYERS[op](attributes, *(weights[name] for name in read))
            path = read[0].rpartition(".")[0] if read else node["name"]
            if read and read[0] in dict(self.named_parameters()):  # tied: a second layer with this weight
                seen[node["name"] + ".weight"], layer.weight, path = read[0], self.get_parameter(read[0]), node["name"]
            self.place(path, layer)
            self.nodes.append((layer, other[:1], output))
        self.output = seen.get(output, output)

    def add_recurrent(self, op, attributes, x, output, weight, weights):
        """The node of the first layer runs all layers, which PyTorch has in one module; the nodes of later layers pass
        its output on. Outputs have ONNX's dimension of directions: (T, 1, N, C)."""
        path, layer = weight.rpartition(".")[0], None
        if weight.endswith("_l0"):
            count = sum(name.startswith(path + ".weight_hh_l") for name in weights)
            kind = {"nonlinearity": word.lower() for word in attributes.get("activations", [])}
            layer = RECURRENT[op](weights[weight].shape[1], attributes["hidden_size"], count, **kind)
            self.place(path, layer)

        def run(x):
            if layer:
                x, self.state = layer(x, self.state)
            return x.unsqueeze(1)

        self.nodes.append((run, [x], output))

    def encode(self, texts):
        """Tokens (N, T) of texts, as dawn9 makes them: engine/data/vocabulary.h. For a language
        model: (T, N) of texts with equally many words, separated by blanks; an unknown word becomes <unk>."""
        texts = [text.removeprefix("\ufeff") for text in texts]
        if self.input == "tokens":
            rank = {word: token for token, word in enumerate(self.words)}
            return torch.tensor([[rank[word] if word in rank else rank["<unk>"] for word in text.split()] for text in texts]).T
        rank, rows = {word: token for token, word in enumerate(self.words) if token > 3}, []
        for text in texts:
            words = re.findall(r"[^\x00-\x20!-&(-/:-@\[-`{-~]+", text.encode().lower().decode())
            row = ([1] + [rank.get(word, 2) for word in words])[-self.length:]
            rows.append(row + [0] * (self.length - len(row)))
        return torch.tensor(rows)

    def place(self, path, layer):
        *folders, name = path.split(".")
        at = self
        for folder in folders:
            if folder not in dict(at.named_children()):
                at.add_module(folder, nn.Module())
            at = getattr(at, folder)
        at.add_module(name, layer)

    def forward(self, images, state=None):
        self.state = state
        values = {self.input: images.long() if self.words else images.to(next(self.parameters()).dtype)}
        for run, inputs, output, done in self.nodes:
            values[output] = run(*(values[name] if name in values else self.constant(name) for name in inputs))
            for name in done & set(values):
                del values[name]
        return (values[self.output], self.state) if self.input == "tokens" else values[self.output]

    def constant(self, name):
        return getattr(self, "constant_" + name.replace(".", "_"))

    def tta(self, images):
        reach = max(abs(shift) for view in self.views for shift in (view["dy"], view["dx"]))
        height, width = images.shape[-2:]
        wide = F.pad(images.float(), [reach] * 4, mode="reflect") if reach else images
        total = 0
        for view in self.views:
            y, x = reach + view["dy"], reach + view["dx"]
            part = wide[..., y:y + height, x:x + width]
            total = total + view["weight"] * self(part.flip(-1) if view["mirror"] else part)
        return total


def load(path):
    weights, metadata = read(path)
    if "dawn9.graph" not in metadata:
        raise ValueError(f"{path}: has no dawn9.graph in its metadata: dawn9 did not write it, or the network has no form outside dawn9")
    return Network(weights, metadata).eval()


def save(net, path):
    """Writes a model file that load and dawn9 read, with the metadata of the model that the net was loaded from."""
    header, data, written = {"__metadata__": net.metadata}, b"", set()
    for name, tensor in net.state_dict().items():
        if not name.endswith("num_batches_tracked") and tensor.data_ptr() not in written:  # tied weights are one
            written.add(tensor.data_ptr())
            values = tensor.float().contiguous().cpu()
            raw = ctypes.string_at(values.data_ptr(), 4 * values.numel())
            offsets = [len(data), len(data) + len(raw)]
            header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
            data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def compare(net, path):
    """True if the logits of net differ from those of `dawn9 eval --logits` by at most 1e-4 of the largest."""
    theirs, _ = read(path)
    with torch.no_grad():
        parts = theirs[net.input].split(500)
        ours = {"logits": torch.cat([net(part) for part in parts]), "logits_tta": torch.cat([net.tta(part) for part in parts])}
    agree = True
    for name, logits in ours.items():
        error, size = (logits - theirs[name]).abs().max().item(), theirs[name].abs().max().item()
        agree &= error <= 1e-4 * size
        print(f"{name}: {len(logits)} {net.input}, largest difference {error:.1e} of {size:.3g}")
    return agree


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__[__doc__.index("usage"):].rstrip())
    try:
        network = load(sys.argv[1])
        if len(sys.argv) == 2:
            print(network)
        else:
            sys.exit(not compare(network, sys.argv[2]))
    except (OSError, ValueError) as problem:
        sys.exit(f"load_in_pytorch.py: {problem}")
