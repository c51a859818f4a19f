"""Compares the checkpoints, events.jsonl and predictions of two runs that were trained with `keep: all`.

usage: same_state.py RUN RUN MOST      MOST: greatest difference of a number x of a checkpoint, relative to max(1, |x|)

Epochs and timeline of the checkpoints and times of events are not compared. Other numbers of events may differ by 1e-8,
also relative to max(1, |x|), predictions by an absolute 1e-5.
"""
import json, sys
from tensorfile import read
a, b = (read(run + "/checkpoint.safetensors")[1] for run in sys.argv[1:3])
assert a.keys() == b.keys(), a.keys() ^ b.keys()
count = 0
for name in a:
    if name.split("/")[0] in ("epochs", "timeline"):
        continue
    assert a[name][0] == b[name][0], name
    for x, y in zip(a[name][1], b[name][1]):
        count += 1
        assert abs(x - y) <= float(sys.argv[3]) * max(1, abs(x)), f"{name}: {x} and {y}"
events = [[json.loads(line) for line in open(run + "/events.jsonl")] for run in sys.argv[1:3]]
assert len(events[0]) == len(events[1]) > 0, [len(lines) for lines in events]
for x, y in zip(*events):
    assert x.keys() == y.keys(), x.keys() ^ y.keys()
    for key in x.keys() - {"seconds", "images_per_second", "hours"}:
        same = x[key] == y[key] or abs(x[key] - y[key]) <= 1e-8 * max(1, abs(x[key])) # both None: not evaluated
        assert same, (key, x, y)
assert count > 1000
a, b = (read(run + "/predictions.safetensors")[1] for run in sys.argv[1:3])
assert {name: a[name][0] for name in a} == {name: b[name][0] for name in b}
assert all(abs(x - y) < 1e-5 for name in a for x, y in zip(a[name][1], b[name][1]))
