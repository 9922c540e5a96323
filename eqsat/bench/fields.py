"""The fields of a cell's record and of run.json that reports compute with, checked where they are read."""

from __future__ import annotations

import json
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta, ValidationError, convert

from eqsat.ground.files import InputError, is_file_name

#: A record of a cell, or of anything else, that is stored as a line of JSON.
Record = dict[str, Any]

#: Bytes of a model's and a target's name together: pages of a report have names of both.
_NAMES = 200

Number = Annotated[float, Meta(ge=0, lt=2**63)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Verdicts = list[bool | None]


class Place(TypedDict):
    model: str
    target: str
    configuration: str


class Failed(Place):
    error: str


class MemoryFigures(TypedDict):
    peak: Count
    read: NotRequired[Count]
    written: NotRequired[Count]


class BoundFigures(TypedDict):
    roofline: Number
    operators: Number
    mac_cycles: Number


class Measured(Place):
    cycles: Count
    corrected: Count
    calibrated: Count
    by_kind: dict[str, Number]
    seconds: dict[str, Number]
    verified: bool | None
    memory: dict[str, MemoryFigures]
    peak_mib: Number
    vela: str
    weight_bytes: NotRequired[Count]
    encoded_weight_bytes: NotRequired[Count]
    command_bytes: NotRequired[Count]
    tflite_bytes: NotRequired[Count]
    pte_bytes: NotRequired[Count | None]
    e_nodes: NotRequired[Count]
    cpu_operators: NotRequired[Count]
    max_difference: NotRequired[Number | None]
    gap: NotRequired[Number | None]
    proved: NotRequired[bool | None]
    bound: NotRequired[BoundFigures]
    stop: NotRequired[list[str]]
    chosen: NotRequired[list[str]]
    binary_verified: NotRequired[Verdicts]
    binary_proved: NotRequired[Verdicts]
    stock_binary_verified: NotRequired[Verdicts]


class About(TypedDict, total=False):
    versions: dict[str, str]
    commit: str
    processors: Count | None
    memory_mib: Count
    jobs: Count


def check_fields(record: Record) -> None:
    """Raises InputError with the name of a field that is missing or has a value of another type."""
    _check(record, Failed if "error" in record else Measured)
    for name in ("model", "target"):
        if not (is_file_name(record[name]) and record[name].isprintable()):
            raise InputError(f"`{name}` is {record[name][:60]!r}, which is not a plain file name")
    if len((record["model"] + record["target"]).encode()) > _NAMES:
        raise InputError(
            f"`model` and `target` have more than {_NAMES} bytes together, too many for the name of a file"
        )


def check_about(about: Any) -> None:
    """Raises InputError for the content of a run.json with a value of another type."""
    _check(about, About)


def _check(value: Any, kind: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()  # no page can have lone surrogates
        convert(value, kind)
    except (ValidationError, UnicodeEncodeError) as e:
        raise InputError(str(e)) from e
