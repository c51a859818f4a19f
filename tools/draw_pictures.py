#!/usr/bin/env python3
"""Draws folders of PNG images that a small network can classify. Needs only Python's standard library.

usage: draw_pictures.py DIR CLASS=COUNT...    CLASS: bars, checks, disc or stripes; DIR/CLASS/NN.png

Sizes, shapes and PNG formats (RGB, grey, palette, RGBA, 8 and 16 bits) differ. The same call draws the same images."""
import os, random, struct, sys, zlib


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def write_png(path, width, height, kind, depth, rows, palette=b""):
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + palette
                   + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b""))


def inside(name, x, y, side, period, cx, cy):
    """True if the pixel belongs to the figure, false if to the background."""
    if name == "bars":
        return x // period % 2 == 0
    if name == "stripes":
        return y // period % 2 == 0
    if name == "checks":
        return (x // period + y // period) % 2 == 0
    return (x - cx) ** 2 + (y - cy) ** 2 < (side * 0.3) ** 2


def draw(path, name, number, dice):
    width, height = dice.randint(20, 60), dice.randint(20, 60)
    side, period = min(width, height), max(2, min(width, height) // dice.randint(5, 8))
    cx, cy = width * dice.uniform(0.4, 0.6), height * dice.uniform(0.4, 0.6)
    colours = [[dice.randint(0, 90) for _ in range(3)], [dice.randint(150, 255) for _ in range(3)]]
    dice.shuffle(colours)
    cells = [[int(inside(name, x, y, side, period, cx, cy)) for x in range(width)] for y in range(height)]
    kind = ("rgb", "grey", "palette", "rgba", "rgb16", "grey16")[number % 6]
    if kind == "palette":
        palette = chunk(b"PLTE", bytes(colours[0] + colours[1]))
        write_png(path, width, height, 3, 8, [bytes(row) for row in cells], palette)
    elif kind.startswith("grey"):
        words = [struct.pack(">H", 257 * sum(c) // 3)[: 2 if kind == "grey16" else 1] for c in colours]
        write_png(path, width, height, 0, 16 if kind == "grey16" else 8, [b"".join(words[c] for c in row) for row in cells])
    elif kind == "rgb16":
        words = [b"".join(struct.pack(">H", 257 * v) for v in c) for c in colours]
        write_png(path, width, height, 2, 16, [b"".join(words[c] for c in row) for row in cells])
    else:
        words = [bytes(c) + (b"\xff" if kind == "rgba" else b"") for c in colours]
        write_png(path, width, height, 6 if kind == "rgba" else 2, 8, [b"".join(words[c] for c in row) for row in cells])


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for word in sys.argv[2:]:
        name, count = word.split("=")
        if name not in ("bars", "checks", "disc", "stripes"):
            sys.exit(f"draw_pictures.py: {name} is not bars, checks, disc or stripes")
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        dice = random.Random(folder.rsplit("/", 2)[-2] + name)
        for number in range(int(count)):
            draw(os.path.join(folder, "%02d.png" % number), name, number, dice)


main()
