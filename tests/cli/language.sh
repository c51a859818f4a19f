# A language model on a small corpus: it learns; Python computes the same perplexity from the model file; one thread,
# two threads, and an interrupt within an epoch give the same bits; settings that do not fit are rejected; it generates
# words.
. "$(dirname "$0")/lib.sh"
stream_files
train() { # NAME OPTION...
    name=$1
    shift
    accepts "$dawn9" train language.yaml --data corpus --out "$name" --quiet "$@"
}

# ---- perplexity: plain loops over the words of test.txt, cut into three columns ----
cat >perplexity.py <<'PYTHON'
import json, math, sys
from tensorfile import read
run, cell, layers, tied = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "on"
metadata, tensors = read(run + "/model.safetensors")
assert tied == ("decoder.weight" not in tensors)
def matrix(name):
    shape, numbers = tensors[name]
    return [numbers[r * shape[1]:(r + 1) * shape[1]] for r in range(shape[0])]
def times(rows, x, bias): return [sum(a * b for a, b in zip(row, x)) + c for row, c in zip(rows, bias)]
def sigmoid(x): return 1 / (1 + math.exp(-x))
def step(x, w, u, b, v, h, c):
    a, r, n = times(w, x, b), times(u, h, v), len(h)
    if cell == "lstm":
        i, f, g, o = ([a[k * n + j] + r[k * n + j] for j in range(n)] for k in range(4))
        c = [sigmoid(f[j]) * c[j] + sigmoid(i[j]) * math.tanh(g[j]) for j in range(n)]
        return [sigmoid(o[j]) * math.tanh(c[j]) for j in range(n)], c
    reset, z = ([sigmoid(a[k * n + j] + r[k * n + j]) for j in range(n)] for k in range(2))
    new = [math.tanh(a[2 * n + j] + reset[j] * r[2 * n + j]) for j in range(n)]
    return [(1 - z[j]) * new[j] + z[j] * h[j] for j in range(n)], c
words = {word: token for token, word in enumerate(json.loads(metadata["dawn9.words"]))}
stream = [words[word] for line in open("corpus/test.txt") for word in line.split() + ["<eos>"]]
table, decoder, bias = matrix("encoder.weight"), matrix("encoder.weight" if tied else "decoder.weight"), tensors["decoder.bias"][1]
layer = [[matrix(f"rnn.weight_ih_l{l}"), matrix(f"rnn.weight_hh_l{l}"), tensors[f"rnn.bias_ih_l{l}"][1], tensors[f"rnn.bias_hh_l{l}"][1]]
         for l in range(layers)]
total, counted, length = 0, 0, len(stream) // 3
for column in range(3):
    state = [([0] * len(l[1][0]), [0] * len(l[1][0])) for l in layer]
    text = stream[column * length:(column + 1) * length]
    for token, label in zip(text, text[1:]):
        x = table[token]
        for l in range(layers): state[l] = step(x, *layer[l], *state[l]); x = state[l][0]
        z = times(decoder, x, bias)
        total, counted = total + math.log(sum(map(math.exp, z))) - z[label], counted + 1
got, want = json.load(open(run + "/result.json"))["perplexity"], math.exp(total / counted)
assert abs(got / want - 1) <= 1e-5, (got, want)
PYTHON
train run
json run/result.json '1 < d["perplexity"] <= 4' 'all(abs(__import__("math").exp(e["eval_loss"]) / e["perplexity"] - 1) < 1e-9 for e in d["epochs"])'
accepts python3 perplexity.py run lstm 2 off
train tied --set 'model={name: language, cell: gru, layers: 1, embedding: 8, hidden: 8, tied: on}' --set train.epochs=1
record tied '1 < d["perplexity"] <= 20'
accepts python3 perplexity.py tied gru 1 on
# label smoothing belongs to training: the perplexity is that of the plain cross-entropy
train smooth --set train.epochs=1 --with label_smoothing:alpha=0.5
accepts python3 perplexity.py smooth lstm 2 off
replies "d['perplexity'] == result('run')['perplexity']" "$dawn9" eval run --data corpus --json

# the training accuracy is of words; the five of a sentence are predictable with 1/3, 1/2, 1/2, 1/3 and 1: at most 53%
json run/result.json '45 < d["epochs"][-1]["train_accuracy"] < 56'

