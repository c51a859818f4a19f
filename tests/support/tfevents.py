"""Reads TensorBoard's event files: framing, CRC-32C and the Event message, written from the public schema
(tensorboard/compat/proto: event.proto, summary.proto, histogram.proto). Shares no code with the writer.

    for event in events("FOLDER/events.out.tfevents..."):
        event["step"], event["wall_time"], event["values"]["loss/train"]
"""
import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# The published check value of this CRC, and an example of RFC 3720, B.4.
assert crc32c(b"123456789") == 0xE3069283 and crc32c(bytes(32)) == 0x8A9136AA


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        rest = file.read()
    while rest:
        length, crc = struct.unpack_from("<QI", rest)
        assert masked(rest[:8]) == crc, f"{path}: the checksum of a length"
        assert len(rest) >= length + 16, f"{path}: cut short"
        data, (crc,) = rest[12:12 + length], struct.unpack_from("<I", rest, 12 + length)
        assert masked(data) == crc, f"{path}: the checksum of a record"
        yield data
        rest = rest[length + 16:]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of each field. The value of a varint is an integer, that of another field its bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            if wire == 2:
                size, at = varint(data, at)
            else:
                size = {1: 8, 5: 4}[wire]
            assert at + size <= len(data), "a field reaches past its message"
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def doubles(raw):
    return list(struct.unpack(f"<{len(raw) // 8}d", raw))


def histogram(data):
    names = {1: "min", 2: "max", 3: "num", 4: "sum", 5: "sum_squares", 6: "bucket_limit", 7: "bucket"}
    return {names[n]: doubles(raw) if n > 5 else doubles(raw)[0] for n, raw in fields(data)}


def image(data):
    return {{1: "height", 2: "width", 3: "colorspace", 4: "png"}[n]: value for n, value in fields(data)}


def value(data):
    """(tag, float, image or histogram) of a Summary.Value."""
    found = dict(fields(data))
    assert len(found) == 2, sorted(found)
    kind = next(n for n in found if n != 1)
    read = {2: lambda raw: struct.unpack("<f", raw)[0], 4: image, 5: histogram}[kind]
    return found[1].decode(), read(found[kind])


def events(path):
    for data in records(path):
        event = {"step": 0, "values": {}}
        for number, part in fields(data):
            if number == 1:
                (event["wall_time"],) = struct.unpack("<d", part)
            elif number == 2:
                event["step"] = part
            elif number == 3:
                event["file_version"] = part.decode()
            elif number == 5:
                for one, raw in fields(part):
                    assert one == 1
                    tag, read = value(raw)
                    assert tag not in event["values"], tag
                    event["values"][tag] = read
            elif number == 7:
                event["session"] = dict(fields(part))[1]
            else:
                raise AssertionError(f"field {number} of an Event")
        yield event
