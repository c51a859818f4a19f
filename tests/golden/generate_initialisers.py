#!/usr/bin/python3
"""Correct results of initialisers, computed with PyTorch in float64: filters that whiten patches, with their negatives,
and convolutions initialised as the identity. Layouts are dawn9's: images N,H,W,C and filters O,H,W,I.

Run:  /usr/bin/python3 generate_initialisers.py --out initialisers.safetensors
Needs python3-torch and python3-numpy (Debian packages).
"""
import argparse, json
import numpy as np, torch
from generate import save, whitening
from generate_networks import MEAN, STD

IMAGES, SIDE = 12, 16                                     # smooth images, so that no two eigenvalues are close
WHITENINGS = {"whiten2": (2, 5e-4), "whiten3": (3, 1e-2)}
DIRACS = {"stem.conv.weight": (16, 3), "layer1.conv.weight": (32, 16), "layer3.res1.conv.weight": (64, 64)}

def smooth(rng):
    x = rng.standard_normal((IMAGES, 3, SIDE, SIDE)).cumsum(2).cumsum(3)
    x = 128 + 40 * x / x.std()
    return torch.from_numpy(np.clip(x, 0, 255).round().astype(np.uint8))

def both_signs(u8, size, epsilon):
    mean, std = (torch.tensor(v, dtype=torch.float64)[:, None, None] for v in (MEAN, STD))
    _, values, filters = whitening((u8.double() / 255 - mean) / std, epsilon, size)
    assert ((values[:-1] - values[1:]) > 1e-3 * values[1:]).all(), "two eigenvalues are close"
    return torch.cat((filters, -filters)).permute(0, 2, 3, 1)

def dirac(filters, channels):
    weight = torch.empty(filters, channels, 3, 3, dtype=torch.float64)
    return torch.nn.init.dirac_(weight[:channels]).permute(0, 2, 3, 1).to(torch.uint8)

if __name__ == "__main__":
    ap = argparse.ArgumentParser(); ap.add_argument("--out", required=True)
    u8 = smooth(np.random.default_rng(1))
    out = {"images": u8.permute(0, 2, 3, 1)}
    out.update({name: both_signs(u8, *how) for name, how in WHITENINGS.items()})
    out.update({"dirac." + name: dirac(*shape) for name, shape in DIRACS.items()})
    save(ap.parse_args().out, out, {"mean": json.dumps(MEAN), "std": json.dumps(STD), "epsilon": json.dumps({k: e for k, (_, e) in WHITENINGS.items()})})
