"""Prints what a file of an offline run of W&B holds: `python -m test.docs.wandbfile FILE`.

The package has no reader of its files for Python, but the messages in them. They are stored in the format of LevelDB's
logs: blocks of 32 KiB with chunks of (checksum, length, kind), after a header of 7 bytes.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

HEADER, CHUNK, BLOCK = 7, 7, 2**15
WHOLE, LAST = 1, 4


def records(content: bytes) -> Iterator[Any]:
    """Yield the messages of a file."""
    assert content.startswith(b":W&B")
    place, parts = HEADER, b""
    while place + CHUNK <= len(content):
        left = BLOCK - place % BLOCK
        if left < CHUNK:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        parts += content[place + CHUNK : place + CHUNK + length]
        place += CHUNK + length
        if kind in (WHOLE, LAST):
            record = Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def entries(items: Any) -> dict[str, Any]:
    """Keys and values of a part of a message."""
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def content_of(path: Path) -> dict[str, Any]:
    """Id, config and rows of a run."""
    found: dict[str, Any] = {"rows": []}
    for record in records(path.read_bytes()):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run = record.run
            found |= {"id": run.run_id, "config": entries(run.config.update)}
        elif kind == "history":
            found["rows"].append(entries(record.history.item))
    return found


if __name__ == "__main__":
    print(json.dumps(content_of(Path(sys.argv[1]))))
