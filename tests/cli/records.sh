# The committed ten-epoch runs of dawn94 on CPUs follow the loss curve of a PyTorch run within the limits of
# tests/golden/README.md ("The learning curve"): each loss of each run, and the mean losses of an arm with at least
# three seeds. Accuracy with TTA is at least 93.7 in each run, and its mean in such an arm at least 93.9 (dawn94-bf16:
# 93.95). The runs on an H200 (experiments/results/gpu) are not checked.
. "$(dirname "$0")/lib.sh"

asserts "$source" <<'PYTHON'
import glob, os, re
source = sys.argv[1]
sys.path.insert(0, source + "/docs")
from measured import archive, result
FIRST, LATER, MEAN = 0.0125, 0.010, 0.0075
curve = [float(line.split()[1]) for line in list(open(source + "/tests/golden/dawn94_curve.tsv"))[1:]]
arms = {}
names = []
for folder in glob.glob(source + "/experiments/results/cpu/dawn94-*"):
    seeds = {path.split("/")[0] for path in archive(folder)} | set(map(os.path.basename, glob.glob(folder + "/seed*")))
    names += [f"{os.path.basename(folder)}/{seed}" for seed in seeds]
for name in sorted(names):
    run = result("cpu/" + name)
    assert [row["epoch"] for row in run["epochs"]] == list(range(1, len(curve) + 1)), name
    off = [row["train_loss"] - loss for row, loss in zip(run["epochs"], curve)]
    for epoch, distance in enumerate(off, 1):
        assert abs(distance) <= (FIRST if epoch == 1 else LATER), (name, epoch, distance)
    assert run["accuracy_tta"] >= 93.7 and f"seed{run['seed']}" in name and run["precision"] in name, name
    arms.setdefault(re.sub(r"/seed\d", "", name), []).append((run["accuracy_tta"], off))
whole = {arm: runs for arm, runs in arms.items() if len(runs) >= 3}
assert {"dawn94-bf16", "dawn94-bf16-own", "dawn94-f32-own"} <= set(whole), sorted(whole)
for arm, runs in whole.items():
    means = [sum(off) / len(off) for off in zip(*(off for _, off in runs))]
    assert max(map(abs, means)) <= MEAN, (arm, means)
    accuracy = sum(accuracy for accuracy, _ in runs) / len(runs)
    assert accuracy >= (93.95 if arm == "dawn94-bf16" else 93.9), (arm, accuracy)
print(sum(map(len, arms.values())), "runs;", ", ".join(f"{arm}: mean of {len(runs)}" for arm, runs in whole.items()))
PYTHON
cat "$out"
verdict
