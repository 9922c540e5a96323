"""The zoo's own e-graphs as choice graphs: `python -m benchmarks.extraction.zoo --models A,B --targets T,U --out DIR`.

Each model is lowered by ExecuTorch up to the point where eqsat takes over, saturated, priced in cycles by the default
cost model, and written as `<model>.<delegate>.<target>.json.gz` (see `extraction.io`), one file for each delegate. With
`--tosa DIR` the graphs at that point are read from `<model>.<delegate>.<target>.explicit.tosa` instead. Files that are
there are kept.
"""

from __future__ import annotations

import time
from pathlib import Path

import cost_models
from benchmarks.about import arguments, listed
from benchmarks.models import ZOO
from benchmarks.saved import explicit_graphs
from cost_models.cache import PriceCache
from eqsat.choice import choice
from eqsat.egraph.encoding import saturate
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.target import Target
from eqsat.tosa.flatbuffer import loads
from extraction import ChoiceGraph
from extraction.io import save

TARGETS = ("ethos-u55-128", "ethos-u85-256")


def choice_graph(tosa: bytes, target: Target, pool: Pool, cache: PriceCache) -> ChoiceGraph:
    """Returns the choice graph of a TOSA graph with explicit layout, as the optimizer builds it by default.

    Its costs are cycles.
    """
    options = Options()
    frozen = saturate(loads(tosa), options.identities(target), options.budget)
    return choice.build(frozen, cost_models.find(options.cost_model)(target, pool, cache)).graph


def main(argv: list[str] | None = None) -> None:
    """Builds and writes the choice graphs that are asked for."""
    parser = arguments(__doc__)
    parser.add_argument("--models", default=",".join(ZOO), help="comma-separated names (default: the whole zoo)")
    parser.add_argument("--targets", default=",".join(TARGETS), help="comma-separated accelerator configurations")
    parser.add_argument("--tosa", type=Path, help="directory of graphs that were saved before; nothing is lowered")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    cache = PriceCache()
    with Pool() as pool:
        for model in listed(args.models):
            for name in listed(args.targets):
                target = Target.of(name)
                if args.tosa is None and any(args.out.glob(f"{model}.*.{name}.json.gz")):
                    continue
                for i, tosa in explicit_graphs(model, name, args.tosa):
                    path = args.out / f"{model}.{i}.{name}.json.gz"
                    if path.exists():
                        continue
                    start = time.perf_counter()
                    graph = choice_graph(tosa, target, pool, cache)
                    save(graph, path)
                    print(
                        f"{path.name:50} {graph.n_classes:6} classes {graph.n_nodes:6} e-nodes "
                        f"{len(graph.pair_costs):6} pair terms "
                        f"{time.perf_counter() - start:.1f} s",
                        flush=True,
                    )
    cache.close()


if __name__ == "__main__":
    main()
