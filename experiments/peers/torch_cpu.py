#!/usr/bin/python3
"""PyTorch on the CPU as a peer for `dawn9 bench step`: the dawn94 network and training step, images per second.

The work of a step is that of configs/dawn94.yaml: whitened stem, pooling before the norm, CELU, ghost batch norm with
32 images per group, smoothed summed loss, Nesterov SGD over two groups, EMA every fifth step. Images are random. bf16
autocast or f32, channels_last or contiguous. Needs Debian's python3-torch and a fast BLAS (libopenblas0-openmp).

usage: torch_cpu.py [--precision bf16|f32] [--layout channels_last|contiguous] [--batch 512] [--steps 8] [--warm 2]
                    [--threads 2] [--malloc kept|default]
"""
import argparse, json, statistics, time
import torch, torch.nn.functional as F
import fair


class GhostNorm(torch.nn.BatchNorm2d):
    """Batch norm with statistics over groups and a scale of 1; sample i is in group i mod `groups`."""

    def __init__(self, channels, groups):
        super().__init__(channels * groups, affine=False)
        self.groups, self.shift = groups, torch.nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        n, c, h, w = x.shape
        y = super().forward(x.reshape(n // self.groups, self.groups * c, h, w)).reshape(n, c, h, w)
        return y + self.shift[:, None, None]


class Block(torch.nn.Module):
    def __init__(self, inputs, outputs, groups, kernel=3, pool=False):
        super().__init__()
        self.conv = torch.nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.norm, self.pool = GhostNorm(outputs, groups), pool

    def forward(self, x):
        x = self.conv(x)
        return F.celu(self.norm(F.max_pool2d(x, 2) if self.pool else x), 0.3)


class Net(torch.nn.Module):
    def __init__(self, groups, c=(64, 128, 256, 512)):
        super().__init__()
        self.whiten = torch.nn.Conv2d(3, 27, 3, padding=1, bias=False).requires_grad_(False)
        self.stem = Block(27, c[0], groups, kernel=1)
        self.layer1, self.layer2, self.layer3 = (Block(a, b, groups, pool=True) for a, b in zip(c, c[1:]))
        self.res1 = torch.nn.Sequential(Block(c[1], c[1], groups), Block(c[1], c[1], groups))
        self.res3 = torch.nn.Sequential(Block(c[3], c[3], groups), Block(c[3], c[3], groups))
        self.head = torch.nn.Linear(c[3], 10, bias=False)

    def forward(self, x):
        x = self.layer1(self.stem(self.whiten(x)))
        x = self.layer2(x + self.res1(x))
        x = self.layer3(x)
        return self.head(F.max_pool2d(x + self.res3(x), 4).flatten(1)) / 16


def dawn94_groups(net, batch):
    """The optimizer's groups (weights, biases) for the summed loss of a batch, and the weights' learning rate."""
    biases = [q for n, q in net.named_parameters() if "shift" in n]
    weights = [q for n, q in net.named_parameters() if "shift" not in n and q.requires_grad]
    rate, decay = 0.5 / batch, 5e-4 * batch
    return [dict(params=weights, lr=rate, weight_decay=decay),
            dict(params=biases, lr=64 * rate, weight_decay=decay / 64)], rate


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--precision", choices=("bf16", "f32"), default="bf16")
    p.add_argument("--layout", choices=("channels_last", "contiguous"), default="channels_last")
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--warm", type=int, default=2)
    p.add_argument("--threads", type=int, default=2)
    fair.add_option(p)
    a = p.parse_args()
    fair.prepare_torch(a.malloc)
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    layout = torch.channels_last if a.layout == "channels_last" else torch.contiguous_format
    net = Net(a.batch // 32).to(memory_format=layout).train()
    average = {k: v.clone() for k, v in net.state_dict().items()}
    groups, rate = dawn94_groups(net, a.batch)
    optimizer = torch.optim.SGD(groups, lr=rate, momentum=0.9, nesterov=True)
    x = torch.randn(a.batch, 3, 32, 32).to(memory_format=layout)
    y = torch.randint(0, 10, (a.batch,))
    seconds = []
    for step in range(a.warm + a.steps):
        begin = time.monotonic()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.precision == "bf16"):
            logits = net(x)
        loss = F.cross_entropy(logits.float(), y, label_smoothing=0.2, reduction="sum")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            for k, v in net.state_dict().items():
                if v.is_floating_point():
                    average[k].lerp_(v, 1 - 0.99**5)
        seconds.append(time.monotonic() - begin)
    median = statistics.median(seconds[a.warm:])
    print(json.dumps(dict(peer="PyTorch " + torch.__version__, malloc=a.malloc, precision=a.precision,
                          layout=a.layout, batch=a.batch, threads=a.threads, step_seconds=median, images_per_second=a.batch / median, steps=a.steps)))


if __name__ == "__main__":
    main()
