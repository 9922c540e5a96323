"""The child's side of `process.py`: a script that calls the functions which its parent names.

    python -P _child.py NAME

A message is a head of two sizes, JSON, and the byte strings that the JSON refers to.
A request is {"function": "module:name", "args": [...]}.
The answer is {"value": x} or {"error": text, "place": "file.py:line"}.
Only the standard library is imported before a function asks for more.

Functions run in a thread with a large stack, while the main thread reads requests.
If the parent is gone, the process ends at once, with all that it started in its session.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import struct
import threading
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

#: The head of a message: bytes of the JSON, and the number of byte strings.
_HEAD = struct.Struct("<QI")
#: The size of one byte string.
_SIZE = struct.Struct("<Q")
#: The only key of an object that stands for a byte string; its value is the string's number.
_BYTES = "\0bytes"
#: Bytes of the stack of functions: Vela recurses beyond the usual 8 MB on a graph of thousands of operators.
_STACK = 512 << 20
#: Characters of the text of an error, at most.
_LONGEST_ERROR = 800


def pack(value: Any) -> bytes:
    """Returns a message of JSON values and byte strings. Raises TypeError for anything else."""
    blobs: list[bytes] = []

    def refer(x: object) -> dict[str, int]:
        if not isinstance(x, (bytes, bytearray)):
            raise TypeError(f"{type(x).__name__} cannot be sent to another process")
        blobs.append(bytes(x))
        return {_BYTES: len(blobs) - 1}

    text = json.dumps(value, default=refer).encode()
    sizes = b"".join(_SIZE.pack(len(b)) for b in blobs)
    return b"".join([_HEAD.pack(len(text), len(blobs)), sizes, text, *blobs])


def unpack(read: Callable[[int], bytes]) -> Any:
    """Returns the next message; `read(n)` must return exactly n bytes."""
    length, count = _HEAD.unpack(read(_HEAD.size))
    sizes = [_SIZE.unpack(read(_SIZE.size))[0] for _ in range(count)]
    text = read(length)
    blobs = [read(n) for n in sizes]
    return json.loads(text, object_hook=lambda x: blobs[x[_BYTES]] if x.keys() == {_BYTES} else x)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        module, _, name = request["function"].partition(":")
        function = getattr(importlib.import_module(module), name)
        answer = {"value": function(*request["args"])}
        pack(answer)
        return answer
    except BaseException as e:  # noqa: BLE001 - native bindings raise what they like; the caller gets the text
        place = traceback.extract_tb(e.__traceback__)[-1]
        text = f"{type(e).__name__}: {' '.join(str(e).split())[:_LONGEST_ERROR]}"
        return {"error": text, "place": f"{os.path.basename(place.filename)}:{place.lineno}"}


def _serve(requests: queue.SimpleQueue[dict[str, Any]], sink: BinaryIO) -> None:
    while True:
        sink.write(pack(_answer(requests.get())))
        sink.flush()


def main() -> None:
    """Serves until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # solvers, Vela and ExecuTorch print; the pipe is ours alone
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read(n: int) -> bytes:
        data = source.read(n)
        if len(data) < n:
            os.killpg(0, signal.SIGKILL)
        return data

    threading.stack_size(_STACK)
    threading.Thread(target=_serve, args=(requests, sink), daemon=True).start()
    threading.stack_size(0)  # threads that functions start have the default size
    while True:
        requests.put(unpack(read))


if __name__ == "__main__":
    main()
