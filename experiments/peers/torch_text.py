#!/usr/bin/python3
"""PyTorch on the CPU as a peer for `dawn9 bench step` on texts: a training step of the GRU of configs/imdb-gru.yaml or
of the language model of configs/wikitext2-lstm.yaml, in milliseconds. Tokens are random, so no data is read. bf16 uses
autocast.

  imdb      30,000 words, embedding 125, GRU of 100 units over 150 tokens, 64 reviews, Adam
  language  33,278 words, embedding 200, two LSTM layers of 200 units over 35 tokens, 20 columns, dropout 0.2, the states
            of the step before, gradients clipped at norm 0.25, SGD without momentum

usage: torch_text.py imdb|language [--precision f32|bf16] [--steps 10] [--warm 2] [--threads 2] [--malloc kept|default]
"""
import argparse, json, statistics, time
import torch, torch.nn.functional as F
from torch import nn
import fair


class Imdb(nn.Module):
    words, length, batch = 30000, 150, 64

    def __init__(self):
        super().__init__()
        self.encoder, self.rnn, self.decoder = nn.Embedding(self.words, 125), nn.GRU(125, 100), nn.Linear(100, 2)
        self.labels = torch.randint(2, (self.batch,))

    def optimizer(self):
        return torch.optim.Adam(self.parameters(), lr=0.001)

    def loss(self, tokens):
        return F.cross_entropy(self.decoder(self.rnn(self.encoder(tokens))[0][-1]).float(), self.labels)


class Language(nn.Module):
    words, length, batch = 33278, 35, 20

    def __init__(self):
        super().__init__()
        self.encoder, self.rnn = nn.Embedding(self.words, 200), nn.LSTM(200, 200, 2, dropout=0.2)
        self.decoder, self.state = nn.Linear(200, self.words), None
        self.labels = torch.randint(self.words, (self.length * self.batch,))

    def optimizer(self):
        return torch.optim.SGD(self.parameters(), lr=20)

    def loss(self, tokens):
        y, state = self.rnn(F.dropout(self.encoder(tokens), 0.2), self.state)
        self.state = tuple(s.detach() for s in state)
        return F.cross_entropy(self.decoder(F.dropout(y, 0.2)).float().flatten(0, 1), self.labels)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("network", choices=("imdb", "language"))
    p.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warm", type=int, default=2)
    p.add_argument("--threads", type=int, default=2)
    fair.add_option(p)
    args = p.parse_args()
    fair.prepare_torch(args.malloc)
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    model = Imdb() if args.network == "imdb" else Language()
    optimizer, seconds = model.optimizer(), []
    for step in range(args.warm + args.steps):
        tokens = torch.randint(model.words, (model.length, model.batch))
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            loss = model.loss(tokens)
        loss.backward()
        if args.network == "language":
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        if step >= args.warm:
            seconds.append(time.perf_counter() - start)
    print(json.dumps({"network": args.network, "precision": args.precision, "threads": args.threads,
                      "malloc": args.malloc, "torch": torch.__version__, "step_ms": 1000 * statistics.median(seconds)}))


main()
