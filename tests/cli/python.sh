# tools/dawn9.py: trains on arrays and on the data of a configuration, predicts, computes features, stops when asked,
# and raises the errors of the command; also in threads, after fork and in a locale with a decimal comma.
. "$(dirname "$0")/lib.sh"
python=/usr/bin/python3
"$python" -c 'import numpy' 2>/dev/null || skips numpy "there is no Debian python3-numpy"
tiny | slower >tiny.yaml
text_files
cat >arrays.yaml <<'Y'
backend: cpu
precision: f32
threads: 1
target: 90
model: {name: resnet9, channels: [4, 8, 8, 8]}
train: {epochs: 12, batch_size: 10, lr: {peak: 0.1}}
Y
cat >use.py <<'PYTHON'
import os, sys
import numpy as np
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1] + "/tools")
import dawn9

random = np.random.default_rng(1)
labels = np.arange(90) % 3
images = random.integers(0, 60, (90, 16, 16, 3), dtype=np.uint8)
images[np.arange(90), :, :, labels] += 180  # red, green or blue
seen = []
model, result = dawn9.train("arrays.yaml", images, labels, test=(images[:30], labels[:30]), folder="run",
                            progress=lambda step, steps, loss, epoch: seen.append((step, steps, epoch)) and 0)
assert result["accuracy"] == 100 and result["backend"] == "cpu" and result["train_images"] == 90, result
assert model.evaluate()["accuracy"] == 100 and result["test_images"] == 30 and os.path.exists("run/result.json")
assert [s[0] for s in seen if s[2] is None] == list(range(1, 109)) and sum(s[2] is not None for s in seen) == 12
assert model.shape == (16, 16, 3) and model.classes == ["0", "1", "2"] and "name: resnet9" in model.config
found, probabilities = model.predict(images)
assert (found == labels).all() and probabilities.shape == (90, 3) and np.allclose(probabilities.sum(1), 1)
features = model.features(images)
assert features.shape == (90, 8) and features.dtype == np.float32 and np.isfinite(features).all() and features.std() > 0
model.save("model.safetensors")
again = dawn9.Model("model.safetensors", set=["threads=2"])
assert (again.predict(images)[1] == probabilities).all() and (again.features(images[:7]) == features[:7]).all()
os.mkdir("others") # which it was not trained on
np.save("others/images.npy", 255 - images), np.save("others/labels.npy", labels)
assert dawn9.Model("model.safetensors", set=["data.path=others"]).evaluate()["images"] == 90
grey = again.predict(images[:, :, :, 0])[1]
assert (grey == again.predict(np.repeat(images[:, :, :, :1], 3, axis=3))[1]).all()

# without test=, a sixth of the images is the test set; then a run on the data of its configuration
assert dawn9.train("arrays.yaml", images, labels, set=["train.epochs=1"])[1]["test_images"] == 15
assert dawn9.train("tiny.yaml")[0].evaluate()["images"] == 64
dawn9._lib.omp_set_num_threads(5) # of the caller's OpenMP regions, which also oneDNN leaves as it was
dawn9.train("tiny.yaml", set=["backend=" + sys.argv[3], "train.epochs=1"])
assert dawn9._lib.omp_get_max_threads() == 5

# a model of texts, from a folder by the configuration
texts, _ = dawn9.train("sentiment.yaml", set=["data.path=texts"])
assert texts.shape == (12,) and texts.classes == ["neg", "pos"] and texts.evaluate()["images"] == 64
kinds, sure = texts.predict(["word1 word2 good word3", "It is BAD"] + 70 * ["fine"])
assert list(kinds) == [1, 0] + 70 * [1] and sure.shape == (72, 2) and texts.predict([])[1].shape == (0, 2)
for wrong, words in (([images[0]], "texts"), (images, "texts"), ("good", "list"), (["a\0b"], "null")):
    try:
        texts.predict(wrong)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(wrong)
for wrong in ([""], ["good", "a" * 1001]):
    try:
        texts.predict(wrong)
    except dawn9.Error as error:
        assert error.status == 3 and f"text {len(wrong) - 1}" in str(error), error
    else:
        raise AssertionError(wrong)

# Ctrl-C stops the run after the current batch
import signal
def interrupt(step, *_):
    if step == 2:
        signal.raise_signal(signal.SIGINT)
try:
    dawn9.train("tiny.yaml", folder="stopped", progress=interrupt)
    raise AssertionError("not interrupted")
except KeyboardInterrupt:
    assert os.path.exists("stopped/checkpoint.safetensors")
