"""Draws the pictures of these pages. Needs only Python's standard library.

usage: draw.py FOLDER            the SVGs, from formulas and from figures that lie in the tree
       draw.py FOLDER DAWN9      also the PNG sheets, by `dawn9 data preview`; needs CIFAR-10

The tests draw the SVGs again and compare. Colours are those of the reports (plots/style.gp), in light and dark mode."""

import json
import math
import os
import random
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STYLE = """
.paper { fill: #ffffff } text { fill: #1a1a1a; font: 13px sans-serif } .quiet { fill: #5c5c5c } .small { font-size: 11px }
.m { text-anchor: middle } .e { text-anchor: end } .axis { stroke: #5c5c5c } .grid { stroke: #e2e2df }
line, polyline { fill: none } polyline { stroke-width: 2 }
.a { stroke: #0072b2 } .b { stroke: #d55e00 } .c { stroke: #009e73 } .d { stroke: #cc79a7 } .n { stroke: #8a8a8a }
.fa { fill: #0072b2 } .fb { fill: #d55e00 } .fc { fill: #009e73 } .fd { fill: #cc79a7 } .fn { fill: #8a8a8a }
.box { fill: #f2f2ef; stroke: #5c5c5c } .dash { stroke-dasharray: 5 4 } .dot { stroke-dasharray: 2 3 }
@media (prefers-color-scheme: dark) {
.paper { fill: #16181b } text { fill: #ececea } .quiet { fill: #a6a8ab } .axis { stroke: #a6a8ab } .grid { stroke: #2e3135 }
.a { stroke: #6fb8ea } .b { stroke: #ff9b5e } .c { stroke: #4cc9a0 } .d { stroke: #e6a6cb }
.fa { fill: #6fb8ea } .fb { fill: #ff9b5e } .fc { fill: #4cc9a0 } .fd { fill: #e6a6cb } .box { fill: #202327; stroke: #a6a8ab }
}"""


class Picture:
    """An SVG under construction."""

    def __init__(self, width, height, title):
        self.out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
                    f"<title>{title}</title><style>{STYLE}</style>", f'<rect class="paper" width="{width}" height="{height}" rx="6"/>']

    def add(self, tag, text=None, **attributes):
        inner = "".join(f' {name.rstrip("_").replace("_", "-")}="{value:.5g}"' if isinstance(value, float) else
                        f' {name.rstrip("_").replace("_", "-")}="{value}"' for name, value in attributes.items())
        self.out.append(f"<{tag}{inner}/>" if text is None else f"<{tag}{inner}>{text}</{tag}>")

    def text(self, x, y, text, style="", **more):
        self.add("text", text, x=float(x), y=float(y), class_=style, **more)

    def line(self, x1, y1, x2, y2, style):
        self.add("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=style)

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(self.out) + "\n</svg>\n")


