"""Writes random ResNet weights under torchvision's names, random images, and the features that PyTorch computes.

python3 torchvision_weights.py make DEPTH WIDTH SIDE COUNT FOLDER  weights (.safetensors, .pth), wanted.safetensors,
                                                                   pictures/NNN.png
python3 torchvision_weights.py compare WANTED GOT.npy              status 1: error above 1e-4 of the largest feature
python3 torchvision_weights.py types FILE.pth                      tensors of seven types, a parameter, views, a scalar,
                                                                   an empty tensor

The network is that of tests/golden/generate_networks.py. Needs python3-torch and python3-numpy. tests/fixtures/pytorch
was made by `make 18 2 33 2` (without weights.safetensors) and `types`.
"""
import collections
import os
import struct
import sys
import zlib

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import generate_networks as networks
from generate import save
from load_in_pytorch import read

networks.MEAN, networks.STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
networks.CLASSES = [str(i) for i in range(1000)]


def write_png(path, pixels):
    """pixels: u8 (H, W, 3)"""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


class Net(networks.Net):
    def linear(self, x, role, outputs):
        self.features = x.flatten(1)
        return super().linear(x, role, outputs)


def make(depth, width, side, count, folder):
    os.makedirs(folder + "/pictures")
    pixels = np.random.default_rng(1).integers(0, 256, (count, side, side, 3), dtype=np.uint8)
    for i in range(count):
        write_png(f"{folder}/pictures/{i:03d}.png", pixels[i])
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    net = Net({"build": networks.resnet(depth, "imagenet", width)}, torch.float32, torch.Generator().manual_seed(1))
    with torch.no_grad():
        net.forward(images[:4], True)  # moves the running statistics
        net.forward(images, False)
    weights = {**net.p, **net.stat}
    for name in net.stat:
        if name.endswith("running_mean"):
            weights[name.replace("running_mean", "num_batches_tracked")] = torch.tensor(1)
    save(folder + "/weights.safetensors", weights, {})
    state = collections.OrderedDict(weights)
    state._metadata = collections.OrderedDict([("", {"version": 1}), ("bn1", {"version": 2})])  # as in a state_dict
    torch.save(state, folder + "/weights.pth")
    save(folder + "/wanted.safetensors", {"features": net.features}, {})


def types(path):
    kinds = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8)
    state = {str(kind)[6:]: torch.arange(1, 6).to(kind) for kind in kinds}
    state["parameter"] = torch.nn.Parameter(torch.arange(1.0, 6))
    whole = torch.arange(1.0, 13).reshape(2, 3, 2)
    state.update(whole=whole, part=whole[1], scalar=torch.tensor(5), empty=torch.zeros(0, 3), column=whole[:, :1, :1][1:])
    torch.save(state, path)


def compare(wanted, got):
    wanted, got = read(wanted)[0]["features"].numpy(), np.load(got)
    assert wanted.shape == got.shape, (wanted.shape, got.shape)
    error, largest = np.abs(wanted - got).max(), np.abs(wanted).max()
    print(f"features: {wanted.shape[0]} x {wanted.shape[1]}, largest difference {error:.1e} of {largest:.3g}")
    return bool(error <= 1e-4 * largest)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(*map(int, sys.argv[2:6]), sys.argv[6])
    elif sys.argv[1] == "types":
        types(sys.argv[2])
    else:
        sys.exit(not compare(*sys.argv[2:4]))
