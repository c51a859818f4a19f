#!/usr/bin/python3
"""PyTorch on the CPU as a peer for `dawn9 bench`: a training step of each network, or features, images per second.

The networks are defined here, ResNet and DenseNet with torchvision's layers but other names, so that only Debian's
python3-torch is needed. Images are random, so no data is read. bf16 uses autocast. Every network has the same step:
cross entropy, SGD with momentum 0.9.

  vgg         the CNN of ilkarman/DeepLearningFrameworks, 32 x 32, 10 classes, as configs/rosetta.yaml
  resnetD     D = 18, 34, 50, 101, 152; 3x3 stem up to 64 pixels, ImageNet's beyond
  densenet121 with the same stems
  airbench94  Keller Jordan's, 32 x 32, without its lookahead
  features    ResNet-50 up to its average pool, 2048 numbers per image: forward only, without gradients

usage: torch_networks.py NETWORK [--precision f32|bf16] [--layout contiguous|channels_last] [--batch 64] [--size 32]
                         [--classes 10] [--steps 3] [--warm 1] [--threads 2] [--malloc kept|default] [--count]
"""
import argparse, json, statistics, time
import torch, torch.nn.functional as F
from torch import nn
import fair


# ---- networks ----


class Vgg(nn.Module):
    def __init__(self, classes, size):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 50, 3, padding=1), nn.Conv2d(50, 50, 3, padding=1)
        self.conv3, self.conv4 = nn.Conv2d(50, 100, 3, padding=1), nn.Conv2d(100, 100, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(100 * (size // 4) ** 2, 512), nn.Linear(512, classes)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv2(F.relu(self.conv1(x))), 2))
        x = F.dropout(x, 0.25, self.training)
        x = F.relu(F.max_pool2d(self.conv4(F.relu(self.conv3(x))), 2))
        x = F.dropout(x, 0.25, self.training)
        x = F.dropout(F.relu(self.fc1(x.flatten(1))), 0.5, self.training)
        return self.fc2(x)


class Residual(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        plan = [(width, 1, 1), (width, 3, stride), (outputs, 1, 1)] if bottleneck else [(width, 3, stride), (outputs, 3, 1)]
        layers, channels = [], inputs
        for i, (to, kernel, by) in enumerate(plan):
            layers += [nn.ReLU(inplace=True)] if i else []
            layers += [nn.Conv2d(channels, to, kernel, by, kernel // 2, bias=False), nn.BatchNorm2d(to)]
            channels = to
        self.layers, self.downsample = nn.Sequential(*layers), nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.layers(x) + self.downsample(x), inplace=True)


BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def stem(channels, size):
    """The stem: ImageNet's, or a 3x3 convolution for small images."""
    if size <= 64:  # as model.stem: auto
        return [nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
    return [nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]


def resnet(depth, classes, size):
    layers, inputs, bottleneck = stem(64, size), 64, depth >= 50
    for stage, count in enumerate(BLOCKS[depth]):
        for i in range(count):
            layers.append(Residual(inputs, 64 << stage, 2 if stage and not i else 1, bottleneck))
            inputs = (64 << stage) * (4 if bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class Dense(nn.Module):
    def __init__(self, inputs, growth=32):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv1(F.relu(self.norm1(x), inplace=True))
        return torch.cat((x, self.conv2(F.relu(self.norm2(y), inplace=True))), 1)


def densenet121(classes, size):
    layers, channels, blocks = stem(64, size), 64, (6, 12, 24, 16)
    for i, count in enumerate(blocks):
        for _ in range(count):
            layers.append(Dense(channels))
            channels += 32
        layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
        if i + 1 < len(blocks):
            layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
            channels //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class Group(nn.Sequential):
    def __init__(self, inputs, outputs):
        def norm():
            made = nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4)
            made.weight.requires_grad_(False)
            return made

        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.MaxPool2d(2), norm(), nn.GELU(),
                         nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), norm(), nn.GELU())


def airbench94(classes):
    first = nn.Conv2d(3, 24, 2)
    first.weight.requires_grad_(False)
    first.bias.requires_grad_(False)  # frozen, as it is from the fourth epoch on
    return nn.Sequential(first, nn.GELU(), Group(24, 64), Group(64, 256), Group(256, 256), nn.MaxPool2d(3), nn.Flatten(),
                         nn.Linear(256, classes, bias=False))


def network(name, classes, size):
    if name == "airbench94":
        return airbench94(classes)
    if name == "vgg":
        return Vgg(classes, size)
    if name == "densenet121":
        return densenet121(classes, size)
    if name == "features":
        return resnet(50, classes, size)[:-1]
    return resnet(int(name[len("resnet"):]), classes, size)


# ---- timing ----


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("network", choices=["vgg", *(f"resnet{d}" for d in BLOCKS), "densenet121", "airbench94", "features"])
    p.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    p.add_argument("--layout", choices=("contiguous", "channels_last"), default="contiguous")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--size", type=int, default=32)
    p.add_argument("--classes", type=int, default=10)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--warm", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    fair.add_option(p)
    p.add_argument("--count", action="store_true", help="print the number of parameters and end")
    a = p.parse_args()
    fair.prepare_torch(a.malloc)
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    layout = torch.channels_last if a.layout == "channels_last" else torch.contiguous_format
    train = a.network != "features"
    net = network(a.network, a.classes, a.size).to(memory_format=layout).train(train)
    if a.count:
        print(sum(q.numel() for q in net.parameters()))
        return
    optimizer = torch.optim.SGD([q for q in net.parameters() if q.requires_grad], lr=0.01, momentum=0.9)
    x = torch.rand(a.batch, 3, a.size, a.size).to(memory_format=layout)
    y = torch.randint(0, a.classes, (a.batch,))
    seconds = []
    for _ in range(a.warm + a.steps):
        begin = time.monotonic()
        with torch.set_grad_enabled(train), torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.precision == "bf16"):
            made = net(x)
        if train:
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(made.float(), y).backward()
            optimizer.step()
        seconds.append(time.monotonic() - begin)
    median = statistics.median(seconds[a.warm :])
    print(json.dumps(dict(peer="PyTorch " + torch.__version__, malloc=a.malloc, network=a.network,
                          precision=a.precision, layout=a.layout, batch_size=a.batch, size=a.size, threads=a.threads, step_seconds=median,
                          images_per_second=a.batch / median, steps=a.steps)))


if __name__ == "__main__":
    main()
