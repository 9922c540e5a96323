"""Worker processes for Vela and the TOSA reference model.

Native code can crash, leak or hang there without hurting the caller: every failure is a `WorkerError`.
A worker has a large stack (deep graphs overflow Vela's recursion on 8 MB), is recycled after many compiles
(Vela leaks about 9 kB each) and is killed when a request exceeds its time.
Messages are a JSON header and binary blobs over pipes; nothing is pickled.

Run as `python -m eqsat.workers.worker` it is the worker's side.
"""

from __future__ import annotations

import io
import json
import os
import queue
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

_STACK = 512 << 20
_RECYCLE = 4000
#: Module that a worker imports -> the package that has it.
_PACKAGES = {"ethosu": "ethos-u-vela", "tosa_reference_model": "tosa-tools", "tosa": "tosa-tools"}


class WorkerError(RuntimeError):
    """A request that the worker refused (`refused` true: Vela or the model said no) or did not survive (`killed` true: somebody else
    ended it, such as a system without memory)."""

    def __init__(self, message: str, refused: bool = False, killed: bool = False):
        super().__init__(message)
        self.refused, self.killed = refused, killed


def _message(header: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    text = json.dumps({**header, "blobs": [len(b) for b in blobs]}).encode()
    return struct.pack("<I", len(text)) + text + b"".join(blobs)


def _receive(read: Callable[[int], bytes]) -> tuple[dict[str, Any], list[bytes]]:
    header = json.loads(read(struct.unpack("<I", read(4))[0]))
    return header, [read(n) for n in header.pop("blobs")]


class Worker:
    """One worker process, started on first use and again after a failure. Not for use by two threads at once."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._requests = 0

    def _start(self) -> subprocess.Popen:
        if self._process is None or self._process.poll() is not None or self._requests >= _RECYCLE:
            self.close()
            self._requests = 0
            self._process = subprocess.Popen(
                [sys.executable, "-m", "eqsat.workers.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=_environment(),
            )
            os.set_blocking(self._process.stdin.fileno(), False)
        return self._process

    def request(
        self, header: dict[str, Any], blobs: Sequence[bytes] = (), timeout: float = 120.0
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Sends one request and waits for the answer. Raises WorkerError on refusal, crash or timeout (seconds)."""
        process = self._start()
        self._requests += 1
        deadline = time.monotonic() + timeout
        try:
            self._write(process, _message(header, blobs), deadline)
            answer, data = _receive(lambda n: self._read(process, n, deadline))
        except TimeoutError:
            self.close()
            raise WorkerError(f"{header['do']} took over {timeout:.0f} s and was stopped") from None
        except (OSError, EOFError, struct.error):
            code = process.wait()
            self.close()
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise WorkerError(f"the worker died in {header['do']} ({how})", killed=code == -signal.SIGKILL) from None
        except BaseException:
            self.close()  # an interrupted exchange leaves the pipes out of step
            raise
        if "error" in answer:
            raise WorkerError(answer["error"], refused=True)
        return answer, data

    @staticmethod
    def _write(process: subprocess.Popen, data: bytes, deadline: float) -> None:
        fd, rest = process.stdin.fileno(), memoryview(data)
        while rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [fd], [], left)[1]:
                raise TimeoutError
            rest = rest[os.write(fd, rest) :]

    @staticmethod
    def _read(process: subprocess.Popen, n: int, deadline: float) -> bytes:
        out = bytearray()
        fd = process.stdout.fileno()
        while len(out) < n:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise TimeoutError
            piece = os.read(fd, min(n - len(out), 1 << 20))
            if not piece:
                raise EOFError
            out += piece
        return bytes(out)

    def kill(self) -> None:
        """Ends the process, so that a request under way in another thread fails now."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            self._process = None


def _environment() -> dict[str, str]:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # with an empty search path the reference model finds no gdb, which it would start for a backtrace at every refusal (over 1 s each)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])),
        "OMP_NUM_THREADS": "1",
        "PATH": os.devnull,
    }


class Pool:
    """A fixed number of workers behind threads; use as a context manager. A request whose worker was killed is made once more."""

    def __init__(self, size: int | None = None):
        self.size = size or max(1, min(os.cpu_count() or 1, 4))
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._all = [Worker() for _ in range(self.size)]
        for w in self._all:
            self._idle.put(w)
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="eqsat-worker")
        self._closed = False

    def request(self, *args, **kwargs) -> tuple[dict[str, Any], list[bytes]]:
        worker = self._idle.get()
        try:
            return self._ask(worker, args, kwargs)
        except WorkerError as e:
            if not e.killed:
                raise
            return self._ask(worker, args, kwargs)
        finally:
            self._idle.put(worker)

    def _ask(self, worker: Worker, args: tuple, kwargs: dict) -> tuple[dict[str, Any], list[bytes]]:
        if self._closed:
            raise WorkerError("the workers are gone")
        return worker.request(*args, **kwargs)

    def map(self, fn: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """`fn` over `items`, at most `size` at a time; exceptions propagate."""
        return list(self._threads.map(fn, items))

    def close(self) -> None:
        """Ends everything at once, requests under way included."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for w in self._all:
            w.kill()
        self._threads.shutdown()
        for w in self._all:
            w.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc) -> None:
        self.close()


