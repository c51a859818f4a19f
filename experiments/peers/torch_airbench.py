#!/usr/bin/python3
"""One whole run of Keller Jordan's published airbench94 with PyTorch on the CPU, as a peer for `dawn9 train`.

The published file runs unchanged: this program gives it a torchvision that reads CIFAR-10 from a folder, and replaces
the calls of PyTorch that need a GPU. fp16 becomes f32; with --precision bf16 the network's forward pass runs under
autocast, and its logits become f32. The last line is JSON: the accuracy with all views, `clock_seconds` of airbench's
own clock (training and the last evaluation), `seconds` from the start of this program to the end of the run, and the
settings.

usage: torch_airbench.py FILE CIFAR [--precision f32|bf16] [--threads 2] [--seed 0] [--malloc kept|default]
  FILE   legacy/airbench94.py of github.com/KellerJordan/cifar10-airbench
  CIFAR  the folder of data_batch_1.bin to data_batch_5.bin and test_batch.bin
"""
import time

BEGAN = time.perf_counter()
import argparse, io, json, os, sys, tempfile, types
import numpy, torch
from torch import nn
import fair


class Cifar10:
    """torchvision.datasets.CIFAR10: data (N, 32, 32, 3) of bytes, targets (N), classes."""

    folder = None

    def __init__(self, _root, download, train):
        names = [f"data_batch_{i}.bin" for i in range(1, 6)] if train else ["test_batch.bin"]
        rows = numpy.concatenate([numpy.fromfile(os.path.join(self.folder, name), numpy.uint8) for name in names])
        rows = rows.reshape(-1, 1 + 3 * 32 * 32)
        self.targets = rows[:, 0].astype(numpy.int64)
        self.data = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy()
        self.classes = list(range(10))


class Normalize:
    """torchvision.transforms.Normalize for images (N, 3, H, W)."""

    def __init__(self, mean, deviation):
        self.mean, self.deviation = mean.view(-1, 1, 1), deviation.view(-1, 1, 1)

    def __call__(self, images):
        return (images - self.mean) / self.deviation


class Event:
    """torch.cuda.Event for a device that computes at once."""

    def __init__(self, enable_timing):
        self.at = None

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, later):
        return 1e3 * (later.at - self.at)


class KeptOutput(io.TextIOBase):
    """Standard output that also keeps what was written, because the file only prints its seconds."""

    def __init__(self, output):
        self.output, self.text = output, ""

    def write(self, text):
        self.text += text
        self.output.write(text)
        self.output.flush()
        return len(text)


def without_gpu():
    """Replaces what the published file takes from torchvision and from PyTorch's support of GPUs."""
    names = ("torchvision", "torchvision.datasets", "torchvision.transforms")
    vision = {name: types.ModuleType(name) for name in names}
    vision["torchvision.datasets"].CIFAR10, vision["torchvision.transforms"].Normalize = Cifar10, Normalize
    vision["torchvision"].datasets = vision["torchvision.datasets"]
    vision["torchvision"].transforms = vision["torchvision.transforms"]
    sys.modules.update(vision)
    torch.cuda.Event, torch.cuda.synchronize = Event, lambda: None
    torch.Tensor.half = torch.Tensor.float
    nn.Module.half = nn.Module.cuda = lambda self: self
    load = torch.load
    torch.load = lambda path, map_location: load(path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("file")
    p.add_argument("cifar")
    p.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seed", type=int, default=0)
    fair.add_option(p)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    fair.prepare_torch(a.malloc)
    torch.manual_seed(a.seed)
    Cifar10.folder = os.path.abspath(a.cifar)
    with open(a.file, encoding="utf-8") as file:
        code = compile(file.read(), a.file, "exec")
    without_gpu()
    airbench = types.ModuleType("airbench94")
    exec(code, airbench.__dict__)
    make_net = airbench.make_net

    def make_net_in_bf16():
        net = make_net()
        forward = net.forward

        def under_autocast(images):
            with torch.autocast("cpu", torch.bfloat16):
                return forward(images).float()

        net.forward = under_autocast
        return net

    if a.precision == "bf16":
        airbench.make_net = make_net_in_bf16
    printed = sys.stdout = KeptOutput(sys.stdout)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.mkdir("cifar10")
        accuracy = airbench.main(0)
        os.chdir("/")
    sys.stdout = printed.output
    rows = [row for row in printed.text.splitlines() if row.startswith("|")]
    print(json.dumps({"peer": "airbench94", "torch": torch.__version__, "precision": a.precision, "threads": a.threads,
                      "seed": a.seed, "malloc": a.malloc, "accuracy": accuracy,
                      "clock_seconds": float(rows[-1].split("|")[-2]), "seconds": time.perf_counter() - BEGAN}))


if __name__ == "__main__":
    main()
