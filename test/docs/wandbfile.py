"""Prints what a file of an offline run of W&B holds: `python -m test.docs.wandbfile FILE`.

The package has no reader of its files for Python, but the messages in them. They are stored in the format of LevelDB's
logs: blocks of 32 KiB with chunks of (checksum, length, kind), after a header of 7 bytes.
"""

import json
import struct
import sys
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

BLOCK, HEADER = 2**15, 7  # the header of the file and of a chunk
WHOLE, LAST = 1, 4


def entries(items: Any) -> dict[str, Any]:
    """Keys and values of a part of a message."""
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


if __name__ == "__main__":
    content, found, place, parts = Path(sys.argv[1]).read_bytes(), dict[str, Any](rows=[]), HEADER, b""
    while place + HEADER <= len(content):
        if BLOCK - place % BLOCK < HEADER:  # filled up
            place += BLOCK - place % BLOCK
        _, length, kind = struct.unpack_from("<IHB", content, place)
        place += HEADER + length
        parts += content[place - length : place]
        if kind in (WHOLE, LAST):
            record, parts = Record.FromString(parts), b""
            if record.HasField("run"):
                found |= {"id": record.run.run_id, "config": entries(record.run.config.update)}
            elif record.HasField("history"):
                found["rows"].append(entries(record.history.item))
    print(json.dumps(found))
