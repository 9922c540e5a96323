"""The debug files of `dump_intermediate_artifacts_to` and `dump_debug_info`, for eqsat's TOSA.

They are Vela's input file, whose operators have origins as locations, and debug.json in ExecuTorch's form
(backends/arm/debug/schema.py, 1.5): an event for each TOSA operator and FX node for which it was made.
The file holds the events of all delegates, each with the key `delegate`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import tosa_serializer as ts
from executorch.backends.arm.debug.schema import ATenDebugSchema, TosaDebugSchema
from executorch.backends.arm.ethosu import EthosUCompileSpec
from tosa.TosaGraph import TosaGraph

from eqsat.executorch.session import Session
from eqsat.ground.files import OutputError, ensure_directory, write_atomically
from eqsat.tosa.locations import Origin, read


def _events(
    delegate: str, tosa: bytes, details: Mapping[Origin, Mapping[str, Any]], first: int
) -> Iterator[dict[str, Any]]:
    """Yields the events of a delegate, numbered from `first`; details: `aten_info` and `torch_info` by origin."""
    block, located, numbers = TosaGraph.GetRootAs(tosa, 0).Regions(0).Blocks(0), read(tosa), count(first)
    for op in (block.Operators(i) for i in range(block.OperatorsLength())):
        result = op.Outputs(0).decode()
        told = asdict(TosaDebugSchema(result, str(ts.Op(op.Op())), op.Op()))
        for origin in located.get(result, ()):
            unknown = {"aten_info": asdict(ATenDebugSchema(origin.node, "")), "torch_info": {}}
            event = details.get(origin, unknown)
            yield {"event_id": next(numbers), "delegate": delegate, **event, "tosa_info": told}


def directory_of(spec: EthosUCompileSpec) -> Path | None:
    """Returns the directory that the spec names, which exists then; None if it names none. Raises OutputError."""
    place = spec._get_intermediate_path()
    if not place:
        return None
    ensure_directory(Path(place), "dump_intermediate_artifacts_to", OutputError)
    return Path(place)


def write(
    session: Session, delegate: str, tosa: bytes, details: Mapping[Origin, Mapping[str, Any]], spec: EthosUCompileSpec
) -> None:
    """Writes the files that the spec asks for, if it names a place. Raises OutputError."""
    directory = directory_of(spec)
    if directory is None:
        return
    write_atomically(directory / f"output_{delegate.replace('/', '_')}_{spec.tosa_spec}.tosa", tosa)
    if spec.tosa_debug_mode is EthosUCompileSpec.DebugMode.JSON:
        session.events += list(_events(delegate, tosa, details, len(session.events)))
        write_atomically(directory / "debug.json", json.dumps(session.events, indent=4).encode())
