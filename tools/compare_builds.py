#!/usr/bin/env python3
"""Checks that two builds compute the same bits. Both train the same small networks for 12 steps; then every parameter,
statistic, average and velocity, every epoch's loss and every evaluation logit is compared by its name; its position in
a buffer may differ. Logits are compared as they are written: in f32, also if they were computed in f64.

usage: compare_builds.py OLD_BUILD NEW_BUILD FOLDER [PATTERN]    FOLDER: new, for the runs; PATTERN: regex of run names
       compare_builds.py --self-check RUN                        checks that a flipped bit in any tensor is noticed

A build is a build folder with -DDAWN9_TESTS=ON and the targets dawn9, dawn9-onednn and dawn9_cuda_fake; each trains the
configurations of its own source. Backends: reference, cpu, oneDNN, and CUDA over the C++ model of its kernels
(tests/cuda_backend): dawn9 finds a module beside itself, so a folder with copies of the three files is a dawn9 with a
GPU. One line a run. Exit status: 1 if anything differs or nothing was compared."""

import glob
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from array import array

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from tensorfile import read, split

STEPS = 12
TIMES = re.compile("timeline|seconds|per_second|hours")  # names of tensors that may differ


class Wrong(Exception):
    """Raised if builds or runs cannot be compared; the message says why."""


WRONG = (Wrong, KeyError, OSError)


def in_words(error):
    return f"{type(error).__name__}: {error}"


# ---- reading a run: every value under its name ----


def is_statistic(name):
    return ".running_" in name


def as_in_model_file(name, numbers, shape):
    """A value of a checkpoint in the form of the model file: f32, weights O,I,H,W, the mean of a statistic's groups."""
    if is_statistic(name):
        groups = len(numbers) // shape[0]
        return array("f", [sum(numbers[channel::shape[0]]) / groups for channel in range(shape[0])])
    if len(shape) < 4:
        return array("f", numbers)
    inputs, pixels, result = shape[1], shape[2] * shape[3], array("f")
    for begin in range(0, len(numbers), inputs * pixels):
        for i in range(inputs):
            result.extend(array("f", numbers[begin + i:begin + inputs * pixels:inputs]))
    return result


def sorted_rows(numbers, shape):
    rows, columns = shape
    return array("f", [x for row in range(rows) for x in sorted(numbers[row * columns:(row + 1) * columns])])


def read_run(folder):
    """{name: numbers} of a finished run. Every value of the model file must equal the checkpoint's: a reader that
    takes one value for another fails here."""
    metadata, checkpoint = read(f"{folder}/checkpoint.safetensors")
    _, model = read(f"{folder}/model.safetensors")
    with open(f"{folder}/result.json", encoding="utf-8") as file:
        result = json.load(file)
    if metadata["step"] != str(STEPS):
        raise Wrong(f"{folder}: the checkpoint is of step {metadata['step']}, not {STEPS}")
    values = {name: numbers for name, (_, numbers) in checkpoint.items() if not TIMES.search(name)}
    for name, (shape, numbers) in model.items():
        evaluated = next(buffer for buffer in ("average", "slow", "state") if f"{buffer}/{name}" in values)
        held = as_in_model_file(name, values[f"{evaluated}/{name}"], shape)
        if len(shape) == 2:  # the two files order a flattened image differently
            held, numbers = sorted_rows(held, shape), sorted_rows(numbers, shape)
        if held.tobytes() != numbers.tobytes():
            raise Wrong(f"{folder}: {evaluated}/{name} of the checkpoint is not that of the model file")
        values[f"model/{name}"] = model[name][1]
    for file in ("logits", "predictions"):
        for name, (_, numbers) in read(f"{folder}/{file}.safetensors")[1].items():
            values[f"{file}/{name}"] = numbers
    for name in ("accuracy", "accuracy_tta"):
        values[f"result/{name}"] = array("d", [result[name]])
    return values


# ---- comparing ----


def difference(old, new):
    """Describes the first difference; None: equal to the last bit."""
    if not old or not new:
        return "nothing to compare"
    if old.keys() != new.keys():
        name = sorted(old.keys() ^ new.keys())[0]
        return f"{name} is only in the {'old' if name in old else 'new'} build"
    for name, a in old.items():
        b = new[name]
        if (a.typecode, len(a)) != (b.typecode, len(b)):
            return f"{name}: {len(a)} numbers of type {a.typecode}, and {len(b)} of type {b.typecode}"
        if a.tobytes() != b.tobytes():
            differ = [i for i in range(len(a)) if a[i:i + 1].tobytes() != b[i:i + 1].tobytes()]
            return f"{name}[{differ[0]}]: {a[differ[0]]!r} and {b[differ[0]]!r}; {len(differ)} of {len(a)} differ"
    return None


def compare_runs(old, new):
    try:
        return difference(read_run(old), read_run(new))
    except WRONG as error:
        return in_words(error)