# ---- the worker's side --------------------------------------------------------------------------


def _vela_config(flags: tuple[str, ...]) -> tuple[str, str, str]:
    """(accelerator, system config, options) as Vela's own command line makes them from `flags`."""
    import tempfile

    from ethosu.vela import vela

    seen: list[tuple[str, str, str]] = []
    original = vela.process_regor
    vela.process_regor = lambda arch, name, accelerator, config, options, *rest, **kw: seen.append(
        (accelerator, config, options)
    )
    try:
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "empty.tosa")
            with open(path, "wb") as f:
                f.write(b"\0\0\0\0TOSA")
            vela.main([*flags, f"--output-dir={d}", path])
    except SystemExit as e:
        raise RuntimeError(f"Vela refuses the flags {' '.join(flags)} (exit code {e.code})") from e
    finally:
        vela.process_regor = original
    accelerator, config, options = seen[0]
    if "enable_db=true" not in options:
        options = options.replace("[compiler]\n", "[compiler]\nenable_db=true\n", 1)
    return accelerator, config, options


def _compile(configs: dict, header: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
    from ethosu import regor

    flags = tuple(header["flags"])
    if flags not in configs:
        configs[flags] = _vela_config(flags)
    accelerator, config, options = configs[flags]
    if header["format"] == "TFLITE":
        options = options.replace("output_format=Raw", "output_format=TFLite", 1)
    model = regor.compile(accelerator, blobs[0], header["format"], config, options=options)
    report = model.perf_report
    rows = []
    tables = model.opt_database.tables
    if "perf" in tables:
        t = tables["perf"]
        keep = [i for i, h in enumerate(t.header) if h in ("operator", "name", "op_cycles", "npu_cycles", "mac_count")]
        rows = [{t.header[i]: row[i] for i in keep} for row in t.data]
        if header["format"] == "TOSA":
            for row, source in zip(rows, _sources(tables, blobs[0])):
                row["source"] = source
    memories = {
        name: {
            "peak": int(m.peakUsage),
            "read": sum(a.bytesRead for a in m.accesses.values()),
            "written": sum(a.bytesWritten for a in m.accesses.values()),
        }
        for name, m in report.memories.items()
    }
    return {
        "cycles": int(report.totalCycles),
        "npu_cycles": int(report.npuCycles),
        "rows": rows,
        "memory": memories,
        "binary": [len(model.command_stream), len(model.read_only.data)]
        if header["format"] == "TOSA"
        else [len(model.model)],
        "cpu_operators": int(report.cpuOps),
    }, []


def _sources(tables: dict, buffer: bytes) -> list[str]:
    """Per row of Vela's table the result of the TOSA operator that it is made from ("": of none)."""
    from tosa.TosaGraph import TosaGraph

    block = TosaGraph.GetRootAs(buffer, 0).Regions(0).Blocks(0)
    operator = {
        row[0]: int(row[-1]) for row in tables["source"].data
    }  # the last column counts the operators of the flatbuffer
    column = list(tables["perf"].header).index("source_id")
    numbers = [operator.get(row[column], -1) for row in tables["perf"].data]
    return [block.Operators(k).Outputs(0).decode() if 0 <= k < block.OperatorsLength() else "" for k in numbers]


def _reference(header: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
    """Per sample the outputs, or why the model refuses it."""
    import tosa_reference_model as model

    with np.load(io.BytesIO(blobs[1]), allow_pickle=False) as data:
        samples = [[data[f"x{k}_{i}"] for i in range(n)] for k, n in enumerate(header["inputs"])]
    arrays, counts, refusals = {}, [], []
    for k, inputs in enumerate(samples):
        outputs, status = model.run(blobs[0], inputs, verbosity="NONE", initialize_variable_tensor_from_numpy=1)
        valid = status == model.GraphStatus.TOSA_VALID
        refusals.append("" if valid else f"RuntimeError: the reference model answers {status}")
        counts.append(len(outputs) if valid else 0)
        arrays |= {f"x{k}_{i}": x for i, x in enumerate(outputs) if valid}
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return {"outputs": counts, "refusals": refusals}, [packed.getvalue()]


def _serve() -> None:
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # Vela and the model print; the pipe is ours alone
    configs: dict = {}

    def read(n: int) -> bytes:
        data = source.read(n)
        if len(data) < n:
            os._exit(0)  # the caller is gone
        return data

    while True:
        header, blobs = _receive(read)
        try:
            answer = _compile(configs, header, blobs) if header["do"] == "compile" else _reference(header, blobs)
        except ImportError as e:
            package = _PACKAGES.get((e.name or "").partition(".")[0], "")
            answer = {"error": f"{e}" + (f": pip install {package}" if package else "")}, []
        except BaseException as e:  # noqa: BLE001 - native bindings raise what they like; the caller gets the text
            answer = {"error": f"{type(e).__name__}: {' '.join(str(e).split())[:800]}"}, []
        sink.write(_message(*answer))
        sink.flush()


def _main() -> None:
    threading.stack_size(_STACK)
    thread = threading.Thread(target=_serve)
    thread.start()
    thread.join()


if __name__ == "__main__":
    _main()
