# dawn9 train --tensorboard: event files, decoded by the test's own reader (tests/support/tfevents.py), agree with
# events.jsonl, model.safetensors and data preview; a resumed run continues in a second file. --events prints the lines
# of events.jsonl.
. "$(dirname "$0")/lib.sh"
tiny | sed 's/train: {/train: {bias_lr_multiplier: 2, /' >tiny.yaml

began=$(date +%s)
accepts "$dawn9" train tiny.yaml --out run --tensorboard logs/run --events
ended=$(date +%s)

# ---- --events: the lines of events.jsonl, then the result ----
head -n 2 "$out" | cmp -s - run/events.jsonl || fail "--events does not print the lines of events.jsonl"
lines_are 3 "$out"
tail -n 1 "$out" >last.json
json last.json 'd == result("run")'
rejects 2 'give only one' "$dawn9" train tiny.yaml --out x --json --events

# ---- watching changes no bit ----
accepts "$dawn9" train tiny.yaml --out plain --quiet
same_bits run plain

# ---- the file ----
accepts "$dawn9" data preview tiny.yaml --out preview.png
asserts "$began" "$ended" <<'PYTHON'
import glob, math, struct
from tfevents import events

def near(a, b):
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1e-30)

paths = glob.glob("logs/run/*")
assert len(paths) == 1 and "tfevents" in paths[0], paths
version, start, sheet, *epochs = events(paths[0])
assert version["file_version"] == "brain.Event:2" and start["session"] == 1 and start["step"] == 0

# wall times: seconds since 1970, while the run ran, in order
times = [e["wall_time"] for e in (version, start, sheet, *epochs)]
assert int(sys.argv[1]) <= times[0] and times[-1] <= int(sys.argv[2]) + 1 and times == sorted(times), times

# the sheet is that of data preview
image = sheet["values"]["augmentation"]
assert sheet["step"] == 0 and image["colorspace"] == 3
assert image["png"] == open("preview.png", "rb").read()
assert (image["width"], image["height"]) == struct.unpack(">II", image["png"][16:24])

# scalars
rows = [json.loads(line) for line in open("run/events.jsonl")]
assert len(rows) == len(epochs) == 2
for row, event in zip(rows, epochs):
    values = event["values"]
    assert event["step"] == 4 * row["epoch"], event["step"] # 128 images in batches of 32
    for tag, key in (("loss/train", "train_loss"), ("loss/evaluation", "eval_loss"),
                     ("accuracy/train", "train_accuracy"), ("accuracy/plain", "accuracy"),
                     ("accuracy/tta", "accuracy_tta"), ("speed/images_per_second", "images_per_second"),
                     ("learning_rate/weights", "learning_rate")):
        if row[key] is None:
            assert tag == "accuracy/tta" and tag not in values and row["epoch"] == 1, tag
        else:
            assert near(values[tag], row[key]), (tag, values[tag], row[key])
    assert near(values["learning_rate/biases"], row["learning_rate"] * 2) # bias_lr_multiplier
assert values["learning_rate/weights"] == 0 and epochs[0]["values"]["learning_rate/weights"] > 0.3

# histograms of the last epoch are those of the model
model = {name: numbers for name, (_, numbers) in read("run/model.safetensors")[1].items() if ".running_" not in name}
found = {tag: value for tag, value in values.items() if isinstance(value, dict)}
assert sorted(found) == sorted(model) and len(found) == 8 + 2 * 8 + 1, sorted(found)
for name, numbers in model.items():
    h = found[name]
    assert h["num"] == len(numbers) and near(h["min"], min(numbers)) and near(h["max"], max(numbers)), name
    size = sum(map(abs, numbers))
    assert abs(h["sum"] - math.fsum(numbers)) <= 1e-9 * size, name
    assert near(h["sum_squares"], math.fsum(x * x for x in numbers)), name
    assert len(h["bucket"]) == len(h["bucket_limit"]) == 64 and sum(h["bucket"]) == len(numbers), name
    assert h["bucket_limit"] == sorted(h["bucket_limit"]) and h["bucket_limit"][-1] == h["max"], name
    width = (h["max"] - h["min"]) / 64
    counts = [0] * 64
    for x in numbers:
        counts[min(int((x - h["min"]) / width), 63)] += 1
    assert counts == h["bucket"], name
PYTHON

