"""Operators left to the CPU, with ExecuTorch's own Ethos-U partitioner and with eqsat's rewrites in front of it.

    python -m benchmarks.cpu_operators --out benchmarks/results/cpu_operators

The networks of the zoo, and some small ones that are here because of what stock ExecuTorch refuses. Each is quantized,
partitioned and lowered to TOSA, and Vela compiles none. Quantization at the borders of a program is not counted.
`records.jsonl` has a line per network and target, `run.json` the commit and the versions, `table.md` is made from both;
a run that was interrupted goes on where it stopped. Exit code 1 if eqsat leaves more to the CPU anywhere, or fails
where stock does not.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch

from benchmarks.about import as_text, write_about
from benchmarks.models import ZOO, load
from eqsat.bench.log import Log
from eqsat.bench.lowering import quiet
from eqsat.ground.files import write_atomically

ROOT = Path(__file__).parent.parent
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
_PACKAGES = ("eqsat", "executorch", "torch", "torchao")
#: Operators at the inputs and outputs of a program, which are not counted.
_BORDERS = ("quantized_decomposed.quantize_per_tensor", "quantized_decomposed.dequantize_per_tensor")

Network = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


class MaskedPositions(torch.nn.Module):
    """A convolution plus positional encodings that are counted in a constant BOOL mask.

    EdgeNeXt encodes positions so: Maaz et al., arXiv:2206.10589.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.projection = torch.nn.Conv2d(3, 16, 4, 4), torch.nn.Conv2d(2, 16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        mask = ~torch.zeros((x.shape[0], *x.shape[2:])).to(torch.bool)
        places = [mask.cumsum(axis, dtype=torch.float32) / mask.shape[axis] for axis in (1, 2)]
        return x + self.projection(torch.stack(places, dim=1))


class SpatialAttention(torch.nn.Module):
    """A gate per pixel from the mean over the channels.

    CBAM has such gates: Woo et al., arXiv:1807.06521.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.gate = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(1, 1, 7, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).relu()
        return x * self.gate(x.mean(1, keepdim=True)).sigmoid()


class LongMean(torch.nn.Module):
    """A convolution, and the mean of more than 65,536 samples."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = torch.nn.Conv1d(1, 8, 5, padding=2), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.conv(x).relu().mean(2))


def _own(module: Callable[[], torch.nn.Module], *shape: int) -> Callable[[], Network]:
    """Returns a function that makes a module with fixed random weights, and one input of a shape."""

    def make() -> Network:
        torch.manual_seed(0)
        return module().eval(), (torch.randn(shape),)

    return make


#: Functions that make the networks, by name.
NETWORKS: dict[str, Callable[[], Network]] = {
    **{name: (lambda name=name: load(name)) for name in ZOO},
    "masked_positions": _own(MaskedPositions, 1, 3, 32, 32),
    "spatial_attention": _own(SpatialAttention, 1, 3, 300, 300),
    "long_mean": _own(LongMean, 1, 1, 70000),
}


def measure(name: str, target: str) -> dict[str, Any]:
    """Returns the record of one network: for each side the operators on the CPU by name, or the error."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    from eqsat.executorch.quantize import quantize

    spec = EthosUCompileSpec(target)
    program = quantize(*NETWORKS[name](), spec)
    sides = {"stock": False, "eqsat": True}
    return {"name": name, "target": target} | {
        k: _left(copy.deepcopy(program), spec, ours) for k, ours in sides.items()
    }


def _left(program: Any, spec: Any, ours: bool) -> dict[str, Any]:
    from executorch.backends.arm.ethosu import EthosUPartitioner as ArmPartitioner
    from executorch.exir import to_edge_transform_and_lower

    import eqsat
    from eqsat.executorch.lowering import cpu_operators

    class Rewriting(ArmPartitioner):
        """Arm's partitioner after the rewrites of eqsat; its delegates are not searched."""

        transform_for_pre_decomposition = eqsat.EthosUPartitioner.transform_for_pre_decomposition

    try:
        with without_vela():
            edge = to_edge_transform_and_lower(program, partitioner=[(Rewriting if ours else ArmPartitioner)(spec)])
    except Exception as e:  # noqa: BLE001 - whatever ExecuTorch raises on a network is that network's outcome
        while e.__cause__ is not None:  # The innermost exception has the reason.
            e = e.__cause__  # type: ignore[assignment]
        return {"error": f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"}
    graphs = [edge.exported_program(m).graph for m in edge.methods]
    delegates = sum("executorch_call_delegate" in str(n.target) for g in graphs for n in g.nodes)
    found = {k: n for k, n in cpu_operators(edge).items() if k not in _BORDERS}
    return {"delegates": delegates, "operators": found}


@contextmanager
def without_vela() -> Iterator[None]:
    """Makes Ethos-U delegates end as TOSA within the context."""
    from executorch.backends.arm.arm_vela import VelaCompileResult
    from executorch.backends.arm.ethosu import EthosUBackend

    compiler = EthosUBackend._compile_tosa_flatbuffer
    EthosUBackend._compile_tosa_flatbuffer = staticmethod(lambda tosa, spec: VelaCompileResult(tosa))
    try:
        yield
    finally:
        EthosUBackend._compile_tosa_flatbuffer = staticmethod(compiler)


def left(side: Mapping[str, Any]) -> int | None:
    """Returns how many operators stay on the CPU, None if the lowering fails."""
    return None if "error" in side else sum(side["operators"].values())


def faults(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the cells in which eqsat leaves more to the CPU than stock, or fails where stock does not."""
    out = []
    for r in records:
        stock, ours = left(r["stock"]), left(r["eqsat"])
        if stock is not None and (ours is None or ours > stock):
            out.append(f"{r['name']} on {r['target']}: {'fails' if ours is None else ours}, stock {stock}")
    return out


def table(records: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """Returns the results as Markdown.

    There are the sums by target, and a row for each network with an operator on the CPU or a lowering that fails.
    """
    lines = [
        "# Operators on the CPU",
        "",
        "Networks quantized, partitioned and lowered to TOSA by ExecuTorch, without and with eqsat's rewrites in "
        "front. Quantization at the borders is not",
        "counted. Made by `python -m benchmarks.cpu_operators`; `records.jsonl` has a line per network and target.",
        "",
        f"{as_text(about)}.",
        "",
        "| target | networks | whole on the NPU: stock | eqsat | operators on the CPU: stock | eqsat | lowering "
        "fails: stock | eqsat |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for target in dict.fromkeys(r["target"] for r in records):
        found = {side: [left(r[side]) for r in records if r["target"] == target] for side in ("stock", "eqsat")}
        whole, on_cpu, fails = (
            [f(found[side]) for side in found]
            for f in (lambda x: x.count(0), lambda x: sum(n or 0 for n in x), lambda x: x.count(None))
        )
        lines.append(f"| {target} | {len(found['stock'])} | {' | '.join(map(str, (*whole, *on_cpu, *fails)))} |")
    lines += [
        "",
        "All others are whole on the NPU on both sides:",
        "",
        "| network | target | stock | eqsat |",
        "|---|---|---|---|",
    ]
    for r in records:
        if left(r["stock"]) != 0 or left(r["eqsat"]) != 0:
            lines.append(f"| {r['name']} | {r['target']} | {_shown(r['stock'])} | {_shown(r['eqsat'])} |")
    lines += ["", *(f"* {f}" for f in faults(records) or ["Nowhere more on the CPU than with stock."])]
    return "\n".join(lines) + "\n"


def _shown(side: Mapping[str, Any]) -> str:
    if "error" in side:
        return f"fails: {side['error'][:120].replace('|', '/')}"
    return ", ".join(f"`{name}` {n}" for name, n in side["operators"].items()) or "nothing"


@quiet()
def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--networks", default="", help="names, separated by commas (default: all)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/cpu_operators")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    about = write_about(args.out, _PACKAGES)
    log = Log(args.out / "records.jsonl", itemgetter("name", "target"))
    wanted = [
        (n, t) for n in (args.networks.split(",") if args.networks else NETWORKS) for t in args.targets.split(",")
    ]
    for name, target in wanted:
        if (name, target) not in log.records:
            log.add(measure(name, target))
        record = log.records[name, target]
        print(name, target, {side: left(record[side]) for side in ("stock", "eqsat")}, flush=True)
    records = [log.records[cell] for cell in wanted]
    write_atomically(args.out / "table.md", table(records, about).encode())
    return 1 if faults(records) else 0


if __name__ == "__main__":
    sys.exit(main())
