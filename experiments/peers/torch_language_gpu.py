#!/usr/bin/env python3
"""PyTorch on a GPU beside `dawn9 bench step --config configs/wikitext2-lstm.yaml`: microseconds of a training step of the
word language model (two LSTM layers of 200 units, 35 words of 20 columns, a vocabulary of 33,278), eagerly in f32, and of
its LSTM alone.

Prints the versions, then one line per measurement: the mean of 20 calls between CUDA events, after two calls."""
import torch
import torch.nn as nn

WORDS, UNITS, BATCH, STEPS = 33278, 200, 20, 35


def microseconds(call, calls=20):
    call(), call()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / calls * 1000


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(WORDS, UNITS), nn.Linear(UNITS, WORDS)
        self.rnn, self.dropout = nn.LSTM(UNITS, UNITS, 2, dropout=0.2), nn.Dropout(0.2)

    def forward(self, words, state):
        y, state = self.rnn(self.dropout(self.encoder(words)), state)
        return self.decoder(self.dropout(y)).view(-1, WORDS), state


def main():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(torch.__version__, torch.cuda.get_device_name(), torch.backends.cudnn.version())
    net = Language().cuda()
    words, labels = torch.randint(WORDS, (STEPS, BATCH)).cuda(), torch.randint(WORDS, (STEPS * BATCH,)).cuda()
    state = (torch.zeros(2, BATCH, UNITS).cuda(), torch.zeros(2, BATCH, UNITS).cuda())
    x = torch.randn(STEPS, BATCH, UNITS).cuda().requires_grad_()

    def step():
        net.zero_grad()
        logits, _ = net(words, state)
        nn.functional.cross_entropy(logits, labels).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.25)
        for parameter in net.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.01)

    print(f"step f32 {microseconds(step):.1f} us")
    print(f"lstm 2 layers forward {microseconds(lambda: net.rnn(x, state)):.1f} us")
    print(f"lstm 2 layers forward and backward {microseconds(lambda: net.rnn(x, state)[0].sum().backward()):.1f} us")


if __name__ == "__main__":
    main()