# and resume=True continues it, also with arrays
def stopped_and_resumed(*arguments, **named):
    whole = dawn9.train(*arguments, **named)[1]["params_sha256"]
    try:
        dawn9.train(*arguments, **named, folder="half", overwrite=True, progress=lambda step, *_: step == 3)
        raise AssertionError("not stopped")
    except dawn9.Error as error:
        assert error.status == 130, error
    resumed = dawn9.train(*arguments, **named, folder="half", resume=True)[1]
    assert resumed["params_sha256"] == whole and resumed["total_seconds"] != resumed["total_seconds"], resumed
stopped_and_resumed("tiny.yaml")
stopped_and_resumed("arrays.yaml", images, labels, set="train.epochs=1")

try:
    dawn9.train("tiny.yaml", progress=lambda step, steps, _, epoch: epoch and step == steps and signal.raise_signal(signal.SIGINT))
    raise AssertionError("not interrupted after the last step")
except KeyboardInterrupt:
    pass

# a callback that changes the current folder
os.mkdir("elsewhere")
here = os.getcwd()
try:
    dawn9.train("tiny.yaml", folder="moved", progress=lambda *_: os.chdir(f"{here}/elsewhere"))
finally:
    os.chdir(here)
assert os.path.exists("moved/result.json") and not os.path.exists("moved/lock") and not os.listdir("elsewhere")

