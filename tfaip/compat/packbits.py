"""PackBits, the run-length encoding of TIFF and PSD files (Apple, Technical Note TN1023).

A header byte n of 0 to 127 is followed by n + 1 bytes as they are; one of 129 to 255 by one byte that is repeated
257 - n times; 128 means nothing.
"""

from __future__ import annotations

from itertools import groupby

MAX_RUN = 128
_NOTHING = 128


def encode(data: bytes) -> bytes:
    """Return data in fewer bytes if they have runs of equal ones."""
    packed = bytearray()
    plain = bytearray()
    for byte, equal in groupby(data):
        length = sum(1 for _ in equal)
        if length < 3:  # a run of two costs as much as two plain bytes, and would end those before it
            plain += bytes([byte]) * length
            continue
        _add_plain(packed, plain)
        plain.clear()
        for begin in range(0, length, MAX_RUN):
            count = min(MAX_RUN, length - begin)
            if count == 1:
                plain.append(byte)
            else:
                packed += bytes([257 - count, byte])
    _add_plain(packed, plain)
    return bytes(packed)


def decode(data: bytes) -> bytes:
    """Return what was encoded.

    Raises:
        ValueError: if the data end within a run.
    """
    unpacked = bytearray()
    position = 0
    while position < len(data):
        header = data[position]
        position += 1
        if header == _NOTHING:
            continue
        count = header + 1 if header < _NOTHING else 1
        run = data[position : position + count]
        if len(run) < count:
            raise ValueError(f"PackBits data end within a run: expected {count} bytes after byte {position}")
        unpacked += run if header < _NOTHING else run * (257 - header)
        position += count
    return bytes(unpacked)


def _add_plain(packed: bytearray, plain: bytearray) -> None:
    for begin in range(0, len(plain), MAX_RUN):
        part = plain[begin : begin + MAX_RUN]
        packed.append(len(part) - 1)
        packed += part