# ---- interrupted and resumed: a second event file, which continues after the last epoch of the first ----
sed 's/epochs: 2/epochs: 30/' tiny.yaml >long.yaml
ends 130 'interrupted before step' \
    signalled INT half/events.jsonl "$dawn9" train long.yaml --out half --tensorboard logs/half --quiet
accepts "$dawn9" train long.yaml --out half --tensorboard logs/half --quiet --resume
asserts <<'PYTHON'
import glob
from tfevents import events
first, second = (list(events(path)) for path in sorted(glob.glob("logs/half/*")))
done = [e["step"] for e in first if "loss/train" in e["values"]]
rest = [e["step"] for e in second if "loss/train" in e["values"]]
assert done and done + rest == [4 * epoch for epoch in range(1, 31)], (done, rest)
assert second[1]["session"] == 1 and done[-1] < second[1]["step"] <= rest[0], second[1] # TensorBoard drops earlier events from this step on
assert not any("augmentation" in e["values"] for e in second)
losses = [e["values"]["loss/train"] for e in first + second if "loss/train" in e["values"]]
rows = [json.loads(line)["train_loss"] for line in open("half/events.jsonl")]
assert all(abs(a - b) <= 1e-6 * b for a, b in zip(losses, rows)) and len(losses) == len(rows) == 30
PYTHON

# ---- the learning rates of train.plateau, and of layers that are frozen for the first two epochs ----
tiny | sed 's/epochs: 2/epochs: 5/; s/synthetic_train: 128/&, validation: 32/; s/train: {/&plateau: 0.5, /; s/tricks: {/&fine_tune: {head: 0.4}, /; s/0, 0.4, 0/1.0e-6, 1.0e-6, 1.0e-6/' >plateau.yaml
accepts "$dawn9" train plateau.yaml --out plateau --tensorboard logs/plateau --quiet
cat >plateau.py <<'PYTHON'
import glob, json
from tfevents import events
epochs = [e["values"] for e in events(glob.glob("logs/plateau/*")[0]) if "loss/train" in e["values"]]
rates = [e["learning_rate/weights"] for e in epochs]
rows = [json.loads(line)["learning_rate"] for line in open("plateau/events.jsonl")]
assert len(rates) == len(rows) == 5 and rows[4] < 0.6 * rows[0], rows
assert all(abs(a - b) <= 1e-6 * b for a, b in zip(rates, rows)), (rates, rows)
frozen = [e["learning_rate/weights.part1"] for e in epochs]
assert frozen[:2] == [0, 0] and all(abs(a - 0.1 * b) <= 1e-6 * b for a, b in zip(frozen[2:], rows[2:])), (frozen, rows)
PYTHON
accepts python3 plateau.py

# ---- several seeds, and a folder that cannot be made ----
accepts "$dawn9" train tiny.yaml --runs 2 --set train.epochs=1 --out many --tensorboard logs/many --quiet
[ "$(ls logs/many)" = "$(printf 'seed1\nseed2')" ] || fail "--runs 2 wrote $(ls logs/many)"
echo x >file
ends 6 'file' "$dawn9" train tiny.yaml --out y --tensorboard file/logs
# ---- lines of JSON, forwarded to Weights & Biases (a stub has the methods that are called) ----
cat >wandb.py <<'PYTHON'
class Run:
    def __init__(self, project):
        self.config, self.summary, self.rows, self.project = {}, {}, [], project
    def log(self, row, step):
        self.rows.append((step, row["train_loss"]))
    def finish(self):
        print("forwarded", self.project, self.config["seed"], [step for step, _ in self.rows], sorted(self.summary))
def init(project):
    return Run(project)
PYTHON
"$dawn9" train tiny.yaml --runs 2 --out forwarded --events >lines
# shellcheck disable=SC2016 # for the inner shell
accepts env PYTHONPATH="$PWD" PYTHONDONTWRITEBYTECODE=1 sh -c '"$0" mine <lines' "$source/examples/wandb_forward.py"
grep -v '^forwarded' "$out" | cmp -s - lines || fail "the lines do not go on as they came"
for seed in 1 2; do
    says "^forwarded mine $seed \\[1, 2\\] \\['accuracy', 'accuracy_tta', 'process_seconds', 'train_seconds'\\]\$"
done
accepts "$dawn9" train tiny.yaml --runs 2 --out forwarded --events --resume
[ "$(grep -c '"seed":' "$out")" = 2 ] || fail "--events does not print the results of runs that were finished before"
verdict