# errors
def rejected(error, says, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except error as raised:
        assert says in str(raised), raised
        return raised
    raise AssertionError(f"not rejected: {says}")

assert rejected(dawn9.Error, "train.epochs", dawn9.train, "tiny.yaml", set=["train.epochs=x"]).status == 2
assert rejected(dawn9.Error, "none.safetensors", dawn9.Model, "none.safetensors").status == 3
assert rejected(dawn9.Error, "interrupted before step 2", dawn9.train, "tiny.yaml", progress=lambda *_: True).status == 130
rejected(KeyError, "mine", dawn9.train, "tiny.yaml", progress=lambda *_: {}["mine"])
def too_late(*_): # a signal handler that raises: Python runs it at the next callback from C, before the callback's `try`
    raise TimeoutError("too late")
signal.signal(signal.SIGALRM, too_late)
signal.setitimer(signal.ITIMER_REAL, 0.05)
rejected(TimeoutError, "too late", dawn9.train, "tiny.yaml", set="train.epochs=1000")
assert signal.getsignal(signal.SIGALRM) == too_late
import time
many = np.tile(images, (30, 1, 1, 1))
started = time.monotonic()
again.predict(many)
whole = time.monotonic() - started
signal.setitimer(signal.ITIMER_REAL, whole / 10)
rejected(TimeoutError, "too late", again.predict, many)
assert time.monotonic() - started < 1.7 * whole, "a prediction goes on after a signal"
signal.signal(signal.SIGALRM, lambda *_: again.close())
signal.setitimer(signal.ITIMER_REAL, whole / 10)
rejected(ValueError, "cannot close it", again.predict, many)
signal.signal(signal.SIGALRM, lambda *_: again.features(images[:2]))
signal.setitimer(signal.ITIMER_REAL, whole / 10)
assert rejected(dawn9.Error, "computing", again.predict, many).status == 2
assert (again.predict(images)[1] == probabilities).all()
import warnings
untested = images[1:4], labels[1:4] * 0 # of class 0 alone
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    dawn9.train("arrays.yaml", images, labels, test=untested, set="train.epochs=1")
assert any("(1 0, 2 0)" in str(w.message) and w.filename == __file__ for w in heard), [str(w.message) for w in heard]
with warnings.catch_warnings():
    warnings.simplefilter("error")
    rejected(UserWarning, "both parts", dawn9.train, "arrays.yaml", images, labels, test=untested, set="train.epochs=1")
sys.path.append(sys.argv[1] + "/tests/support")
import re, tensorfile
tensorfile.damage("model.safetensors", "newer.safetensors", "dawn9.config", again.config + "newthing: 3\n")
error = rejected(dawn9.Error, "newer.safetensors dawn9.config:", dawn9.Model, "newer.safetensors", set="seed=2")
assert "newthing" in str(error) and error.status == 3
assert rejected(dawn9.Error, "train.epochs", dawn9.Model, "model.safetensors", set="train.epochs=x").status == 2
for page in "engine/dawn9.h", "docs/library.md": # the examples of `set`
    example = re.search(r'\{(".*"), NULL\}', open(f"{sys.argv[1]}/{page}").read())
    assert dawn9._effective("tiny.yaml", re.findall('"(.*?)"', example[1]))
assert "tricks.cutout=on" in str(rejected(dawn9.Error, "off", dawn9.train, "tiny.yaml", set="tricks.cutout.size=8"))
rejected(ValueError, "folder", dawn9.train, "tiny.yaml", folder="")
rejected(TypeError, "bool", dawn9.train, "tiny.yaml", folder=False)
assert (dawn9.Model("run").predict(images)[1] == probabilities).all() # the folder of a run, as in the commands
rejected(dawn9.Error, "others/model.safetensors", dawn9.Model, "others")
rejected(ValueError, "3 labels for 4 images", dawn9.train, "arrays.yaml", images[:4], labels[:3])
rejected(ValueError, "the model takes", again.predict, images[:, :8])
rejected(ValueError, "images[None]", again.predict, images[0])
rejected(ValueError, "images[None]", dawn9.train, "arrays.yaml", images[0], labels)
rejected(ValueError, "must be uint8", again.predict, images / 255)
hidden = np.ma.masked_greater(images, 100) # whose masked pixels would be used
rejected(ValueError, "images must not be masked", again.predict, hidden)
rejected(ValueError, "labels must not be masked", dawn9.train, "arrays.yaml", images, np.ma.masked_equal(labels, 1))
rejected(dawn9.Error, "one class, must be at least 2", dawn9.train, "arrays.yaml", images, labels * 0)
rejected(ValueError, "label 1 is -1", dawn9.train, "arrays.yaml", images[:3], np.array([0, -1, 1]))
rejected(ValueError, "label 2 is 70000", dawn9.train, "arrays.yaml", images[:3], np.array([0, 1, 70000]))
rejected(ValueError, "no image has label 1, but one has 6", dawn9.train, "arrays.yaml", images, labels * 3)
rejected(ValueError, "labels must be given, one for each image", dawn9.train, "arrays.yaml", images)
rejected(ValueError, "images.transpose(0, 2, 3, 1) puts the channels last", dawn9.train, "arrays.yaml", images.transpose(0, 3, 1, 2), labels)
rejected(ValueError, "test must be a pair: (images, labels)", dawn9.train, "arrays.yaml", images, labels, test=images)
# arguments that would be ignored are rejected
rejected(ValueError, "need images", dawn9.train, "tiny.yaml", None, labels)
rejected(ValueError, "need images", dawn9.train, "tiny.yaml", test=(images, labels))
for setting in "data.dataset=synthetic", "data.path=elsewhere", "data.image_size=8", "data={dataset: synthetic}":
    rejected(ValueError, "data.dataset, data.path and data.image_size", dawn9.train, "arrays.yaml", images, labels, set=setting)
dawn9.train("arrays.yaml", images, labels, set=["data.dataset=arrays", "train.epochs=1"])
rejected(dawn9.Error, "no folder", dawn9.train, "tiny.yaml", overwrite=True)
for call in again.save, dawn9.Model, dawn9.train, lambda x: dawn9.train("tiny.yaml", folder=x), lambda x: dawn9.train("tiny.yaml", set=x):
    rejected(ValueError, "null", call, "x\0y")
assert not os.path.exists("x")

# one model in four threads, with batches of many sizes; a model that is closed twice
import threading
def predicts(seed):
    for count in np.random.default_rng(seed).integers(1, 90, 20):
        sure.append(np.abs(again.predict(images[:count])[1] - probabilities[:count]).max() <= 1e-6)
sure, threads = [], [threading.Thread(target=predicts, args=[i]) for i in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert len(sure) == 80 and all(sure)
with dawn9.Model("model.safetensors") as third:
    third.predict(images)
third.close()
import copy, pickle
for clone in copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)):
    rejected(TypeError, "copied", clone, third) # two owners of one handle would free it twice
    error = clone(rejected(dawn9.Error, "none.safetensors", dawn9.Model, "none.safetensors")) # as multiprocessing passes it
    assert type(error) is dawn9.Error and "none.safetensors" in str(error) and error.status == 3, error
rejected(ValueError, "closed", third.predict, images)
rejected(ValueError, "closed", lambda: third.config)
import gc
class Cycle: # the garbage collector frees it with the model, which must be freed before its context
    def __init__(self):
        self.itself, self.model = self, dawn9.train("tiny.yaml")[0]
Cycle() and gc.collect()

# folders for temporary files with odd names
import tempfile
for name in "del\x7f", "a 'b' \"c\" # d: e\\f", "line\nbreak", "\u00fc\u202e":
    os.mkdir(name)
    tempfile.tempdir = os.path.abspath(name)
    odd = dawn9.train("arrays.yaml", images, labels, set=["train.epochs=0.2"])[0]
    assert odd.evaluate()["images"] == 15 and os.listdir(name)
    del odd
    assert not os.listdir(name)
os.mkdir(b"\xff")
tempfile.tempdir = os.fsdecode(os.path.abspath(b"\xff"))
rejected(ValueError, "TMPDIR", dawn9.train, "arrays.yaml", images, labels)
tempfile.tempdir = None

