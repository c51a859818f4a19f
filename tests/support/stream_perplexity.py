"""Computes the perplexity of a language model on corpus/test.txt in PyTorch, and compares it with RUN/result.json.

    stream_perplexity.py RUN COLUMNS LENGTH     cuts the text into columns, reads LENGTH tokens at a time and carries the
                                                states over; status 1 if the relative difference exceeds 1e-5

Also copies the weights into a module like that of pytorch/examples' word_language_model, whose perplexity must be the
same. Then adds 0.25 to the decoder's bias of the first word, which must change the perplexity, and saves the result as
RUN.back.safetensors.
"""
import json
import math
import sys

import torch
from torch import nn

from load_in_pytorch import load, save


class Words(nn.Module):
    """Parameters have the names of pytorch/examples' RNNModel."""

    def __init__(self, kind, words, embedding, hidden, layers, tied):
        super().__init__()
        self.encoder = nn.Embedding(words, embedding)
        name, _, nonlinearity = kind.lower().partition("_")
        self.rnn = getattr(nn, name.upper())(embedding, hidden, layers, **({"nonlinearity": nonlinearity} if nonlinearity else {}))
        self.decoder = nn.Linear(hidden, words)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, tokens, state=None):
        y, state = self.rnn(self.encoder(tokens), state)
        return self.decoder(y), state


def perplexity(net, stream, columns, length):
    rows = stream[:len(stream) // columns * columns].reshape(columns, -1).T
    total, counted, state = 0, 0, None
    for at in range(0, len(rows) - 1, length):
        tokens, labels = rows[at:at + length][:len(rows) - 1 - at], rows[at + 1:at + 1 + length]
        logits, state = net(tokens, state)
        total += nn.functional.cross_entropy(logits.flatten(0, 1).double(), labels.flatten(), reduction="sum").item()
        counted += labels.numel()
    return math.exp(total / counted)


run, columns, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
net, want = load(run + "/model.safetensors"), json.load(open(run + "/result.json"))["perplexity"]
stream = net.encode([" ".join(line.strip() + " <eos>" for line in open("corpus/test.txt"))]).flatten()
cell, tied = net.rnn, net.decoder.weight is net.encoder.weight
words = Words(cell.mode, len(net.words), cell.input_size, cell.hidden_size, cell.num_layers, tied)
words.load_state_dict(net.state_dict())
with torch.no_grad():
    got = [perplexity(module, stream, columns, length) for module in (net, words)]
    words.decoder.bias[0] += 0.25
    net.load_state_dict(words.state_dict())
    save(net, run + ".back.safetensors")
    changed = perplexity(words, stream, columns, length)
print(f"perplexity {got[0]:.6f}, {got[1]:.6f}; {changed:.6f}")
sys.exit(not all(abs(one / want - 1) <= 1e-5 for one in got) or abs(changed / want - 1) <= 1e-4)
