#!/usr/bin/env python3
"""A model.safetensors of dawn9's resnet9 as a PyTorch module, and back. Needs torch and nothing else.

    from load_in_pytorch import load, save
    net = load("runs/dawn94-seed1/model.safetensors")   # in eval mode
    logits = net(images)                # (N, 3, H, W), bytes 0 to 255; the net normalises them; net.classes names the logits
    logits = net.tta(images)            # the mean over the views of the configuration (flip_tta)
    save(net, "tuned.safetensors")      # for dawn9 eval

usage: load_in_pytorch.py MODEL             prints the module
       load_in_pytorch.py MODEL LOGITS      compares it with what `dawn9 eval --logits LOGITS` wrote: status 1 beyond 1e-4
"""
import json
import re
import struct
import sys
from collections import OrderedDict

import torch
from torch import nn

TYPES = {"F64": torch.float64, "F32": torch.float32, "I32": torch.int32, "U8": torch.uint8}


def read(path):
    """The tensors and the metadata of a safetensors file."""
    with open(path, "rb") as file:
        header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
        data = bytearray(file.read())
    metadata, tensors = header.pop("__metadata__", {}), {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(data[begin:end], dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, metadata


def settings(yaml):
    """The configuration in the metadata, a key a line, as {"tricks.celu.alpha": "0.3", ...}."""
    found, path = {}, []
    for line in yaml.splitlines():
        indent, key, value = re.match(r"( *)([^:]+): *(.*)", line).groups()
        path[len(indent) // 2:] = [key]
        found[".".join(path)] = value
    return found


class Block(nn.Sequential):
    """conv, norm, act and perhaps pool in the configuration's order, then x + res2(res1(x)) where the file has them."""

    def __init__(self, weights, config, role, pool=False):
        layers = OrderedDict()
        for name in ("whiten", "conv"):
            if f"{role}.{name}.weight" in weights:
                outputs, inputs, size, _ = weights[f"{role}.{name}.weight"].shape
                layers[name] = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)
        layers["norm"] = nn.BatchNorm2d(outputs, eps=1e-5)
        layers["act"] = nn.CELU(float(config["tricks.celu.alpha"])) if "tricks.celu.alpha" in config else nn.ReLU()
        if pool:
            layers["pool"] = nn.MaxPool2d(2)
            position = config.get("tricks.pool_before_activation.position")
            for name in {"before_norm": ["norm", "act"], "before_act": ["act"]}.get(position, []):
                layers.move_to_end(name)
        super().__init__(layers)
        self.main = list(layers)
        if f"{role}.res1.conv.weight" in weights:
            self.res1, self.res2 = (Block(weights, config, f"{role}.{name}") for name in ("res1", "res2"))

    def forward(self, x):
        for name in self.main:
            x = getattr(self, name)(x)
        return x + self.res2(self.res1(x)) if hasattr(self, "res1") else x


class ResNet9(nn.Module):
    def __init__(self, weights, metadata):
        super().__init__()
        config = settings(metadata["dawn9.config"])
        self.metadata, self.classes = metadata, json.loads(metadata["dawn9.classes"])
        for role in ("stem", "layer1", "layer2", "layer3"):
            self.add_module(role, Block(weights, config, role, pool=role != "stem"))
        self.head = nn.Linear(*reversed(weights["head.weight"].shape), bias=False)
        self.scale, self.mirrored = float(config["model.logits_scale"]), "tricks.flip_tta" in config
        for name in ("mean", "std"):
            values = torch.tensor(json.loads(metadata["dawn9." + name]))
            self.register_buffer(name, 255 * values.reshape(-1, 1, 1), persistent=False)
        self.load_state_dict(weights)

    def forward(self, images):
        x = self.layer3(self.layer2(self.layer1(self.stem((images.float() - self.mean) / self.std))))
        return self.head(x.amax((2, 3))) * self.scale

    def tta(self, images):
        return (self(images) + self(images.flip(3))) / 2 if self.mirrored else self(images)


def load(path):
    return ResNet9(*read(path)).eval()


def save(net, path):
    """What load takes, dawn9 too. The metadata stays that of the model the net was loaded from."""
    header, data = {"__metadata__": net.metadata}, b""
    for name, tensor in net.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            raw = tensor.float().contiguous().cpu().numpy().tobytes()
            offsets = [len(data), len(data) + len(raw)]
            header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
            data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def compare(net, path):
    """Whether net's logits are those of `dawn9 eval --logits`, to 1e-4 of the largest."""
    theirs, _ = read(path)
    with torch.no_grad():
        parts = theirs["images"].split(500)
        ours = {"logits": torch.cat([net(part) for part in parts]), "logits_tta": torch.cat([net.tta(part) for part in parts])}
    agree = True
    for name, logits in ours.items():
        error, size = (logits - theirs[name]).abs().max().item(), theirs[name].abs().max().item()
        agree &= error <= 1e-4 * size
        print(f"{name}: {len(logits)} images, largest difference {error:.1e} of {size:.3g}")
    return agree


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__[__doc__.index("usage"):].rstrip())
    network = load(sys.argv[1])
    if len(sys.argv) == 2:
        print(network)
    else:
        sys.exit(not compare(network, sys.argv[2]))
