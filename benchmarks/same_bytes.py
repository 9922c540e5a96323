"""The bytes of one .pte from many compilations: under load, with other seeds of hashes, from stores in any state.

    python -m benchmarks.same_bytes --models attention --out benchmarks/results/same_bytes

Each compilation is `eqsat compile` of one saved quantized program in a process of its own, with its own PYTHONHASHSEED.
A machine is a store: the first one starts empty and keeps what it finds, the second takes over the first one's export,
and a third has nothing each time. Every other compilation has processes beside it that keep all processors busy.
`records.jsonl` has a line per compilation, with the SHA-256 of its .pte; `table.md` is made from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.about import ROOT, arguments, as_text, listed, markdown_table, write_about, write_lines, write_text
from benchmarks.whole_job import save_program

_PACKAGES = ("torch", "executorch", "ethos-u-vela", "tosa-tools", "egglog")
#: Stores that compilations use by turns.
EMPTY, KEPT, TAKEN_OVER = "empty", "kept", "taken over"
_STORES = (EMPTY, KEPT, TAKEN_OVER, KEPT)
_FIGURES = ("compilations", "under load", "empty store", "kept", "taken over", "different .pte", "cycles")
#: Busy processes per processor, under load.
_BUSY = 2


def measure(model: str, target: str, times: int) -> list[dict[str, Any]]:
    """Compiles a model `times` times and returns a record of each."""
    records = []
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        save_program(model, target, place / "program.pt2")
        for k in range(times):
            store, busy = _STORES[k % len(_STORES)], k % 2 == 1
            cache = place / store
            if store != KEPT:
                shutil.rmtree(cache, ignore_errors=True)
            if store == TAKEN_OVER:
                _eqsat("cache", "export", place / "export", cache=place / KEPT)
                _eqsat("cache", "import", place / "export", cache=cache)
            output = place / "out.pte"
            with _load(_BUSY * (os.cpu_count() or 1) if busy else 0):
                asked = ("compile", place / "program.pt2", "-t", target, "-o", output, "--json")
                printed = _eqsat(*asked, cache=cache, PYTHONHASHSEED=str(k + 1))
            records.append(
                {
                    "model": model,
                    "target": target,
                    "seed": k + 1,
                    "store": store,
                    "busy": busy,
                    "sha256": hashlib.sha256(output.read_bytes()).hexdigest(),
                    "cycles": json.loads(printed)["cycles"]["eqsat"],
                }
            )
            output.unlink()
    return records


def _eqsat(*given: str | Path, cache: Path, **environment: str) -> str:
    """Runs a command of eqsat with a store and returns what it prints."""
    command = [sys.executable, "-m", "eqsat.cli", *map(str, given)]
    environment = {**os.environ, "EQSAT_CACHE": str(cache), **environment}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT).stdout


@contextmanager
def _load(processes: int) -> Iterator[None]:
    """Keeps some processes busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def table(records: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """Returns the number of compilations and of different .pte of each model as Markdown."""
    lines = [
        "# One .pte, byte for byte",
        "",
        "Compilations with other seeds of hashes, half of them under load, "
        "with stores that are empty, kept, or taken over from another machine. "
        "Made by `python -m benchmarks.same_bytes`.",
        f"{as_text(about)}; {about['machine']}.",
        "",
    ]
    rows = []
    for model, target in dict.fromkeys((r["model"], r["target"]) for r in records):
        of = [r for r in records if (r["model"], r["target"]) == (model, target)]
        stores = [sum(r["store"] == s for r in of) for s in (EMPTY, KEPT, TAKEN_OVER)]
        cycles = ", ".join(f"{c:,}" for c in sorted({r["cycles"] for r in of}))
        counts = [len(of), sum(r["busy"] for r in of), *stores, len({r["sha256"] for r in of})]
        rows.append([model, target, *counts, cycles])
    return "\n".join([*lines, *markdown_table(("model", "target", *_FIGURES), rows, names=2)])


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__, "same_bytes")
    parser.add_argument("--models", default="attention")
    parser.add_argument("--targets", default="ethos-u55-128,ethos-u85-256")
    parser.add_argument("--times", type=int, default=20)
    args = parser.parse_args(argv)
    about = write_about(args.out, _PACKAGES, machine=f"{os.cpu_count()} cores")
    records = list[dict[str, Any]]()
    for model in listed(args.models):
        for target in listed(args.targets):
            records += measure(model, target, args.times)
            write_lines(args.out / "records.jsonl", records)
            write_text(args.out / "table.md", table(records, about))
    print(table(records, about))


if __name__ == "__main__":
    main()
