#!/usr/bin/env python3
"""Makes FOLDER/precision.tsv from the records of experiments/precision.sh, prints it as a table, and, if gnuplot is
installed, draws FOLDER/precision.svg: speed and largest batch relative to f32.

usage: precision.py FOLDER

Seconds are medians of rounds. A ratio is of the two steps of one round: seconds in f32 over seconds in this precision."""
import csv, glob, json, os, re, shutil, statistics, subprocess, sys, tempfile

folder = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
HEADS = ("device", "threads", "depth", "precision", "batch", "rounds", "step_seconds", "ratio", "ratio_low", "ratio_high",
         "peak_mib", "memory_gib", "largest_batch", "batch_ratio")
ORDER = ("f32", "tf32", "bf16", "fp16")


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def steps(depth, precision):
    """The records of all rounds, by round number."""
    name = re.compile(rf"step-{depth}-{precision}-(\d+)\.json")
    return {int(m[1]): load(os.path.join(folder, m[0])) for m in map(name.fullmatch, os.listdir(folder)) if m}


def row(depth, precision):
    ours, plain = steps(depth, precision), steps(depth, "f32")
    fit, plain_fit = (load(f"{folder}/fit-{depth}-{p}.json") for p in (precision, "f32"))
    ratios = [plain[n]["step_seconds"] / ours[n]["step_seconds"] for n in ours if n in plain]
    first, batches = next(iter(ours.values())), [f["rows"][0]["batch_size"] for f in (fit, plain_fit)]
    return dict(zip(HEADS, (
        first["device"], first["threads"], depth, precision, first["batch_size"], len(ours),
        f'{statistics.median(s["step_seconds"] for s in ours.values()):.6f}', f"{statistics.median(ratios):.6f}", f"{min(ratios):.6f}",
        f"{max(ratios):.6f}", f'{max(s["peak_bytes"] for s in ours.values()) / 2**20:.0f}', f'{fit["memory_bytes"] / 2**30:g}', batches[0],
        f"{batches[0] / batches[1]:.6f}")))


def draw(rows):
    """Draws the picture with plots/, in a folder with the script, its settings and its data."""
    with tempfile.TemporaryDirectory() as work:
        for name in ("draw.gp", "style.gp"):
            shutil.copy(os.path.join(HERE, "..", "plots", name), work)
        shutil.copy(os.path.join(HERE, "precision.gp"), work)
        shutil.copy(f"{folder}/precision.tsv", work)
        halves = [p for p in ORDER if any(r["precision"] == p != "f32" for r in rows)]
        with open(f"{work}/settings.gp", "w", encoding="utf-8") as file:
            file.write(f"series = {len(halves)}\narray name[{len(halves)}] = {json.dumps(halves)}\nmemory = '{rows[0]['memory_gib']}'\n")
        subprocess.run(["gnuplot", "-d", "-c", "draw.gp", "precision"], cwd=work, check=True)
        shutil.copy(f"{work}/precision.svg", folder)


found = {(int(m[1]), m[2]) for m in (re.search(r"/step-(\d+)-(\w+)-\d+\.json$", p) for p in glob.glob(f"{folder}/step-*.json")) if m}
rows = [row(depth, precision) for depth, precision in sorted(found, key=lambda f: (f[0], ORDER.index(f[1])))]
with open(f"{folder}/precision.tsv", "w", encoding="utf-8", newline="") as file:
    table = csv.DictWriter(file, HEADS, delimiter="\t", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
print(f"{rows[0]['device']}, {rows[0]['threads']} threads, batches of {rows[0]['batch']}")
print("| ResNet | precision | ms a step | f32 over it (range) | peak memory, MiB | largest batch in "
      f"{rows[0]['memory_gib']} GiB | over f32's |\n|---|---|---|---|---|---|---|")
for r in rows:
    print(f"| {r['depth']} | {r['precision']} | {1e3 * float(r['step_seconds']):.1f} | {float(r['ratio']):.2f} ({float(r['ratio_low']):.2f} to "
          f"{float(r['ratio_high']):.2f}) | {r['peak_mib']} | {r['largest_batch']} | {float(r['batch_ratio']):.2f} |")
if shutil.which("gnuplot") and len(found) > len({depth for depth, _ in found}):
    draw(rows)
