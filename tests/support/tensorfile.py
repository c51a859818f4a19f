"""Reads safetensors files without dawn9's code, and damages them.

    metadata, tensors = read(path)      tensors[name]: its shape and an array of its numbers

python3 tensorfile.py IN OUT NAME VALUE
    sets the first number of the f32 tensor NAME, or the metadata entry NAME if it begins with "dawn9.", to VALUE
"""
import json, struct, sys
from array import array

TYPES = {"F64": "d", "F32": "f", "I64": "q", "I32": "i", "U8": "B"}


def split(path):
    """Returns the metadata, {name: header entry} and the data."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    return header.pop("__metadata__", {}), header, bytearray(data[8 + length:])


def read(path):
    metadata, header, body = split(path)
    return metadata, {name: (entry["shape"], array(TYPES[entry["dtype"]], bytes(body[slice(*entry["data_offsets"])])))
                      for name, entry in header.items()}


def damage(source, target, name, value):
    metadata, header, body = split(source)
    if name.startswith("dawn9."):
        metadata[name] = value
    else:
        struct.pack_into("<f", body, header[name]["data_offsets"][0], float(value))
    text = json.dumps({"__metadata__": metadata, **header}).encode()
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


if __name__ == "__main__":
    damage(*sys.argv[1:])
