"""The formats: how a valid file is made, how it is damaged, and how it is read.

`read` answers "accepted" or the class of the named error; whatever else it raises is a finding.
"""

from __future__ import annotations

import gzip
import json
import lzma
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import TosaError, dumps, loads
from tests.fuzzing import compiled, small
from tests.fuzzing.corpus import finish, graphs, pointwise, products, wide
from tests.fuzzing.mutate import BLIND, mutated
from tests.fuzzing.outcome import Finding, Format, error_class


def transposes() -> TensorGraph:
    """A pair of transposes around a clamp, of no use."""
    g = TensorGraph()
    x = g.add("transpose", (g.add_input("x", (1, 4, 4, 8), "INT8"),), perms=(0, 3, 1, 2))
    x = g.add("transpose", (g.add_with("clamp", (x,), makers.clamp("INT8", 0, 127)),), perms=(0, 2, 3, 1))
    return finish(g, g.add_with("clamp", (x,), makers.clamp("INT8", 5, 96)))


# ---- TOSA -----------------------------------------------------------------------------------------


def _write_graphs(place: Path) -> None:
    for i, g in enumerate(graphs()):
        (place / f"{i}.tosa").write_bytes(dumps(g))


def _read_tosa(data: bytes, _: Path) -> str:
    """An accepted file can be written, and what is written is read as the same: from the second writing on to the byte,
    as the first gives outputs that are inputs or constants an IDENTITY."""
    try:
        graph = loads(data)
    except TosaError as e:
        return error_class(e)
    again = loads(dumps(graph))
    written = dumps(again)
    if (
        dumps(loads(written)) != written
        or again.signature() != graph.signature()
        or _operators(again) != _operators(graph)
    ):
        raise Finding("written and read, the graph is another")
    return "accepted"


def _operators(graph: TensorGraph) -> dict[str, int]:
    return {op: n for op, n in graph.op_counts().items() if op != "identity"}


# ---- e-graphs on damaged graphs -------------------------------------------------------------------


def _search(data: bytes, _: Path) -> str:
    """An accepted graph goes on to saturation and extraction, without Vela, which would refuse most of them."""
    from cost_models.op_count import OpCount
    from eqsat.choice import choice
    from eqsat.egraph.encoding import saturate
    from eqsat.egraph.engine import Budget, EngineError
    from eqsat.rules.presets import PRESETS
    from eqsat.target import Target
    from eqsat.tensor.types import GraphError
    from extraction import ExtractionError, extract

    try:
        graph = loads(data)
        frozen = saturate(graph, PRESETS["all"], Budget(nodes=2000, seconds=1, passes=4))
        choices = choice.build(frozen, OpCount(Target("ethos-u85-256", ())))
        dumps(choices.tensor_graph(extract(choices.graph, "dag_greedy").choice)[0])
    except (TosaError, EngineError, GraphError, ExtractionError) as e:
        return error_class(e)
    return "accepted"


# ---- choice graphs, saved runs, prices, records, programs -----------------------------------------


def _saved_run(place: Path) -> Path:
    """A saved run of a small graph."""
    from eqsat import runs
    from eqsat.options.options import Options
    from eqsat.search.optimizer import optimize_tosa
    from eqsat.target import Target

    run = place / "run"
    if not run.exists():
        options = Options(cost_model="op_count", time_limit=1, cache=place / "prices.sqlite")
        runs.save(optimize_tosa(dumps(transposes()), Target.of("ethos-u85-256"), options=options), run)
        (place / "prices.sqlite").unlink(missing_ok=True)
    return run


def _write_choice_graphs(place: Path) -> None:
    from eqsat.runs.codec import CHOICE_GRAPH

    data = (_saved_run(place) / CHOICE_GRAPH).read_bytes()
    shutil.rmtree(place / "run")
    (place / "a.gz").write_bytes(data)
    (place / "a.json").write_bytes(gzip.decompress(data))