def tensor_offsets(path):
    """[(name, offset)] of a file's tensors; offset: of the first byte, from the beginning of the file."""
    _, header, body = split(path)
    begin = os.path.getsize(path) - len(body)
    return [(name, begin + entry["data_offsets"][0]) for name, entry in header.items()]


def self_check(run):
    """Flips a bit of each tensor of a run's copy, one after another; prints those not noticed. True: all were
    noticed."""
    values, unnoticed, count = read_run(run), [], 0
    first = next(iter(values))
    less = {name: numbers for name, numbers in values.items() if name != first}
    if not difference({}, {}) or not difference(values, less) or not difference(less, values):
        unnoticed.append("a missing tensor")
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(run, f"{scratch}/copy")
        if compare_runs(run, copy):
            unnoticed.append("that a copy is equal")
        for path in sorted(glob.glob(f"{copy}/*.safetensors")):
            for name, offset in tensor_offsets(path):
                if TIMES.search(name):
                    continue
                with open(path, "r+b") as file:
                    file.seek(offset)
                    byte = file.read(1)[0]
                    file.seek(offset)
                    file.write(bytes([byte ^ 1]))
                    file.flush()
                    if not compare_runs(run, copy):
                        unnoticed.append(f"a bit of {name} in {os.path.basename(path)}")
                    file.seek(offset)
                    file.write(bytes([byte]))
                count += 1
    print(f"self-check: a flipped bit in each of {count} tensors: "
          + (f"NOT NOTICED: {', '.join(unnoticed)}" if unnoticed else "noticed"))
    return not unnoticed and count > 0


# ---- the two builds ----


