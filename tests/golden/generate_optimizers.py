#!/usr/bin/python3
"""Reference cases of the optimizers other than SGD, computed with PyTorch in float64 on networks of
generate_networks.py.

Adam and AdamW are torch.optim's, with dawn9's groups: biases have a multiple of the learning rate, and their decay is
divided by that multiple. Muon is implemented here for the filters, with torch.optim's SGD for the other parameters. The
decay is strong, and epsilon large, so that a mistake in either is noticed.

Run:  /usr/bin/python3 generate_optimizers.py --out DIR [--only NAME]
Needs python3-torch and python3-numpy (Debian packages).
"""
import torch
from generate_networks import resnet, vgg, write_cases

PEAK, MOMENTUM, BETA2, EPSILON, DECAY, BIASES = 0.1, 0.8, 0.97, 1e-3, 0.2, 4.0
VGG = dict(build=vgg, model="{name: vgg, channels: [4, 6], hidden: 10, dropout: [0.25, 0.25, 0.5]}", batch=8, side=15)
RESNET = dict(build=resnet(18, "cifar", 2), model="{name: resnet, depth: 18, width: 2, stem: cifar}", batch=8, side=15)
ADAM = f"momentum: {MOMENTUM}, beta2: {BETA2}, epsilon: {EPSILON!r}, weight_decay: {DECAY}, bias_lr_multiplier: {BIASES}"

def adam(kind):
    """A case's optimizer: `kind`, torch.optim.Adam or AdamW, over weights and biases."""
    def make(case, params):
        groups = [dict(params=[t for k, t in params.items() if k.endswith("bias") == bias], times=BIASES if bias else 1,
                       weight_decay=DECAY / BIASES if bias else DECAY) for bias in (False, True)]
        optimizer = kind(groups, betas=(MOMENTUM, BETA2), eps=EPSILON)
        def step(grads, rate):
            for group in optimizer.param_groups: group["lr"] = rate * group["times"]
            for k, t in params.items(): t.grad = grads[k]
            optimizer.step()
        return step
    return make

def orthogonal(x, steps):
    """Newton-Schulz iteration on (outputs, everything else), or on the transpose if that has fewer rows."""
    x = x / (x.norm() + 1e-7)
    wide = x if len(x) <= x.shape[1] else x.t()
    for _ in range(steps):
        inner = wide @ wide.t()
        wide = 3.4445 * wide + (-4.7750 * inner + 2.0315 * inner @ inner) @ wide
    return wide if len(x) <= x.shape[1] else wide.t()

MUON = dict(rate=0.24, momentum=0.6, iterations=3)       # the published values, for gradients of the summed loss
def muon(case, params):
    filters = {k: t for k, t in params.items() if t.dim() == 4}
    rest = [t for k, t in params.items() if k not in filters]
    sgd = torch.optim.SGD(rest, lr=1, momentum=0.85, nesterov=True, weight_decay=DECAY)
    kept = {k: torch.zeros_like(t) for k, t in filters.items()}
    def step(grads, rate):
        for group in sgd.param_groups: group["lr"] = rate
        for k, t in params.items(): t.grad = None if k in filters else grads[k]
        sgd.step()
        for k, t in filters.items():
            g, n = grads[k] * case["batch"], len(t)
            kept[k].mul_(MUON["momentum"]).add_(g)
            moved = orthogonal((g + MUON["momentum"] * kept[k]).reshape(n, -1), MUON["iterations"])
            t.mul_(n ** 0.5 / t.norm()).sub_(rate * MUON["rate"] / PEAK * moved.reshape(t.shape))
    return step

CASES = {
    "adam": dict(VGG, optimizer=adam(torch.optim.Adam), train=f"optimizer: adam, {ADAM}", rates=[0.01, 0.02, 0.03]),
    "adamw": dict(RESNET, optimizer=adam(torch.optim.AdamW), train=f"optimizer: adamw, {ADAM}", rates=[0.01, 0.02, 0.03]),
    "muon": dict(RESNET, optimizer=muon, train=f"momentum: 0.85, momentum_form: torch, weight_decay: {DECAY}", more_tricks=", muon: {}", rates=[0.1, 0.05, 0.02]),
}

if __name__ == "__main__": write_cases(CASES)