def _read_choice_graph(data: bytes, place: Path) -> str:
    from extraction import InvalidGraph
    from extraction.io import load

    path = place / ("graph.json.gz" if data[:2] == b"\x1f\x8b" else "graph.json")
    path.write_bytes(data)
    try:
        load(path)
    except InvalidGraph as e:
        return error_class(e)
    return "accepted"


def _write_run(place: Path) -> None:
    """A file for each of a run's, its name before its bytes; packed ones unpacked, as damage to a packed one is always
    seen."""
    for file in sorted(_saved_run(place).iterdir()):
        data = file.read_bytes()
        (place / file.name).write_bytes(gzip.decompress(data) if file.suffix == ".gz" else data)


def _damage_run(r: random.Random, corpus: Sequence[bytes]) -> tuple[bytes, str]:
    k = r.randrange(len(corpus))
    data, how = mutated(r, [corpus[k]], BLIND)
    return bytes([k, r.randrange(2)]) + data, how


def _read_run(data: bytes, place: Path) -> str:
    """The damaged file stands among the sound ones, every other time with a manifest that knows it."""
    from eqsat import runs
    from eqsat.runs import archive
    from eqsat.runs.archive import ArchiveError

    source, target = place.parent / "corpus" / "run", place / "run"
    names = sorted(p.name for p in source.parent.iterdir() if p.is_file())
    name, sealed, content = names[data[0]], data[1], data[2:]
    content = gzip.compress(content, 1) if name.endswith(".gz") else content
    shutil.rmtree(target, ignore_errors=True)
    if sealed and name != archive.MANIFEST:
        info, files = archive.read(source)
        archive.write(target, info, {**files, name: content})
    else:
        shutil.copytree(source, target)
        (target / name).write_bytes(content)
    try:
        runs.load(target)
    except ArchiveError as e:
        return error_class(e)
    return "accepted"


_PRICES = {f"key{i}": float(i) for i in range(60)}


def _write_prices(place: Path) -> None:
    from cost_models.cache import PriceCache

    cache = PriceCache(place / "store.sqlite")
    cache.put(_PRICES)
    cache.store.local.seal()  # into the one file
    cache.close()


def _read_prices(data: bytes, place: Path) -> str:
    from cost_models.cache import PriceCache
    from eqsat.ground.files import InputError

    for old in place.glob("store*"):
        old.unlink()
    (place / "store.sqlite").write_bytes(data)
    try:
        cache = PriceCache(place / "store.sqlite")
    except InputError as e:
        return error_class(e)
    found = cache.get(list(_PRICES))
    cache.put({"new": 1.0})
    cache.close()
    if wrong := {k: v for k, v in found.items() if _PRICES[k] != v}:
        raise Finding(f"wrong prices {wrong}")
    return f"accepted, {'all' if len(found) == len(_PRICES) else 'some' if found else 'no'} prices left"


def _write_records(place: Path) -> None:
    """Records of stock and eqsat, of three models."""
    record = {
        "target": "ethos-u85-256",
        "vela": "5.2.0",
        "verified": True,
        "seconds": {"vela": 1.5},
        "by_kind": {"rescale": 7},
        "by_operator": {"Rescale": {"operators": 1, "cycles": 7, "ideal": 5.0, "waiting": 1}},
        "memory": {"Sram": {"peak": 64}},
        "peak_mib": 1.5,
        "extractions": [[{"extractor": "portfolio", "round": 0, "predicted": 7.0, "cycles": 7}]],
    }
    cells = [(f"m{i}", c) for i in range(3) for c in ("stock", "eqsat")]
    text = "".join(
        json.dumps({**record, "model": m, "configuration": c, "cycles": 7 + i}) + "\n" for i, (m, c) in enumerate(cells)
    )
    (place / "records.jsonl").write_text(text)


