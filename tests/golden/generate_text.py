#!/usr/bin/python3
"""Reference cases of networks of texts, computed with PyTorch in float64: torch.nn.Embedding, torch.nn.RNN, GRU or LSTM,
and torch.nn.Linear on the last token, or for language_* on every token, trained by torch.optim. Parameters keep PyTorch's
names and initial values, rounded to bfloat16; biases are random, so that none is hidden by a zero. The first text
repeats a token, and almost half of the texts end in padding.

The cases language_* read a stream as pytorch/examples word_language_model does: columns, of which each step reads the next
tokens (the last step fewer), states that go on from step to step, torch.nn.utils.clip_grad_norm_. Gradients are those
after clipping; perplexity is that of the final parameters with fewer columns and no dropout.

Run:  /usr/bin/python3 generate_text.py --out DIR [--only NAME]
Needs python3-torch and python3-numpy (Debian packages).
"""
import json
import numpy as np, torch, torch.nn.functional as F
from generate_networks import SEED, STEPS, philox, role_stream, write_cases

CELLS = {"elman_tanh": lambda *a, **k: torch.nn.RNN(*a, **k), "elman_relu": lambda *a, **k: torch.nn.RNN(*a, nonlinearity="relu", **k),
         "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}
ADAM = dict(momentum=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0)
STRONG = dict(momentum=0.8, beta2=0.97, epsilon=1e-3, weight_decay=0.2, bias_lr_multiplier=4.0)

# The first has the optimizer settings of the comparison of frameworks on IMDB; the others have strong weight decay.
CASES = {
    "text_gru": dict(cell="gru", layers=1, vocabulary=50, length=7, embedding=5, hidden=6, batch=4, classes=2, optimizer="adam", train=ADAM, rates=[0.001, 0.002, 0.003]),
    "text_gru_layers": dict(cell="gru", layers=2, vocabulary=30, length=5, embedding=6, hidden=9, batch=5, classes=3, optimizer="adam", train=STRONG, rates=[0.01, 0.02, 0.03]),
    "text_lstm": dict(cell="lstm", layers=1, vocabulary=40, length=8, embedding=7, hidden=5, batch=6, classes=2, optimizer="adamw", train=STRONG, rates=[0.01, 0.02, 0.03]),
    "text_lstm_layers": dict(cell="lstm", layers=2, vocabulary=20, length=6, embedding=4, hidden=8, batch=3, classes=4, optimizer="sgd", train=dict(momentum=0.9, momentum_form="torch", weight_decay=5e-2), rates=[0.2, 0.3, 0.1]),
    "text_elman_tanh": dict(cell="elman_tanh", layers=2, vocabulary=25, length=9, embedding=5, hidden=7, batch=5, classes=3, optimizer="sgd", train=dict(momentum=0.9, momentum_form="plain", weight_decay=5e-2), rates=[0.1, 0.2, 0.1]),
    "text_elman_relu": dict(cell="elman_relu", layers=1, vocabulary=25, length=3, embedding=5, hidden=7, batch=7, classes=3, optimizer="sgd", train=dict(momentum=0, weight_decay=5e-2), rates=[0.1, 0.2, 0.1]),
}

PLAIN = dict(momentum=0, weight_decay=0)

# Three steps: 5, 5 and 3 tokens of each column; 2 tokens at the end of the stream are in no column.
STREAMS = {
    "language_lstm_tied": dict(cell="lstm", layers=2, embedding=6, hidden=6, tied=True, dropout=0.25, clip=0.25, optimizer="sgd", train=PLAIN, rates=[2.0, 4.0, 3.0]),
    "language_gru": dict(cell="gru", layers=1, embedding=5, hidden=7, tied=False, dropout=0, clip=0.5, optimizer="adam", train=ADAM, rates=[0.1, 0.2, 0.3]),
    "language_elman": dict(cell="elman_tanh", layers=2, embedding=4, hidden=6, tied=False, dropout=0.5, clip=0, optimizer="sgd", train=dict(momentum=0, weight_decay=5e-2), rates=[0.2, 0.1, 0.3]),
}
for each in STREAMS.values(): each.update(vocabulary=23, length=5, batch=4, columns=3, count=4 * (5 + 5 + 3 + 1) + 2)

class Net(torch.nn.Module):
    def __init__(s, case):
        super().__init__()
        s.encoder = torch.nn.Embedding(case["vocabulary"], case["embedding"])
        s.rnn = CELLS[case["cell"]](case["embedding"], case["hidden"], case["layers"])
        s.decoder = torch.nn.Linear(case["hidden"], case["classes"])
    def forward(s, tokens): return s.decoder(s.rnn(s.encoder(tokens.t()))[0][-1])

class Language(torch.nn.Module):
    """Dropout keeps the elements (T, N, C) that dawn9 keeps."""
    def __init__(s, case):
        super().__init__()
        s.encoder = torch.nn.Embedding(case["vocabulary"], case["embedding"])
        s.rnn = CELLS[case["cell"]](case["embedding"], case["hidden"], case["layers"])
        s.decoder = torch.nn.Linear(case["hidden"], case["vocabulary"])
        s.layers, s.p = case["layers"], case["dropout"]
        if case["tied"]: s.decoder.weight = s.encoder.weight
    def drop(s, x, index, step):
        if step is None or not s.p: return x
        words = philox(SEED, np.arange((x.numel() + 3) // 4), step, 7, role_stream(f"drop{index}")).reshape(-1)[:x.numel()]
        return torch.where(torch.from_numpy((words >= int(s.p * 2**32)).reshape(x.shape)), x / (1 - s.p), torch.zeros_like(x))
    def forward(s, tokens, states, step=None):
        """Runs layer by layer, because torch's own dropout between layers drops other elements. step None: evaluation."""
        x, after = s.drop(s.encoder(tokens), 0, step), []
        for layer in range(s.layers):
            one = type(s.rnn)(x.shape[2], s.rnn.hidden_size).to(x.dtype)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                delattr(one, name + "_l0"), setattr(one, name + "_l0", getattr(s.rnn, f"{name}_l{layer}"))
            one._flat_weights = [getattr(one, n) for n in one._flat_weights_names]
            x, state = one(x, states and states[layer])
            after.append(tuple(h.detach() for h in state) if isinstance(state, tuple) else state.detach())
            x = s.drop(x, layer + 1, step)
        return s.decoder(x), after

def windows(stream, columns, length):
    """Tokens (T, N) of each step and their labels (T * N). Past the end of the stream,
    tokens are 0 and labels -1 (no label)."""
    rows = stream[:len(stream) // columns * columns].view(columns, -1).t()
    for at in range(0, len(rows) - 1, length):
        short = max(0, at + length - (len(rows) - 1))
        tokens, labels = rows[at:at + length - short], rows[at + 1:at + 1 + length - short]
        yield F.pad(tokens, (0, 0, 0, short)), F.pad(labels, (0, 0, 0, short), value=-1).flatten()

def run_stream(case, seed, dtype):
    stream = torch.from_numpy(np.random.default_rng(seed).integers(0, case["vocabulary"], case["count"]))
    torch.manual_seed(seed)
    net = Language(case)
    for p in net.parameters(): p.data = p.data.bfloat16().to(dtype)
    out = {"tokens": stream}
    out.update({"init/" + k: p.detach().bfloat16() for k, p in net.named_parameters()})
    optimize, states = optimizer(case, net), None
    for step, (tokens, labels) in enumerate(windows(stream, case["batch"], case["length"])):
        logits, states = net(tokens, states, step)
        loss = F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=-1, reduction="none")
        out[f"step{step + 1}/loss"], out[f"step{step + 1}/logits"] = loss.detach(), logits.detach().flatten(0, 1)
        optimize.zero_grad()
        counted = int((labels >= 0).sum())
        (loss.sum() / counted).backward()
        if case["clip"]: torch.nn.utils.clip_grad_norm_(net.parameters(), case["clip"])
        if step == 0: out.update({"grad/" + k: p.grad * counted for k, p in net.named_parameters()})
        for group in optimize.param_groups: group["lr"] = case["rates"][step] * group["times"]
        optimize.step()
    with torch.no_grad():
        total, states, counted = 0, None, 0
        for tokens, labels in windows(stream, case["columns"], case["length"]):
            logits, states = net(tokens, states)
            total += F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=-1, reduction="sum")
            counted += int((labels >= 0).sum())
        out["eval/perplexity"] = torch.exp(total / counted).view(1)
    out.update({"final/" + k: p.detach().clone() for k, p in net.named_parameters()})
    return out

def describe_stream(name, case, **found):
    words = json.dumps([f"word{i}" for i in range(case["vocabulary"])])
    train = ", ".join(f"{k}: {v if isinstance(v, str) else repr(v)}" for k, v in case["train"].items())
    config = "\n".join([
        f"data: {{dataset: corpus, length: {case['length']}}}",
        f"model: {{name: language, cell: {case['cell']}, layers: {case['layers']}, embedding: {case['embedding']}, hidden: {case['hidden']}, dropout: {case['dropout']}, tied: {'on' if case['tied'] else 'off'}}}",
        f"eval: {{streams: {case['columns']}}}",
        f"train: {{epochs: 1, batch_size: {case['batch']}, optimizer: {case['optimizer']}, {train}, lr: {{knots: [0], values: [0.1]}}}}",
        f"tricks: {{clip_norm: {{most: {case['clip']}}}}}" if case["clip"] else ""]) + "\n"
    return {"dawn9.config": config, "dawn9.classes": words, "dawn9.words": words, "dawn9.length": json.dumps(case["length"]),
            "case": json.dumps(dict(name=name, steps=STEPS, lr=case["rates"], **found))}

def optimizer(case, net):
    """An optimizer of torch.optim. Biases have a multiple of the learning rate, and their decay is divided by it."""
    train = case["train"]
    times, decay = train.get("bias_lr_multiplier", 1.0), train.get("weight_decay", 0)
    groups = [dict(params=[p for n, p in net.named_parameters() if ("bias" in n) == bias], times=times if bias else 1,
                   weight_decay=decay / times if bias else decay) for bias in (False, True)]
    if case["optimizer"] == "sgd":
        return torch.optim.SGD(groups, lr=1, momentum=train["momentum"], nesterov=train.get("momentum_form") == "torch")
    kind = torch.optim.Adam if case["optimizer"] == "adam" else torch.optim.AdamW
    return kind(groups, betas=(train["momentum"], train["beta2"]), eps=train["epsilon"])

def draw_texts(case, seed):
    rng, n, length = np.random.default_rng(seed), case["batch"], case["length"]
    tokens = rng.integers(1, case["vocabulary"], (n, length))
    for i in range(1, n, 2): tokens[i, 1 + int(rng.integers(0, length)):] = 0
    tokens[0, -1] = tokens[0, 0]
    return torch.from_numpy(tokens), torch.from_numpy(rng.integers(0, case["classes"], n))

def run(case, seed, dtype):
    tokens, labels = draw_texts(case, seed)
    torch.manual_seed(seed)
    net = Net(case)
    for p in net.parameters(): p.data = p.data.bfloat16().to(dtype)
    out = {"tokens": tokens, "labels": labels}
    out.update({"init/" + k: p.detach().bfloat16() for k, p in net.named_parameters()})
    optimize = optimizer(case, net)
    for step in range(STEPS):
        logits = net(tokens)
        loss = F.cross_entropy(logits, labels, reduction="none")
        out[f"step{step + 1}/loss"], out[f"step{step + 1}/logits"] = loss.detach(), logits.detach()
        optimize.zero_grad()
        loss.mean().backward()
        if step == 0: out.update({"grad/" + k: p.grad * len(tokens) for k, p in net.named_parameters()})
        for group in optimize.param_groups: group["lr"] = case["rates"][step] * group["times"]
        optimize.step()
    with torch.no_grad(): out["eval/logits"] = out["eval/logits_tta"] = net(tokens)  # texts have one view
    out.update({"final/" + k: p.detach().clone() for k, p in net.named_parameters()})
    return out

def describe(name, case, **found):
    words = ["<pad>", "<start>", "<unknown>", "<unused>"] + [f"word{i}" for i in range(4, case["vocabulary"])]
    train = ", ".join(f"{k}: {v if isinstance(v, str) else repr(v)}" for k, v in case["train"].items())
    config = "\n".join([
        f"data: {{dataset: imdb, length: {case['length']}, vocabulary: {case['vocabulary']}}}",
        f"model: {{name: sentiment, cell: {case['cell']}, layers: {case['layers']}, embedding: {case['embedding']}, hidden: {case['hidden']}}}",
        f"train: {{epochs: 1, batch_size: {case['batch']}, optimizer: {case['optimizer']}, {train}, lr: {{knots: [0], values: [0.1]}}}}"]) + "\n"
    return {"dawn9.config": config, "dawn9.classes": json.dumps([f"class {i}" for i in range(case["classes"])]),
            "dawn9.words": json.dumps(words), "dawn9.length": json.dumps(case["length"]),
            "case": json.dumps(dict(name=name, steps=STEPS, lr=case["rates"], **found))}

if __name__ == "__main__":
    write_cases(CASES, run, describe)
    write_cases(STREAMS, run_stream, describe_stream)