# ---- equal bits: however often it is evaluated, with one thread and two, and stopped within an epoch and resumed ----
train seldom --set eval.every=0
same_bits seldom run
same_bits_by_threads
slow="--set data.length=1 --set train.epochs=2 --set model.hidden=70"
ends 130 '598 --resume' stop_within_epoch language.yaml corpus $slow
has "$err" 'before step ([1-9]|[1-9][0-9]|[12][0-9][0-9]) of 598'
accepts "$dawn9" train language.yaml --data corpus --out stopped --quiet $slow --resume
train straight $slow
same_bits stopped straight
record stopped 'd["resumed"]' 'd["perplexity"] == result("straight")["perplexity"]'
# ---- a corpus has a validation part of its own: data.validation takes no words from training ----
accepts "$dawn9" eval run --data corpus --set data.validation=5

# ---- windows are not called images, nor are they in the report ----
accepts "$dawn9" train language.yaml --data corpus --out aside --set train.epochs=0.3 --set data.validation=1
says ' steps of 4 windows, ' '^epoch  train loss  perplexity  windows/s  seconds$' ' validation windows; '
prints '^note       Perplexities are of validation windows, not of the test windows.$' "$dawn9" report aside
grep -iq 'images[^"]*</' aside/report.html && fail "images in the report of a language model: $(grep -i 'images[^"]*</' aside/report.html)"

# ---- momentum is rejected where its velocity would add gradients of steps with different numbers of losses ----
rejects 2 'train.momentum 0.9 momentum_form page adam' "$dawn9" train language.yaml --data corpus --out none --set train.momentum=0.9

# ---- tied weights need an embedding as wide as the hidden layer; each column of the corpus needs two words ----
rejects 2 'model.tied: model.hidden model.embedding 9 8' "$dawn9" train language.yaml --data corpus --out none --set model.tied=on
rejects 2 'corpus 1200 train.batch_size 601 two' "$dawn9" train language.yaml --data corpus --out none --set train.batch_size=601
rejects 2 'corpus 205 eval.streams 103 two' "$dawn9" train language.yaml --data corpus --out none --set eval.streams=103
train shortest --set train.batch_size=600 --set eval.streams=102 --set train.epochs=1

# ---- class weights are rejected for language models ----
rejects 2 'train.class_weights one class' "$dawn9" train language.yaml --data corpus --out none --set train.class_weights=balanced

# ---- a plateau needs evaluations during training ----
rejects 2 'train.plateau eval.every 0' "$dawn9" train language.yaml --data corpus --out none \
    --set train.plateau=0.5 --set data.validation=1 --set eval.every=0

# ---- a perplexity too large for a number ends the run, like a loss ----
ends 5 'perplexity infinite' "$dawn9" train language.yaml --data corpus --out diverged --set train.epochs=1 --set 'train.lr={knots: [0], values: [20000]}'
[ ! -e diverged/result.json ] || fail "a run with an infinite perplexity counts as finished"

# ---- words of the model, by seed; a beginning with an unknown word ----
accepts "$dawn9" generate stopped --words 40 --seed 5 --threads 1
cp "$out" words.txt
[ "$(wc -w <words.txt)" = 40 ] && [ "$(wc -l <words.txt)" = 2 ] || fail "not two lines of 20 words: $(cat words.txt)"
accepts "$dawn9" generate stopped --words 40 --seed 5 --threads 2
same words.txt "$out" "the same seed gives other words"
accepts "$dawn9" generate stopped --words 40 --seed 6
differ words.txt "$out" "another seed gives the same words"
accepts "$dawn9" generate stopped --words 40 --seed 1
cp "$out" words.txt
accepts "$dawn9" generate stopped --words 40
same words.txt "$out" "the seed is not 1 where none is given"
prints '^ann sees [a-z<>]+ [a-z<>]+ $' "$dawn9" generate stopped --words 2 --start 'ann sees' --temperature 0.01
rejects 2 'start zebra <unk>' "$dawn9" generate stopped --start 'ann zebra'
rejects 2 'temperature 0: 0.001' "$dawn9" generate stopped --temperature 0
# ---- generate ends silently when its reader does, and with an error on a full disk ----
{ timeout 120 "$dawn9" generate stopped --words 1000000000 2>"$err"; echo $? >ended; } | head -n 1 >line.txt
[ "$(cat ended)" = 0 ] && [ ! -s "$err" ] && [ "$(wc -w <line.txt)" = 20 ] || fail "a reader that ended: status $(cat ended), $(cat line.txt)"
rejects 6 'standard output' timeout 120 sh -c '"$0" generate stopped --words 1000000000 >/dev/full' "$dawn9"
verdict
