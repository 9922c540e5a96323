"""Operators that act along some axes of their operand and are pointwise in the others: along which, and how they are
written once a movement has placed these axes elsewhere.

An `Along` gives the axes of an operand that an operator acts along. An `Across` gives the operator's attributes on the
moved operand, or None where it cannot be written there. `eqsat.tensor.ops.OPS` refers to both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eqsat.tensor.types import Shape

Attributes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a movement puts axes of its operand: `to` maps each to an axis of `out_shape`, in which it is outermost;
    `inner` gives how many elements lie inside of it there."""

    out_shape: Shape
    to: Mapping[int, int]
    inner: Mapping[int, int]

    @property
    def alone(self) -> bool:
        """True if every axis has its new axis to itself."""
        return all(n == 1 for n in self.inner.values())


Along = Callable[[Attributes, Shape], tuple[int, ...]]
Across = Callable[[Attributes, Placement], Mapping[str, Any] | None]


def along_axis(a: Attributes, shape: Shape) -> tuple[int, ...]:
    return (a["axis"],)


def axis_across(a: Attributes, p: Placement) -> dict[str, Any] | None:
    return {"axis": p.to[a["axis"]]} if p.alone else None


def along_channels(a: Attributes, shape: Shape) -> tuple[int, ...]:
    return (len(shape) - 1,)


def channels_across(a: Attributes, p: Placement) -> dict[str, Any] | None:
    (channels,) = p.to.values()
    return {} if p.alone and channels == len(p.out_shape) - 1 else None


def along_slice(a: Attributes, shape: Shape) -> tuple[int, ...]:
    return tuple(d for d, n in enumerate(shape) if a["size"][d] != n)


def slice_across(a: Attributes, p: Placement) -> dict[str, Any] | None:
    start, size = [0] * len(p.out_shape), list(p.out_shape)
    for d, to in p.to.items():
        start[to], size[to] = a["start"][d] * p.inner[d], a["size"][d] * p.inner[d]
    return {"start": tuple(start), "size": tuple(size)}


def along_pad(a: Attributes, shape: Shape) -> tuple[int, ...]:
    return tuple(d for d in range(len(shape)) if any(a["pads"][2 * d : 2 * d + 2]))


def pad_across(a: Attributes, p: Placement) -> dict[str, Any] | None:
    pads = [0] * (2 * len(p.out_shape))
    for d, to in p.to.items():
        pads[2 * to : 2 * to + 2] = [n * p.inner[d] for n in a["pads"][2 * d : 2 * d + 2]]
    return {"pads": tuple(pads)}


def along_tile(a: Attributes, shape: Shape) -> tuple[int, ...]:
    return tuple(d for d, n in enumerate(a["multiples"]) if n != 1)


def tile_across(a: Attributes, p: Placement) -> dict[str, Any] | None:
    multiples = [1] * len(p.out_shape)
    for d, to in p.to.items():
        multiples[to] = a["multiples"][d]
    return {"multiples": tuple(multiples)}
