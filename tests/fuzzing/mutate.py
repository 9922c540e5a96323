"""Ways to damage a file: blindly, by its flatbuffer structure, and by its meaning.

Every mutator takes dice, the file and the corpus, and gives new bytes; `mutated` applies one to three of them.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache

from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.schema import DTYPE_CODE, OP_CODE, UNION_CODE, fields
from eqsat.tensor.types import Type
from eqsat.tosa import dumps
from tests.fuzzing.corpus import graphs

Mutator = Callable[[random.Random, bytes, Sequence[bytes]], bytes]

_EXTREMES = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    0x7F,
    0x80,
    0xFF,
    0x100,
    0x7FFF,
    0x8000,
    0xFFFF,
    1 << 16,
    1 << 24,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFC,
    0xFFFFFFFF,
)
_NUMBERS = (0, 1, -1, 2, 3, 127, -128, 1 << 15, 1 << 30, (1 << 31) - 1, -(1 << 31))


def bits(r: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 8))):
        out[r.randrange(len(out))] ^= 1 << r.randrange(8)
    return bytes(out)


def bytes_set(r: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 8))):
        out[r.randrange(len(out))] = r.choice((0, 1, 0x7F, 0x80, 0xFF, r.randrange(256)))
    return bytes(out)


def words(r: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A 32-bit word becomes an extreme, the file's length or so, or a little more or less."""
    if len(data) < 4:
        return data
    at = 4 * r.randrange(len(data) // 4)
    old = struct.unpack_from("<I", data, at)[0]
    new = (
        r.choice(
            (r.choice(_EXTREMES), len(data) + r.randrange(-8, 8), old + r.choice((-4, -2, -1, 1, 2, 4)), len(data) - at)
        )
        & 0xFFFFFFFF
    )
    return data[:at] + struct.pack("<I", new) + data[at + 4 :]


def truncate(r: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: r.randrange(len(data) + 1)]


def splice(r: random.Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    """The head of one file and the tail of another, or a piece of one inside the other."""
    other = r.choice(corpus)
    if r.randrange(2):
        return data[: 4 * r.randrange(len(data) // 4 + 1)] + other[4 * r.randrange(len(other) // 4 + 1) :]
    start = 4 * r.randrange(len(other) // 4 + 1)
    piece = other[start : start + 4 * r.randrange(1, 64)]
    at = 4 * r.randrange(len(data) // 4 + 1)
    return data[:at] + piece + data[at + (len(piece) if r.randrange(2) else 0) :]


def cut(r: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A piece in the middle is missing, or there twice."""
    at, n = 4 * r.randrange(len(data) // 4 + 1), 4 * r.randrange(1, 32)
    return data[:at] + data[at + n :] if r.randrange(2) else data[: at + n] + data[at:]


# ---- by structure -------------------------------------------------------------------------------


@lru_cache(64)
def sites(data: bytes) -> list[tuple[int, int]]:
    """(position, bytes) of what a flatbuffer is held together by: offsets to vtables, vtable entries, fields, lengths
    of vectors and strings.

    Found by following every field as if it were an offset, so some are plain numbers.
    """
    found: dict[int, int] = {0: 4}
    seen: set[int] = set()
    todo = [_u32(data, 0)]
    while todo and len(found) < 5000:
        at = todo.pop()
        if at in seen or at + 4 > len(data):
            continue
        seen.add(at)
        found[at] = 4  # a table's offset to its vtable, or a vector's length
        length, vtable = _u32(data, at), at - _i32(data, at)
        size = _u16(data, vtable) if 0 <= vtable <= len(data) - 4 else 0
        if 4 <= size <= 64 and not size % 2 and vtable + size <= len(data):
            found.update({vtable: 2, vtable + 2: 2})
            for k in range(4, size, 2):
                found[vtable + k] = 2
                if field := _u16(data, vtable + k):
                    found[at + field] = 4
                    todo.append(at + field + _u32(data, at + field))
        elif length * 4 <= len(data) - at:
            for k in range(1, length + 1):
                found[at + 4 * k] = 4
                todo.append(at + 4 * k + _u32(data, at + 4 * k))
    return [(p, n) for p, n in found.items() if p + n <= len(data)]


def _u32(data: bytes, at: int) -> int:
    return struct.unpack_from("<I", data, at)[0] if at + 4 <= len(data) else 1 << 31


def _i32(data: bytes, at: int) -> int:
    return struct.unpack_from("<i", data, at)[0]


def _u16(data: bytes, at: int) -> int:
    return struct.unpack_from("<H", data, at)[0] if at + 2 <= len(data) else 0


def structure(r: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """One to three offsets, lengths or vtable entries become extremes, or each other: tables shared, of the wrong kind,
    in circles."""
    places, out = sites(data) if len(data) >= 8 else [], bytearray(data)
    for _ in range(r.choice((1, 1, 2, 3)) if places else 0):
        at, n = r.choice(places)
        other, m = r.choice(places)
        old = int.from_bytes(out[at : at + n], "little")
        new = r.choice(
            (
                r.choice(_EXTREMES),
                int.from_bytes(out[other : other + m], "little"),
                other - at,
                old + r.choice((-4, -1, 1, 4)),
                len(data) - at,
            )
        )
        out[at : at + n] = (new & ((1 << 8 * n) - 1)).to_bytes(n, "little")
    return bytes(out)


# ---- by meaning ---------------------------------------------------------------------------------


def _value(r: random.Random, value: object) -> object:
    """Another value of the same kind, as a rule a wrong one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return r.choice((*_NUMBERS, value + 1, value - 1))
    if isinstance(value, bytes):
        return r.choice((b"", value[:-1], value + b"\xff", bytes(len(value)), b"\x7f" * len(value)))
    if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
        return r.choice(
            (
                value[:-1],
                (*value, 1),
                tuple(reversed(value)),
                tuple(r.choice(_NUMBERS) if r.random() < 0.4 else v for v in value),
                (),
            )
        )
    return value


def _shape(r: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    return r.choice(
        (
            shape[:-1],
            (*shape, 1),
            (*shape, 0),
            tuple(reversed(shape)),
            (),
            (1,) * 40,
            ((1 << 31) - 1,) * max(1, len(shape)),
            tuple(r.choice((0, -1, 1, d + 1, 1 << 30)) if r.random() < 0.4 else d for d in shape),
        )
    )


def _replace(node: Node, **new: object) -> Node:
    parts = {"op": node.op, "inputs": node.inputs, "attrs": node.attrs, "shape": node.shape, "dtype": node.dtype}
    return Node(**{**parts, **new})


def _edit(r: random.Random, g: TensorGraph) -> None:
    """One wrong thing in a graph."""
    n = r.randrange(len(g.nodes))
    node = g.nodes[n]
    kind = r.randrange(8)
    if kind == 0:
        g.nodes[n] = _replace(node, shape=_shape(r, node.shape))
    elif kind == 1:
        g.nodes[n] = _replace(node, dtype=r.choice(sorted(DTYPE_CODE)))
    elif kind in (2, 3) and node.attrs:
        k = r.randrange(len(node.attrs))
        name, value = node.attrs[k]
        if name == "results":
            value = tuple(Type(_shape(r, t.shape), r.choice(sorted(DTYPE_CODE))) for t in value) + r.choice(((), value))
        g.nodes[n] = _replace(node, attrs=(*node.attrs[:k], (name, _value(r, value)), *node.attrs[k + 1 :]))
    elif kind == 4 and node.inputs:  # readers of what comes later, of themselves, of another type
        inputs = list(node.inputs)
        inputs[r.randrange(len(inputs))] = r.randrange(len(g.nodes))
        g.nodes[n] = _replace(node, inputs=tuple(inputs))
    elif kind == 5 and node.inputs:
        g.nodes[n] = _replace(
            node, inputs=r.choice((node.inputs[:-1], (*node.inputs, node.inputs[0]), node.inputs * 20))
        )
    elif kind == 6 and OPS[node.op].kind not in ("leaf", "opaque"):
        alike = [
            o
            for o in OPS
            if fields_of(o) <= dict(node.attrs).keys() | {"dtype"}
            and OPS[o].kind not in ("leaf", "opaque")
            and OPS[o].tosa
        ]
        g.nodes[n] = _replace(node, op=r.choice(alike or [node.op]))
    elif kind == 7:
        g.outputs[r.randrange(len(g.outputs))] = r.randrange(len(g.nodes))


def fields_of(op: str) -> set[str]:
    union = next((u for u in UNION_CODE if u.lower() == op.replace("_", "") + "attribute"), None)
    return (set(fields(union)) if union else set()) | {a for a, _ in OPS[op].folded}


_GRAPHS = graphs()


def meaning(r: random.Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    """A graph of the corpus with wrong shapes, dtypes, attributes, operands or outputs, written anew; what cannot be
    written is damaged blindly."""
    for _ in range(4):
        base = r.choice(_GRAPHS)
        g = TensorGraph(list(base.nodes), list(base.inputs), list(base.outputs), list(base.output_names))
        for _ in range(r.choice((1, 1, 2, 3))):
            _edit(r, g)
        try:
            return dumps(g)
        except Exception:  # noqa: BLE001, S112 - not every wrong graph can be written
            continue
    return words(r, data, corpus)


def operator(r: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A small number in the file, such as an operator's, dtype's or attribute table's code, becomes another of its
    kind."""
    codes = sorted({*OP_CODE.values(), *DTYPE_CODE.values(), *UNION_CODE.values(), 255})
    out, places = bytearray(data), [i for i in range(len(data)) if 0 < data[i] < 80]
    for _ in range(r.choice((1, 2)) if places else 0):
        out[r.choice(places)] = r.choice(codes)
    return bytes(out)


MUTATORS: dict[str, Mutator] = {
    m.__name__: m for m in (bits, bytes_set, words, truncate, splice, cut, structure, operator, meaning)
}
#: Those that need no TOSA.
BLIND = ("bits", "bytes_set", "words", "truncate", "splice", "cut")
_WEIGHTS = {"structure": 4, "meaning": 4, "operator": 2}


def mutated(r: random.Random, corpus: Sequence[bytes], names: Sequence[str] = tuple(MUTATORS)) -> tuple[bytes, str]:
    """(a damaged file, the mutators that made it), one to three of those named."""
    chosen = r.choices(names, [_WEIGHTS.get(m, 1) for m in names], k=r.choice((1, 1, 1, 2, 3)))
    chosen.sort(key=lambda n: n != "meaning")  # which starts from a graph of its own
    data = r.choice(corpus)
    for name in chosen:
        data = MUTATORS[name](r, data, corpus) if data or name == "meaning" else data
    return data, "+".join(chosen)