class Axes:
    """A plot in a rectangle of a picture: `box` in pixels (left, top, right, bottom), ranges in the units of the data."""

    def __init__(self, picture, box, x, y, title, log=False):
        self.picture, self.box, self.x, self.y, self.log = picture, box, x, y, log
        picture.text(box[0], box[1] - 12, title)
        picture.line(box[0], box[3], box[2], box[3], "axis")
        picture.line(box[0], box[1], box[0], box[3], "axis")

    def at(self, x, y):
        (left, top, right, bottom), (x0, x1), (y0, y1) = self.box, self.x, self.y
        if self.log:
            y, y0, y1 = math.log(y), math.log(y0), math.log(y1)
        return left + (x - x0) / (x1 - x0) * (right - left), bottom - (y - y0) / (y1 - y0) * (bottom - top)

    def ticks(self, xs, ys, x_name="", form="{:g}"):
        for x in xs:
            place = self.at(x, self.y[0])
            self.picture.line(*place, place[0], place[1] + 4, "axis")
            self.picture.text(place[0], place[1] + 17, form.format(x), "m small")
        for y in ys:
            place = self.at(self.x[0], y)
            self.picture.line(*place, self.box[2], place[1], "grid")
            self.picture.text(place[0] - 6, place[1] + 4, form.format(y), "e small")
        self.picture.text((self.box[0] + self.box[2]) / 2, self.box[3] + 34, x_name, "m quiet")

    def curve(self, points, style):
        places = [self.at(x, y) for x, y in points]
        self.picture.add("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places), class_=style)

    def dot(self, x, y, style, radius=3.0):
        place = self.at(x, y)
        self.picture.add("circle", cx=place[0], cy=place[1], r=radius, class_=style)

    def name(self, x, y, text, style):
        place = self.at(x, y)
        self.picture.text(place[0], place[1], text, style)


def span(start, end, count):
    return [start + (end - start) * i / (count - 1) for i in range(count)]


# ---- one function per picture ----


def celu():
    picture = Picture(720, 300, "CELU and its slope, beside ReLU")

    def value(x, alpha):
        return max(x, 0) + (min(0, alpha * (math.exp(x / alpha) - 1)) if alpha else 0)

    def slope(x, alpha):
        return 1 if x > 0 else math.exp(x / alpha) if alpha else 0

    kinds = [(0, "n dash", "ReLU"), (0.075, "a", "alpha 0.075"), (0.3, "b", "alpha 0.3"), (1, "c", "alpha 1")]
    for i, (function, title, low, high) in enumerate([(value, "CELU(x)", -1, 1), (slope, "its slope", 0, 1)]):
        axes = Axes(picture, (50 + 350 * i, 40, 350 + 350 * i, 250), (-1.5, 1), (low, high), title)
        axes.ticks([-1.5, -1, -0.5, 0, 0.5, 1], [-1, -0.5, 0, 0.5, 1] if low else [0, 0.25, 0.5, 0.75, 1], "x")
        for alpha, style, name in kinds:
            axes.curve([(x, function(x, alpha)) for x in span(-1.5, 1, 201)], style)
            if i == 0:
                row = 60 + 18 * len([k for k in kinds if k[0] < alpha])
                picture.line(70, row - 4, 98, row - 4, style)
                picture.text(104, row, name)
    return picture


def label_smoothing():
    picture = Picture(720, 300, "The target with and without smoothing, and the loss over the margin")
    axes = Axes(picture, (50, 40, 330, 250), (-0.5, 9.5), (0, 1), "target of an image of class 3")
    axes.ticks(range(10), [0, 0.2, 0.4, 0.6, 0.8, 1], "class")
    for k in range(10):
        for alpha, style, side in ((0, "fn", -0.36), (0.2, "fa", 0.02)):
            share = (1 - alpha) * (k == 3) + alpha / 10
            (left, top), (right, bottom) = axes.at(k + side, share), axes.at(k + side + 0.34, 0)
            picture.add("rect", x=left, y=top, width=right - left, height=bottom - top, class_=style)
    axes.name(4, 0.9, "alpha 0: 1 and 0", "quiet")
    axes.name(4, 0.78, "alpha 0.2: 0.82 and 0.02", "")

    def loss(margin, alpha):
        total = math.log(math.exp(margin) + 9)
        return (1 - alpha) * (total - margin) + alpha * (total - margin / 10)

    best = math.log(0.82 / 0.02)
    axes = Axes(picture, (410, 40, 690, 250), (0, 10), (0, 2.5), "loss")
    axes.ticks([0, 2, 4, 6, 8, 10], [0, 0.5, 1, 1.5, 2, 2.5], "logit of the true class above all others")
    for alpha, style in ((0, "n dash"), (0.2, "a")):
        axes.curve([(m, loss(m, alpha)) for m in span(0, 10, 201)], style)
    axes.dot(best, loss(best, 0.2), "fa", 4.0)
    axes.name(2.6, 2.3, "solid, alpha 0.2: best at 3.71, p = 0.82", "small")
    axes.name(2.6, 2.1, "dashed, alpha 0: more is always better", "quiet small")
    return picture


def ghost_batchnorm():
    picture = Picture(720, 300, "The images of each ghost group, and the spread of the groups' means")
    styles, side = ["fa", "fb", "fc", "fd"], 15
    picture.text(30, 28, "a batch of 24 images in four groups of 6")
    for i in range(24):
        picture.add("rect", x=30 + i * (side + 1), y=40, width=side, height=side, class_=styles[i % 4])
    picture.text(30, 74, "0 1 2 3 0 1 2 3 ... : image i is in group i mod 4", "quiet small")
    for g in range(4):
        top = 100 + 44 * g
        for k in range(6):
            picture.add("rect", x=30 + k * (side + 3), y=top, width=side, height=side, class_=styles[g])
        picture.text(148, top + 12, f"group {g}: images {g}, {g + 4} ... {g + 20}")
        picture.text(148, top + 28, "its own mean, variance, running statistics", "quiet small")
    rng = random.Random(1)  # Mersenne Twister's random() is the same everywhere
    values = [sum(rng.random() for _ in range(12)) - 6 for _ in range(512)]
    axes = Axes(picture, (470, 40, 690, 250), (0, 3), (-0.9, 0.9), "means of 512 random values")
    axes.ticks([], [-0.9, -0.6, -0.3, 0, 0.3, 0.6, 0.9])
    for column, groups, name in ((0.5, 1, "all 512"), (1.5, 16, "groups of 32"), (2.5, 64, "groups of 8")):
        for g in range(groups):
            own = values[g::groups]
            axes.dot(column + (g / groups - 0.5) * (0.5 if groups > 1 else 0), sum(own) / len(own), "fa", 2.5)
        picture.text(axes.at(column, 0)[0], 268, name, "m small")
    return picture


def pool_before_activation():
    picture = Picture(720, 290, "Position of the pool, and the number of values that norm and activation read")
    rows = [("plain", ["conv", "norm", "act", "pool"]), ("before_act", ["conv", "norm", "pool", "act"]),
            ("before_norm", ["conv", "pool", "norm", "act"])]
    picture.text(30, 26, "layer1 of ResNet-9, 128 channels; the numbers are values per image, in thousands")
    for r, (name, chain) in enumerate(rows):
        top, pooled, read = 52 + 76 * r, False, 0
        picture.text(30, top + 24, name)
        for i, op in enumerate(chain):
            left = 150 + 118 * i
            size = 32.8 if pooled else 131.1
            read += size if op in ("norm", "act") else 0
            picture.add("rect", x=left, y=top, width=66, height=38, rx=4, class_="box")
            picture.text(left + 33, top + 24, op, "m" + (" quiet" if op == "conv" else ""))
            pooled = pooled or op == "pool"
            picture.line(left + 66, top + 19, left + 118, top + 19, "b" if pooled else "a")
            picture.text(left + 92, top + 13, f"{32.8 if pooled else 131.1}", "m small")
        picture.text(632, top + 18, "norm and act", "small quiet")
        picture.text(632, top + 34, f"read {read:.0f}", "")
    return picture


def ema():
    picture = Picture(720, 300, "A weight under noise, and its moving average")
    rng, steps = random.Random(2), 400
    weight = average = 3.0
    walk, mean = [(0, weight)], [(0, average)]
    for s in range(steps):
        weight -= 0.12 * (weight + 1.6 * (sum(rng.random() for _ in range(12)) - 6))
        walk.append((s + 1, weight))
        if s % 5 == 0:
            average += (1 - 0.99**5) * (weight - average)
        mean.append((s + 1, average))
    axes = Axes(picture, (50, 40, 690, 250), (0, steps), (-1.5, 3), "a weight pulled to 0 by noisy gradients at a constant learning rate (simulated)")
    axes.ticks([0, 97, 194, 291, 388], [-1, 0, 1, 2, 3], "step (an epoch is 97)")
    axes.curve(walk, "n")
    axes.curve(mean, "a")
    axes.name(110, 1.55, "the average starts at the initial weight, whose share is 37% after an epoch", "")
    axes.name(396, -1.35, "grey: the weight; blue: its average, updated every 5 steps", "e quiet")
    return picture


def flip_tta():
    picture = Picture(720, 300, "Accuracy with and without mirror images, epoch by epoch")
    with tarfile.open(os.path.join(ROOT, "experiments/results/cpu/dawn94-bf16/records.tar.gz")) as archive:
        lines = archive.extractfile("seed1/events.jsonl").read().splitlines()
    rows = [row for row in map(json.loads, lines) if row.get("epoch", 0) >= 3 and "accuracy_tta" in row]
    axes = Axes(picture, (50, 40, 690, 250), (3, 10), (86, 95), "accuracy after each epoch of seed 1 of experiments/results/cpu/dawn94-bf16, %")
    axes.ticks(range(3, 11), [86, 88, 90, 92, 94], "epoch")
    axes.curve([(3, 94), (10, 94)], "n dot")
    for key, style in (("accuracy", "n dash"), ("accuracy_tta", "a")):
        axes.curve([(row["epoch"], row[key]) for row in rows], style)
        for row in rows:
            axes.dot(row["epoch"], row[key], "f" + style[0])
    axes.name(6.3, 90.6, "dashed: plain", "quiet")
    axes.name(3.1, 92.7, "solid: mean of the logits of image and mirror", "")
    return picture


def read_safetensors(path, name):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        entry = json.loads(file.read(size))[name]
        file.seek(8 + size + entry["data_offsets"][0])
        data = file.read(entry["data_offsets"][1] - entry["data_offsets"][0])
    kind = {"F64": "d", "F32": "f"}[entry["dtype"]]
    return struct.unpack(f"<{len(data) // struct.calcsize(kind)}{kind}", data)


def patch_whitening():
    picture = Picture(720, 300, "Eigenvalues of 3x3 patches of CIFAR-10, before and after whitening")
    values = sorted(read_safetensors(os.path.join(ROOT, "tests/golden/cases/patch_whitening.safetensors"), "whiten.eigenvalues"), reverse=True)
    axes = Axes(picture, (60, 40, 690, 250), (1, 27), (1e-4, 100), "variance of CIFAR-10's 3x3 patches along each of the 27 eigenvectors", log=True)
    axes.ticks([1, 5, 9, 13, 17, 21, 25], [1e-4, 1e-2, 1, 100], "eigenvector")
    axes.curve([(1, 0.01), (27, 0.01)], "n dot")
    for style, function in (("n dash", lambda v: v), ("a", lambda v: v / (v + 0.01))):
        axes.curve([(j + 1, function(v)) for j, v in enumerate(values)], style)
        for j, v in enumerate(values):
            axes.dot(j + 1, function(v), "f" + style[0], 2.5)
    axes.name(3.2, 6, f"before: v, {values[0]:.1f} down to {values[-1]:.1g}", "quiet")
    axes.name(14, 1.6, "after: v / (v + 0.01)", "")
    axes.name(2, 0.013, "epsilon", "quiet small")
    return picture


def frozen_bn_scale():
    picture = Picture(720, 300, "Norm scales at the end of a run that learns them")
    rows = [line.split("\t") for line in open(os.path.join(ROOT, "docs/tricks/norm_scales.tsv"), encoding="utf-8").read().splitlines()[1:]]
    axes = Axes(picture, (50, 40, 690, 250), (0.5, len(rows) + 0.5), (0.75, 1.15), "batch norm scales, initially 1, after training without the trick: range, quartiles, median")
    axes.ticks([], [0.75, 0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15])
    axes.curve([(0.5, 1), (len(rows) + 0.5, 1)], "n dot")
    for i, (name, *figures) in enumerate(rows, 1):
        low, first, median, third, high = map(float, figures)
        axes.curve([(i, low), (i, high)], "a")
        (left, top), (right, bottom) = axes.at(i - 0.18, third), axes.at(i + 0.18, first)
        picture.add("rect", x=left, y=top, width=right - left, height=bottom - top, class_="box")
        axes.dot(i, median, "fa", 4.0)
        picture.text(axes.at(i, 0)[0], 268, name, "m small")
    return picture


PICTURES = (celu, label_smoothing, ghost_batchnorm, pool_before_activation, ema, flip_tta, patch_whitening, frozen_bn_scale)

# ---- sheets of images: rows cut out of `dawn9 data preview` ----


def read_png(path):
    """Reads a PNG file: rows of RGB bytes, and the width in pixels."""
    data, at, packed = open(path, "rb").read(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", data[at + 8 : at + 18])
            assert (depth, colour) == (8, 2), "8 bits, RGB"
        if kind == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += 12 + size
    raw, rows, above = zlib.decompress(packed), [], bytearray(3 * width)
    for y in range(height):
        rule, row = raw[y * (3 * width + 1)], bytearray(raw[y * (3 * width + 1) + 1 : (y + 1) * (3 * width + 1)])
        for x in range(3 * width):
            left, up, corner = row[x - 3] if x > 2 else 0, above[x], above[x - 3] if x > 2 else 0
            paeth = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
            row[x] = (row[x] + (0, left, up, (left + up) // 2, paeth)[rule]) & 255
        rows.append(bytes(row))
        above = row
    return rows, width


def write_png(path, rows, width):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    raw = b"".join(b"\0" + row for row in rows)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def sheet(dawn9, path, parts):
    """Stacks the rows `images` of the preview of each (tricks, images)."""
    chosen, width = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        preview = os.path.join(scratch, "preview.png")
        for tricks, images in parts:
            subprocess.run([dawn9, "data", "preview", os.path.join(ROOT, "configs/base.yaml"), *[w for t in tricks for w in ("--with", t)],
                            "--out", preview], check=True, stdout=subprocess.DEVNULL)
            rows, width = read_png(preview)
            tile = (len(rows) - 2) // 8  # 8 images, each with a line above it
            for image in images:
                chosen += rows[image * tile : (image + 1) * tile]
            last = rows[-2:]
    write_png(path, chosen + last, width)


def main(folder, dawn9=None):
    for draw in PICTURES:
        draw().save(os.path.join(folder, draw.__name__ + ".svg"))
    if dawn9:
        dawn9 = os.path.abspath(dawn9)
        sheet(dawn9, os.path.join(folder, "crop.png"), [(["crop"], [1, 4, 7])])
        sheet(dawn9, os.path.join(folder, "flip.png"), [(["flip"], [1]), (["flip:rule=alternating"], [1, 7])])
        sheet(dawn9, os.path.join(folder, "cutout.png"), [(["cutout:size=8"], [1, 4]), (["cutout:size=12"], [7])])
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run([dawn9, "data", "preview", os.path.join(ROOT, "configs/dawn94.yaml"), "--out", os.path.join(scratch, "sheet.png"),
                            "--filters", os.path.join(folder, "patch_whitening.png")], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
