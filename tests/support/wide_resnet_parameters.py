"""Prints the number of parameters of a wide residual network for 10 classes, as PyTorch counts them.

python3 wide_resnet_parameters.py DEPTH WIDTH

The network is the one that tests/golden/generate_networks.py writes in PyTorch. Needs python3-torch and python3-numpy.
"""
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import generate_networks as networks

networks.CLASSES = [str(i) for i in range(10)]
build = networks.wide_resnet(*map(int, sys.argv[1:3]))
net = networks.Net({"build": build}, torch.float32, torch.Generator().manual_seed(1))
with torch.no_grad():
    net.forward(torch.zeros(1, 3, 32, 32, dtype=torch.uint8), False)
print(sum(parameter.numel() for parameter in net.p.values()))