# a forked child computes with two threads like its parent, also if it was forked by a callback of a training
def in_child():
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if (again.predict(images)[1] == probabilities).all() else 1)
    return os.waitpid(child, 0)[1]
assert in_child() == 0 and in_child() == 0
child = os.fork() # it does not delete its parent's data
if child == 0:
    del model
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0 and model.evaluate()["accuracy"] == 100
folder = model._data.name
del model
assert not os.path.exists(folder)
child_status = []
dawn9.train("arrays.yaml", images, labels, set=["threads=2", "train.epochs=0.2"], progress=lambda *_: child_status.append(in_child()))
assert child_status and not any(child_status), child_status
# a child that raises in the callback, or returns from it, ends there, and does not touch the run of its parent
def forks_at_step_2(ends):
    def progress(step, steps, loss, epoch):
        if step != 2 or epoch:
            return
        before = sorted(os.listdir("forked"))
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            sys.stderr = open(os.devnull, "w")
            return ends()
        child_status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        assert sorted(os.listdir("forked")) == before and "lock" in before, before
    return progress
whole_run = dawn9.train("tiny.yaml")[1]["params_sha256"]
for ends, code in ((lambda: sys.exit(3), 3), (lambda: sys.exit("no"), 1), (sys.exit, 0), (lambda: {}["mine"], 1), (lambda: None, 0)):
    ran = dawn9.train("tiny.yaml", folder="forked", overwrite=True, progress=forks_at_step_2(ends))[1]
    assert child_status[-1] == code and ran["params_sha256"] == whole_run, (child_status[-1], code)
with again._context.lock:  # another thread computes while this process forks: the child says so
    def forks():
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            rejected(ValueError, "forked", again.predict, images)
            os._exit(0)
        sure.append(os.waitpid(child, 0)[1] == 0)
    thread = threading.Thread(target=forks)
    thread.start(), thread.join()
    assert sure[-1]

# a decimal comma, set before the calls, and changed during one by a callback, which sees what it has set
import locale
if sys.argv[2] == "comma":
    marks = []
    def changes(step, *_):
        marks.append(locale.localeconv()["decimal_point"])
        locale.setlocale(locale.LC_NUMERIC, "C" if step % 2 else "comma")
    dawn9.train("tiny.yaml", folder="point")
    locale.setlocale(locale.LC_NUMERIC, "comma")
    dawn9.train("tiny.yaml", folder="comma_run", progress=changes)[0].save("comma.safetensors")
    locale.setlocale(locale.LC_NUMERIC, "comma")
    assert dawn9.Model("comma.safetensors").evaluate()["images"] == 64 and set(marks) == {".", ","}, marks
    for file in "config.yaml", "model.safetensors":
        assert open("point/" + file, "rb").read() == open("comma_run/" + file, "rb").read(), file
    assert "," not in open("comma_run/epochs.tsv").read()
print("all well")
PYTHON
# Makes a locale with a decimal comma, because the system may have none.
printf '%s\n' 'comment_char %' 'escape_char /' LC_NUMERIC 'decimal_point ","' 'thousands_sep "."' 'grouping 3' 'END LC_NUMERIC' >comma.src
localedef -c -i ./comma.src ./comma >/dev/null 2>&1
locale=comma
[ -f comma/LC_NUMERIC ] || omits localedef "it makes no locale here" || locale=none
prints '^all well$' env MALLOC_PERTURB_=165 LOCPATH="$PWD" DAWN9_LIBRARY="$(dirname "$dawn9")/libdawn9.so" "$python" -W ignore use.py "$source" $locale "$(cpu_backends | tail -n 1)"

# dawn9 lets waiting threads of OpenMP spin for 10000 turns, unless the caller has chosen. os.environ stays as it was.
spins_for() { # TURNS [NAME=VALUE]: checks the turns after importing dawn9 with this environment variable
    observe env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u KMP_BLOCKTIME OMP_DISPLAY_ENV=verbose DAWN9_LIBRARY="$(dirname "$dawn9")/libdawn9.so" ${2:+"$2"} "$python" -c '
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1] + "/tools")
before = dict(os.environ)
import dawn9
assert os.environ == before' "$source"
    { [ $status = 0 ] && grep -Eq "GOMP_SPINCOUNT *= *'$1'" "$err"; } || fail "status $status, not $1 turns with '${2-}'"
}
spins_for 10000
spins_for 30000000000 OMP_WAIT_POLICY=active
observe env DAWN9_LIBRARY=/none/libdawn9.so "$python" use.py "$source"
{ [ $status = 1 ] && grep -q '^ImportError: DAWN9_LIBRARY: /none/libdawn9.so: ' "$err"; } || fail "another library than DAWN9_LIBRARY: status $status"
verdict
