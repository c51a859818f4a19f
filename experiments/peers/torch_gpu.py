#!/usr/bin/env python3
"""PyTorch on a GPU as a peer for `dawn9 bench step`: milliseconds of a training step of each network.

The networks and steps are those of torch_cpu.py (dawn94) and torch_networks.py. Images are random, so no data is read.
Each network is timed in channels_last in up to three ways: eager; graph, the whole step captured in a CUDA graph;
compiled, forward and loss by torch.compile and the step captured as well. fp16 and bf16 use autocast; tf32 lets cuDNN
and cuBLAS round f32 to it; f32 does not.

usage: torch_gpu.py [--ways eager,graph,compiled] [--wait FILE] [--steps 30] NETWORK:PRECISION:BATCH...

  --wait FILE   after the warm-up of all networks, which compiles for minutes, wait until FILE exists, then time them;
                otherwise each is timed after its own warm-up, so that a later one that fails loses no result

Prints one line of JSON per network and way: the median of `steps` steps between CUDA events, in milliseconds.
"""
import argparse, json, os, statistics, time
import torch, torch.nn.functional as F
import torch_cpu, torch_networks

TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def training_step(name, precision, batch, compiled):
    """A function that makes one training step, without arguments."""
    if name == "dawn94":
        net = torch_cpu.Net(batch // 32)
        groups, rate = torch_cpu.dawn94_groups(net, batch)
        settings, smoothing, reduction = dict(lr=rate, momentum=0.9, nesterov=True), 0.2, "sum"
    else:
        net = torch_networks.network(name, 10, 32)
        groups, settings = [q for q in net.parameters() if q.requires_grad], dict(lr=0.01, momentum=0.9)
        smoothing, reduction = 0, "mean"
    net = net.cuda().to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(groups, foreach=True, **settings)
    x = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (batch,), device="cuda")
    scale = 1024.0 if precision == "fp16" and reduction == "mean" else 1.0  # as a gradient scaler would choose

    def loss():
        with torch.autocast("cuda", dtype=TYPES.get(precision, torch.bfloat16), enabled=precision in TYPES, cache_enabled=False):
            logits = net(x)
        return scale * F.cross_entropy(logits.float(), y, label_smoothing=smoothing, reduction=reduction)

    forward = torch.compile(loss) if compiled else loss
    average = [q.detach().clone() for q in net.parameters()] if name == "dawn94" else None

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward().backward()
        optimizer.step()
        if average:  # dawn94 updates its EMA at every fifth step; here every step averages a fifth of the tensors
            take = len(average) // 5
            torch._foreach_lerp_(average[:take], [q.detach() for q in net.parameters()][:take], 1 - 0.99**5)

    return step


def captured(step):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(_keep=step):  # the graph reads and writes the tensors of `step`, but does not keep them
        graph.replay()

    return replay


def median_milliseconds(step, steps):
    times = []
    for _ in range(steps):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        times.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in times)


def time_and_print(name, precision, batch, way, step, steps):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    for _ in range(5):
        step()
    print(json.dumps(dict(peer="PyTorch " + torch.__version__, device=torch.cuda.get_device_name(), network=name,
                          precision=precision, batch=batch, way=way, steps=steps,
                          step_milliseconds=median_milliseconds(step, steps))), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ways", default="eager,graph,compiled")
    p.add_argument("--wait")
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("networks", nargs="+")
    a = p.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    ready = []
    for item in a.networks:
        name, precision, batch = item.split(":")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
        for way in a.ways.split(","):
            try:
                step = training_step(name, precision, int(batch), way == "compiled")
                for _ in range(3):
                    step()
                if way != "eager":
                    step = captured(step)
                torch.cuda.synchronize()
                ready.append((name, precision, int(batch), way, step))
                if not a.wait:
                    time_and_print(*ready.pop(), a.steps)
            except Exception as error:  # a failure of one way is a result too
                print(json.dumps(dict(network=name, precision=precision, way=way, error=str(error)[:300])), flush=True)
                torch.cuda.synchronize()
    while a.wait and not os.path.exists(a.wait):
        time.sleep(0.1)
    for each in ready:
        time_and_print(*each, a.steps)


if __name__ == "__main__":
    main()
