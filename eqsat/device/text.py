"""The text of a binary, which `eqsat disassemble` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from eqsat.device.binary import Binary, Tensor
from eqsat.device.core import words
from eqsat.device.core.instructions import Instruction


def disassemble(binary: Binary, registers: bool = False) -> Iterator[str]:
    """Prints a binary line by line: its memory, then its operations in order.

    registers: also print the instructions that lead to each operation, above it.
    Raises DeviceError.
    """
    stream = binary.instructions()
    yield f"{binary.config.accelerator}, {binary.config.shram} KiB of shared memory"
    fast = "not said" if binary.scratch_fast is None else f"{binary.scratch_fast:,} bytes"
    regions = f"region 0 constants {len(binary.read_only):,} bytes, 1 scratch {binary.scratch:,} bytes"
    yield f"{regions}, 2 fast scratch {fast}"
    for name, tensors in (("input", binary.inputs), ("output", binary.outputs)):
        yield from (f"{name} {k}: {_tensor(t)}" for k, t in enumerate(tensors))
    found = binary.commands()
    counts = Counter(map(words.kind, found))
    yield f"{len(stream):,} instructions: " + ", ".join(f"{n:,} {k}" for k, n in counts.items())
    by_offset, sources = {c.offset: c for c in found}, _sources(binary, [c.offset for c in found])
    source, shown = "", list[Instruction]()
    for i in stream:
        shown.append(i)
        command = by_offset.get(i.offset)
        if command is None:
            continue
        if sources[i.offset] not in ("", source):
            source = sources[i.offset]
            yield f"-- {source}"
        if registers:
            yield from (f"           {x.offset:#08x} {x}" for x in shown)
        shown = []
        yield f"{i.offset:#08x} {words.line(command)}"


def _sources(binary: Binary, offsets: Sequence[int]) -> dict[int, str]:
    """Returns the source of each command, which the last command of the source names; "" behind the last one known."""
    out, source = dict[int, str](), ""
    for offset in reversed(offsets):
        out[offset] = source = binary.operators.get(offset, source)
    return out


def _tensor(t: Tensor) -> str:
    return f"{list(t.shape)} of {t.element} byte(s) at {t.region}:{t.address:#x}"
