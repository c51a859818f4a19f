"""Edits a safetensors file of f32, to make invalid files, or files as other programs write them.

python3 tensors.py IN OUT [EDIT...]
  NAME=VALUE        fills the tensor with VALUE
  NAME=FIRST,LAST   keeps the tensor's rows FIRST to LAST - 1
  -NAME, +NAME      leaves the tensor out; adds a tensor of two numbers
  metadata          keeps the metadata, which becomes {"format": "pt"} otherwise
  BF16, F16, F64    converts all tensors to this type
"""
import json, struct, sys
CONVERT = {"BF16": lambda raw: b"".join(raw[i + 2:i + 4] for i in range(0, len(raw), 4)),  # rounds towards zero
           "F16": lambda raw: struct.pack(f"<{len(raw) // 4}e", *struct.unpack(f"<{len(raw) // 4}f", raw)),
           "F64": lambda raw: struct.pack(f"<{len(raw) // 4}d", *struct.unpack(f"<{len(raw) // 4}f", raw))}
source, out, *edits = sys.argv[1:]
data = open(source, "rb").read()
size = struct.unpack_from("<Q", data)[0]
header, raw = json.loads(data[8:8 + size]), data[8 + size:]
metadata = header.pop("__metadata__")
tensors = {name: (entry["shape"], raw[slice(*entry["data_offsets"])]) for name, entry in header.items()}
for edit in edits:
    name, _, value = edit.lstrip("+-").partition("=")
    if edit in ("metadata", *CONVERT):
        continue
    if edit[0] == "-":
        del tensors[name]
        continue
    if edit[0] == "+":
        tensors[name] = ([2], struct.pack("<2f", 1, 2))
        continue
    shape, raw = tensors[name]
    if "," in value:
        first, last = map(int, value.split(","))
        row = len(raw) // shape[0]
        tensors[name] = ([last - first] + shape[1:], raw[first * row:last * row])
    else:
        tensors[name] = (shape, struct.pack("<f", float(value)) * (len(raw) // 4))
if "metadata" not in edits:
    metadata = {"format": "pt"}
header, raw = {"__metadata__": metadata}, b""
kind = next((edit for edit in edits if edit in CONVERT), "F32")
for name, (shape, part) in tensors.items():
    part = CONVERT[kind](part) if kind in CONVERT else part
    header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(raw), len(raw) + len(part)]}
    raw += part
text = json.dumps(header).encode()
open(out, "wb").write(struct.pack("<Q", len(text)) + text + raw)
