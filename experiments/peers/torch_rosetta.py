#!/usr/bin/python3
"""Trains the CNN of the Rosetta stone on CIFAR-10 with PyTorch on the CPU, for comparison with configs/rosetta.yaml.

It has the same settings: Glorot uniform weights and zero biases, pixels in 0..1, no augmentation, SGD 0.01 with
momentum 0.9 without Nesterov, no weight decay, batches of 64 in a new order each epoch, the last partial batch left
out, dropout 0.25, 0.25, 0.5 and none in evaluation, 10 epochs, f32. Needs Debian's python3-torch and CIFAR-10's binary
files (./setup.sh --data). Prints TSV with a line per epoch; `seconds` is the training time since the start.

usage: torch_rosetta.py [--seed 1] [--epochs 10] [--images 50000] [--threads N] [--layout contiguous|channels_last]
                        [--data FOLDER]     threads: one for each core; images: fewer for a try
"""
import argparse, os, sys, time
import numpy, torch, torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fair  # pylint: disable=wrong-import-position
from torch_networks import Vgg  # pylint: disable=wrong-import-position


def default_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(os.environ.get("DAWN9_DATA") or os.path.join(cache, "dawn9"), "cifar10")


def read(folder, names):
    """Images (N, 3, 32, 32) in 0..1, and labels. A record of the file is a label and 3072 bytes."""
    rows = numpy.concatenate([numpy.fromfile(os.path.join(folder, name), numpy.uint8).reshape(-1, 3073) for name in names])
    images = torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).astype(numpy.float32) / 255)
    return images, torch.from_numpy(rows[:, 0].astype(numpy.int64))


def glorot(net):
    for q in net.parameters():
        if q.dim() > 1:
            torch.nn.init.xavier_uniform_(q)
        else:
            torch.nn.init.zeros_(q)


def accuracy(net, images, labels):
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in zip(images.split(500), labels.split(500)))
    net.train()
    return 100 * right / len(labels)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--images", type=int, default=50000)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--layout", choices=("contiguous", "channels_last"), default="contiguous")
    p.add_argument("--data", default=default_folder())
    a = p.parse_args()
    fair.prepare_torch()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    layout = torch.channels_last if a.layout == "channels_last" else torch.contiguous_format
    images, labels = (t[: a.images] for t in read(a.data, [f"data_batch_{i}.bin" for i in range(1, 6)]))
    test_images, test_labels = read(a.data, ["test_batch.bin"])
    images, test_images = images.contiguous(memory_format=layout), test_images.contiguous(memory_format=layout)
    net = Vgg(10, 32).to(memory_format=layout).train()
    glorot(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    print("peer", "threads", "layout", "seed", "epoch", "train_loss", "accuracy", "seconds", sep="\t")
    seconds = 0.0
    for epoch in range(1, a.epochs + 1):
        begin, total, batches = time.monotonic(), 0.0, len(images) // 64
        order = torch.randperm(len(images))
        for b in range(batches):
            pick = order[64 * b : 64 * b + 64]
            loss = F.cross_entropy(net(images[pick]), labels[pick])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
        seconds += time.monotonic() - begin
        print("PyTorch " + torch.__version__, torch.get_num_threads(), a.layout, a.seed, epoch, f"{total / batches:.4f}",
              f"{accuracy(net, test_images, test_labels):.2f}", f"{seconds:.2f}", sep="\t", flush=True)


if __name__ == "__main__":
    main()