class Build:
    def __init__(self, folder, work):
        with open(f"{folder}/CMakeCache.txt", encoding="utf-8") as cache:
            self.source = re.search("^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache.read(), re.M)[1]
        self.work, programs = work, f"{work}/programs"
        os.makedirs(programs)
        for name in ("dawn9", "dawn9-onednn.so", "tests/cuda_backend_home/dawn9-cuda.so"):
            if not os.path.exists(f"{folder}/{name}"):
                raise Wrong(f"{folder}/{name} is missing: build dawn9, dawn9-onednn and dawn9_cuda_fake")
            shutil.copy(f"{folder}/{name}", programs)
        self.dawn9 = f"{programs}/dawn9"
        self.tensor_cores = self.make_tensor_cores(f"{programs}/tensor_cores.so")

    def make_tensor_cores(self, library):
        """Makes a library that, if it is preloaded, makes the fake cuDNN round inputs to tf32."""
        text = ('#include "tests/cuda_backend/fake.h"\n'
                "d9_fake *d9_fake_get(void) { static d9_fake fake = {.tensor_cores = true}; return &fake; }\n")
        subprocess.run(["cc", "-shared", "-fPIC", f"-I{self.source}", "-xc", "-", "-o", library], input=text, text=True,
                       check=True)
        return library

    def run(self, *arguments, **more):
        environment = {"PATH": os.environ["PATH"], "HOME": self.work, "OMP_WAIT_POLICY": "passive", **more}
        done = subprocess.run([self.dawn9, *arguments], cwd=self.work, env=environment, text=True, capture_output=True)
        if done.returncode:
            raise Wrong(f"{self.source}: dawn9 {' '.join(arguments)}: status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def train(self, name, config, where, settings, data):
        """Trains, keeping checkpoint and model, and writes the logits. Returns the folder of the run."""
        more = {"LD_PRELOAD": self.tensor_cores} if "tf32" in where else {}
        config = f"{self.source}/configs/{config}"
        self.run("train", config, "--out", name, "--data", data, "--quiet", *where, *settings, **more)
        self.run("eval", name, "--logits", f"{name}/logits.safetensors", "--data", data, *where, **more)
        return f"{self.work}/{name}"

    def devices(self):
        rows = json.loads(self.run("devices", "--json"))
        return {row["backend"]: row["precisions"] for row in rows if row["present"]}

    def ladder(self):
        return sorted(os.path.basename(path) for path in glob.glob(f"{self.source}/configs/ladder/*.yaml"))


# ---- the runs ----

def keys(*settings):
    return [word for setting in settings for word in ("--set", setting)]


COMMON = keys("train.batch_size=16", "keep=all", "backend_options.tune=off")
NARROW = keys("model.channels=[16,32,64,128]")  # ResNet-9
SYNTHETIC = keys("data.dataset=synthetic", "data.synthetic_train=80", "data.synthetic_test=40", "train.epochs=2.4",
                 "train.lr.knots=[0,1,end]")  # five steps an epoch
GHOSTS = keys("tricks.ghost_batchnorm.group_size=8")
FOLDER = keys("data.image_size=32", "train.epochs=3")  # four steps an epoch
PICTURES = {"train": ["bars=26", "stripes=21", "checks=21"], "test": ["bars=4", "stripes=4", "checks=4"]}

NETWORKS = {  # configurations of the other networks of images, made small
    "rosetta.yaml": keys("model.channels=[6,8]", "model.hidden=24", "train.lr.values=[0,0.01,0]"),
    "resnet18.yaml": keys("model.width=8", "tricks.ghost_batchnorm.group_size=8"),
    "densenet121.yaml": keys("model.blocks=[2,2,2]", "model.growth=4", "model.features=8", "data.image_size=32"),
    "wide-resnet.yaml": keys("model.depth=10", "model.width=1", "model.dropout=0.3", "train.lr.values=[0,0.1,0]"),
    "airbench94.yaml": keys("model.widths=[8,16,16]", "tricks.whitening_bias.images=80"),
    "airbench96-faster.yaml": keys("model.widths=[8,16,16]", "tricks.whitening_bias.images=80"),
}
VARIANTS = {  # of dawn94
    "every-trick": ["--with", "cutout:size=4", *keys("tricks.flip.rule=alternating", "tricks.ema.every=2")],
    "torch-momentum": keys("train.momentum_form=torch"),
    "unfused": keys("backend_options.fuse=off"),
}
LOSS_SCALE = keys("backend_options.loss_scale=0.0009765625", "backend_options.loss_scale_every=2")


def plan(devices, ladder):
    """(name, configuration, where it runs, settings) of every run."""
    for backend, precisions in devices.items():
        small = keys("data.image_size=16") if backend == "cuda" else []  # the model of the kernels is slow
        usual = "fp16" if backend == "cuda" else "f32"

        def run(name, config, settings, precision=usual, threads=2):
            where = ["--backend", backend, "--precision", precision, "--threads", str(threads)]
            return f"{name}.{backend}.{precision}.{threads}", config, where, COMMON + settings

        dawn94 = NARROW + SYNTHETIC + GHOSTS + small
        for precision in precisions:
            for threads in (2,) if backend == "cuda" else (1, 2):
                yield run("dawn94", "dawn94.yaml", dawn94, precision, threads)
        for name, settings in VARIANTS.items():
            yield run(f"dawn94-{name}", "dawn94.yaml", dawn94 + settings)
        if "fp16" in precisions:
            yield run("dawn94-moving-loss-scale", "dawn94.yaml", dawn94 + LOSS_SCALE, "fp16")
        for config in ladder:
            ghosts = GHOSTS if int(config[:2]) >= 7 else []
            yield run(f"ladder-{config[:-5]}", f"ladder/{config}", NARROW + SYNTHETIC + ghosts + small)
        for config, settings in NETWORKS.items():
            yield run(f"network-{config[:-5]}", config, SYNTHETIC + settings + small)
        yield run("folder", "folder.yaml", NARROW + FOLDER + small)


def compare_builds(old_folder, new_folder, work, pattern=""):
    old, new = Build(old_folder, f"{work}/old"), Build(new_folder, f"{work}/new")
    had, has = old.devices(), new.devices()
    both = {name: precisions for name, precisions in had.items() if name in has}  # backends of both builds
    if any(has[name] != both[name] for name in both) or old.ladder() != new.ladder():
        raise Wrong(f"they differ in what they have: {had} {old.ladder()} and {has} {new.ladder()}")
    for name in sorted(set(had) ^ set(has)):
        print(f"{name}: a backend of one build alone, not compared")
    pictures = os.path.join(ROOT, "tools", "draw_pictures.py")
    for part, classes in PICTURES.items():  # a train and a test part, so that no build chooses the test images
        subprocess.run([sys.executable, pictures, f"{work}/pictures/{part}", *classes], check=True,
                       stdout=subprocess.DEVNULL)
    runs = tensors = numbers = failures = 0
    for name, config, where, settings in plan(both, old.ladder()):
        if not re.search(pattern, name):
            continue
        try:
            a, b = (read_run(build.train(name, config, where, settings, f"{work}/pictures")) for build in (old, new))
            problem = difference(a, b)
        except WRONG as error:
            a, problem = {}, in_words(error)
        last, count = f"{work}/new/{name}", sum(map(len, a.values()))
        print(f"{name}: {len(a)} tensors, {count} numbers: {problem or 'equal'}", flush=True)
        runs, tensors, numbers, failures = runs + 1, tensors + len(a), numbers + count, failures + bool(problem)
    print(f"{runs} runs, {tensors} tensors, {numbers} numbers: {failures} runs differ")
    return runs > 0 and failures == 0 and self_check(last)


if __name__ == "__main__":
    try:
        if len(sys.argv) == 3 and sys.argv[1] == "--self-check":
            good = self_check(sys.argv[2])
        elif len(sys.argv) in (4, 5):
            good = compare_builds(*map(os.path.abspath, sys.argv[1:4]), *sys.argv[4:])
        else:
            sys.exit(__doc__)
    except WRONG as error:
        sys.exit(f"compare_builds.py: {in_words(error)}")
    sys.exit(0 if good else 1)