def _read_records(data: bytes, place: Path) -> str:
    from eqsat.bench.records import RunFiles
    from eqsat.ground.files import InputError

    (place / "records.jsonl").write_bytes(data)
    try:
        files = RunFiles(place)
        files.close()
    except InputError as e:
        return error_class(e)
    return f"accepted, {'all' if len(files.log.records) == 6 else 'some'} records left"


def _report_records(data: bytes, place: Path) -> str:
    from eqsat.ground.files import InputError
    from eqsat.report import RecordedRun, write

    (place / "records.jsonl").write_bytes(data)
    try:
        write(RecordedRun.read(place), place / "report")
    except InputError as e:
        return error_class(e)
    return "accepted"


def _write_programs(place: Path) -> None:
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    from eqsat.executorch.quantize import quantize

    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(2, 3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.conv(x))

    torch.manual_seed(0)
    torch.export.save(
        quantize(Small(), (torch.randn(1, 2, 4, 4),), EthosUCompileSpec("ethos-u55-128")), str(place / "small.pt2")
    )


def _read_program(data: bytes, place: Path) -> str:
    from eqsat.executorch import pt2
    from eqsat.ground.files import InputError

    (place / "p.pt2").write_bytes(data)
    try:
        pt2.load(place / "p.pt2")
    except InputError as e:
        return error_class(e)
    return "accepted"


def _write_outlines(place: Path) -> None:
    from eqsat.runs.outline import outline
    from eqsat.vela.table import Row

    made = [outline(g) for g in (pointwise(), products(), wide())]
    row = Row("Add", "n1", 9, 8, 0, 9, 8, 64, 0, 32, "n1").record()
    data = [[f"m{i}", "ethos-u85-256", "eqsat", [[o, {"n1": 1}]], [[row]]] for i, o in enumerate(made)]
    (place / "outlines").write_bytes(json.dumps(data).encode())


def _damage_outlines(r: random.Random, corpus: Sequence[bytes]) -> tuple[bytes, str]:
    """Before it is packed, as damage to a packed file is always seen, and one time in four after it."""
    packed = r.randrange(4) == 0
    data, how = mutated(r, [lzma.compress(d) for d in corpus] if packed else corpus, BLIND)
    return data if packed else lzma.compress(data, preset=0), how


def _read_outlines(data: bytes, place: Path) -> str:
    from eqsat.bench.records import read_outlines
    from eqsat.ground.files import InputError

    (place / "outlines.json.xz").write_bytes(data)
    try:
        read_outlines(place)
    except InputError as e:
        return error_class(e)
    return "accepted"


def _blind(r: random.Random, corpus: Sequence[bytes]) -> tuple[bytes, str]:
    return mutated(r, corpus, BLIND)


FORMATS = {
    f.name: f
    for f in (
        Format("tosa", _write_graphs, mutated, _read_tosa),
        Format("search", _write_graphs, mutated, _search),
        Format("choice-graph", _write_choice_graphs, _blind, _read_choice_graph),
        Format("run", _write_run, _damage_run, _read_run),
        Format("prices", _write_prices, _blind, _read_prices),
        Format("records", _write_records, _blind, _read_records),
        Format("reports", _write_records, _blind, _report_records),
        Format("pt2", _write_programs, _blind, _read_program),
        Format("outlines", _write_outlines, _damage_outlines, _read_outlines),
        Format("raw", compiled.write_raw, compiled.damage_raw, compiled.read),
        Format("payload", compiled.write_payloads, _blind, compiled.read),
        Format("pte", compiled.write_programs, _blind, compiled.read),
        Format("certificate", small.write_certificates, _blind, small.read_certificate),
        Format("inputs", small.write_inputs, compiled.damage_raw, small.read_inputs),
        Format("answers", small.write_answers, small.damage_answers, small.read_answers),
        Format("defaults", small.write_defaults, _blind, small.read_defaults),
        Format("weights", small.write_weights, _blind, small.read_weights),
    )
}
