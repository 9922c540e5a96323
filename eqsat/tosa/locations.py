"""Origins of operators: the PyTorch operators that an operator implements, kept in TOSA's field for locations.

>>> from eqsat.tosa.locations import Origin, parse, text
>>> text([Origin("conv2d_1", "features.0")])
'[{"node": "conv2d_1", "module": "features.0"}]'
>>> [str(o) for o in parse(text([Origin("conv2d_1", "features.0"), Origin("relu", "features.1")]))]
['features.0: conv2d_1', 'features.1: relu']

Locations that ExecuTorch writes with `dump_debug_info` in its mode TOSA are read, too.
Any other text is taken as the name of an operator.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tosa import TosaGraph

from eqsat.tosa.flatbuffer import most_to_read


class Origin(NamedTuple):
    """An operator of a PyTorch program.

    node: its name in the exported program.
    module: the path of its module ("": the model itself, or unknown). kind: that module's class.
    handle: ExecuTorch's debug handle, by which ETRecord and the Inspector know it.
    """

    node: str
    module: str = ""
    kind: str = ""
    handle: int | None = None

    def __str__(self) -> str:
        return f"{self.module}: {self.node}" if self.module and self.node else self.module or self.node

    def record(self) -> dict[str, Any]:
        """Returns the known fields as a JSON object."""
        return {k: v for k, v in self._asdict().items() if v not in ("", None)}


#: Distinct origins of one operator; several if operators were merged.
Origins = tuple[Origin, ...]


def union(several: Iterable[Origins]) -> Origins:
    """Returns all origins in order, each once."""
    return tuple(dict.fromkeys(o for origins in several for o in origins))


def text(origins: Iterable[Origin]) -> str:
    """Returns the location of an operator with these origins, "" for none."""
    records = [o.record() for o in origins]
    return json.dumps(records) if records else ""


def parse(location: str) -> Origins:
    """Returns the origins in a location."""
    try:
        data = json.loads(location)
    except ValueError:
        return (Origin(location),) if location else ()
    found = [_origin(d) for d in (data if isinstance(data, list) else [data]) if isinstance(d, dict)]
    return union((o,) for o in found if str(o))


def _origin(data: Mapping[str, Any]) -> Origin:
    if "aten_info" in data:
        return _arms(data)
    handle = data.get("handle")
    node, module, kind = (str(data.get(k, "")) for k in ("node", "module", "kind"))
    return Origin(node, module, kind, handle if isinstance(handle, int) else None)


def _arms(data: Mapping[str, Any]) -> Origin:
    """Returns the origin in ExecuTorch's format; the last node of its trace is the exported one.

    Source: backends/arm/debug/schema.py of executorch 1.5.
    """
    torch = data.get("torch_info", {})
    trace, stack = torch.get("node_trace"), torch.get("nn_module_stack")
    node = trace[-1]["name"] if isinstance(trace, list) and trace else data["aten_info"].get("node_name", "")
    module, kind = list(stack.values())[-1] if isinstance(stack, dict) and stack else ("", "")
    return Origin(str(node), str(module), str(kind))


def read(buffer: bytes) -> dict[str, Origins]:
    """Returns {result of an operator: its origins}, if it has any, for a buffer that `loads` reads."""
    block = TosaGraph.TosaGraph.GetRootAs(buffer, 0).Regions(0).Blocks(0)
    out: dict[str, Origins] = {}
    left = most_to_read(buffer)
    for i in range(block.OperatorsLength()):
        op = block.Operators(i)
        try:
            location = op.Location()
            raw = location.Text() if location is not None else None
            left -= len(raw or b"")
            origins = parse(raw.decode()) if raw and left >= 0 else ()
        except (struct.error, UnicodeDecodeError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
            continue  # locations are optional
        if origins:
            out.update((op.Outputs(k).decode(), origins) for k in range(op.OutputsLength()))
    return out
