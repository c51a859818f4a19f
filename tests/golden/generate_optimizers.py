#!/usr/bin/python3
"""Reference cases of the optimizers other than SGD, computed with PyTorch in float64 on networks of
generate_networks.py.

Adam and AdamW are torch.optim's; Muon is implemented here for the filters, with torch.optim's SGD for the other
parameters. The groups are dawn9's: biases have a multiple of the learning rate, and their decay is divided by it. The
decay is strong, and epsilon large, so that a mistake in either is noticed.

Run:  /usr/bin/python3 generate_optimizers.py --out DIR [--only NAME]
Needs python3-torch and python3-numpy (Debian packages).
"""
import argparse, json, os
import numpy as np, torch, torch.nn.functional as F
from generate import save
from generate_networks import CLASSES, MEAN, STD, Net, resnet, vgg

STEPS, PEAK, MOMENTUM, BETA2, EPSILON, DECAY, BIASES = 3, 0.1, 0.8, 0.97, 1e-3, 0.2, 4.0
VGG = dict(build=vgg, model="{name: vgg, channels: [4, 6], hidden: 10, dropout: [0.25, 0.25, 0.5]}", batch=8, side=15)
RESNET = dict(build=resnet(18, "cifar", 2), model="{name: resnet, depth: 18, width: 2, stem: cifar}", batch=8, side=15)
ADAM = f"momentum: {MOMENTUM}, beta2: {BETA2}, epsilon: {EPSILON!r}, weight_decay: {DECAY}, bias_lr_multiplier: {BIASES}"

def moments(kind):
    """An optimizer of torch.optim over weights and biases."""
    def make(params):
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
    """The iteration on (outputs, everything else), or on its transpose if that has fewer rows."""
    x = x / (x.norm() + 1e-7)
    wide = x if len(x) <= x.shape[1] else x.t()
    for _ in range(steps):
        inner = wide @ wide.t()
        wide = 3.4445 * wide + (-4.7750 * inner + 2.0315 * inner @ inner) @ wide
    return wide if len(x) <= x.shape[1] else wide.t()

MUON = dict(rate=0.24, momentum=0.6, iterations=3)       # as published; so are gradients: of the summed loss
def muon(params):
    filters = {k: t for k, t in params.items() if t.dim() == 4}
    rest = [t for k, t in params.items() if k not in filters]
    sgd = torch.optim.SGD(rest, lr=1, momentum=0.85, nesterov=True, weight_decay=DECAY)
    kept = {k: torch.zeros_like(t) for k, t in filters.items()}
    def step(grads, rate):
        for group in sgd.param_groups: group["lr"] = rate
        for k, t in params.items(): t.grad = None if k in filters else grads[k]
        sgd.step()
        for k, t in filters.items():
            g, n = grads[k] * VGG["batch"], len(t)
            kept[k].mul_(MUON["momentum"]).add_(g)
            moved = orthogonal((g + MUON["momentum"] * kept[k]).reshape(n, -1), MUON["iterations"])
            t.mul_(n ** 0.5 / t.norm()).sub_(rate * MUON["rate"] / PEAK * moved.reshape(t.shape))
    return step

CASES = {
    "adam": dict(VGG, optimizer=moments(torch.optim.Adam), train=f"optimizer: adam, {ADAM}", tricks="", rates=[0.01, 0.02, 0.03]),
    "adamw": dict(RESNET, optimizer=moments(torch.optim.AdamW), train=f"optimizer: adamw, {ADAM}", tricks="", rates=[0.01, 0.02, 0.03]),
    "muon": dict(RESNET, optimizer=muon, train=f"momentum: 0.85, momentum_form: torch, weight_decay: {DECAY}", tricks=", muon: {}", rates=[0.1, 0.05, 0.02]),
}

def run(case, seed, dtype):
    rng, n = np.random.default_rng(seed), case["batch"]
    u8 = torch.from_numpy(rng.integers(0, 256, (n, 3, case["side"], case["side"]), dtype=np.uint8))
    labels = torch.from_numpy(rng.integers(0, len(CLASSES), n))
    net, out = Net(case, dtype, torch.Generator().manual_seed(seed)), {"images": u8, "labels": labels}
    net.forward(u8, False)                                # makes the parameters
    for k, t in net.p.items(): out["init/" + k] = t.detach().bfloat16()
    step = case["optimizer"](net.p)
    for s in range(STEPS):
        logits = net.forward(u8, True, s)
        loss = F.cross_entropy(logits, labels, reduction="none")
        out[f"step{s + 1}/loss"], out[f"step{s + 1}/logits"] = loss, logits
        grads = dict(zip(net.p, torch.autograd.grad(loss.sum(), list(net.p.values()))))
        if s == 0: out.update({"grad/" + k: g.clone() for k, g in grads.items()})
        with torch.no_grad(): step({k: g / n for k, g in grads.items()}, case["rates"][s])
    with torch.no_grad():
        for k, t in (*net.p.items(), *net.stat.items()): out["final/" + k] = t.clone()
        out["eval/logits"] = net.forward(u8, False)
        out["eval/logits_tta"] = (out["eval/logits"] + net.forward(u8.flip(3), False)) / 2
    return out

def describe(name, case, **found):
    config = "\n".join([
        "data: {dataset: synthetic}",
        f"model: {case['model']}",
        f"train: {{epochs: 1, batch_size: {case['batch']}, {case['train']}, lr: {{knots: [0], values: [{PEAK}]}}}}",
        f"tricks: {{flip_tta: {{}}{case['tricks']}}}"]) + "\n"
    settings = dict(name=name, steps=STEPS, lr=case["rates"], bn_eps=1e-5, bn_momentum=0.1, **found)
    return {"dawn9.config": config, "dawn9.classes": json.dumps(CLASSES), "dawn9.image_size": json.dumps([case["side"]] * 2),
            "dawn9.mean": json.dumps(MEAN), "dawn9.std": json.dumps(STD), "case": json.dumps(settings)}

if __name__ == "__main__":
    ap = argparse.ArgumentParser(); ap.add_argument("--out", required=True); ap.add_argument("--only", default="")
    a = ap.parse_args(); os.makedirs(a.out, exist_ok=True); torch.use_deterministic_algorithms(True)
    for name, case in CASES.items():
        if a.only and name != a.only: continue
        best = None
        for seed in range(1, 21):   # a seed on which float32 agrees: see generate_networks.py
            t, u = run(case, seed, torch.float64), run(case, seed, torch.float32)
            err = max(float((u[k].double() - t[k]).norm() / t[k].norm().clamp_min(1e-12)) for k in t if k.startswith(("final/", "grad/", "step", "eval/")))
            if best is None or err < best[0]: best = (err, seed, t)
            if err < 2e-5: break
        err, seed, t = best
        save(f"{a.out}/{name}.safetensors", {k: (v.float() if v.dtype == torch.float64 else v) for k, v in t.items()},
             describe(name, case, seed=seed, float32_relative_error=err))
        print(f"{name:18s} seed {seed} fp32 error {err:.1e} loss", [round(float(t[f'step{s}/loss'].mean()), 4) for s in range(1, STEPS + 1)])
