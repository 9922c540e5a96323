"""How many planted errors pass verification.

    python -m benchmarks.planted_errors --zoo DIR --out benchmarks/results/planted_errors
    python -m benchmarks.planted_errors --smoke --out DIR

DIR of --zoo has <model>.<delegate>.<target>.explicit.tosa, as `eqsat bench` saves them. --smoke plants few errors in
few graphs.
Exit code 1 if an error passed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.about import arguments, write_about, write_text
from benchmarks.planted_errors import subjects
from benchmarks.planted_errors.run import Planted, in_subject
from benchmarks.planted_errors.table import markdown, summary
from eqsat.ground.worker import Pool

_NETWORKS = ("pixel_shuffle", "ds_cnn", "streaming_tcn", "attention")
_PACKAGES = ("eqsat", "tosa-tools", "numpy", "egglog")


def run(graphs: list[subjects.Subject], count: int, rules_every: int, out_dir: Path) -> list[Planted]:
    """Plants errors in graphs, and writes the results after each graph.

    count: most edits per graph.
    rules_every: all wrong rules are planted in each graph of so many, 0 for none.
    """
    about = write_about(out_dir, _PACKAGES)
    out: list[Planted] = []
    with Pool() as pool:
        for k, subject in enumerate(graphs):
            started = time.perf_counter()
            new = list(in_subject(subject, k, count, bool(rules_every) and k % rules_every == 0, pool))
            out += new
            _write(out, about, out_dir)
            figures = " ".join(f"{name} {n}" for name, n in summary(new).items())
            print(f"{subject.name}: {figures} in {time.perf_counter() - started:.0f} s", flush=True)
    return out


def _write(planted: list[Planted], about: Mapping[str, Any], place: Path) -> None:
    found = {"summary": summary(planted), "planted": [p.as_dict() for p in planted]}
    write_text(place / "planted_errors.json", json.dumps(found, indent=1) + "\n")
    write_text(place / "table.md", markdown(planted, about))


def main(argv: list[str] | None = None) -> int:
    parser = arguments(__doc__, "planted_errors")
    parser.add_argument("--zoo", type=Path, help="directory of saved networks")
    parser.add_argument("--random", type=int, default=16, help="random graphs")
    parser.add_argument("--edits", type=int, default=4, help="errors per graph, at most")
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args(argv)
    if args.smoke:
        graphs = [subjects.head(name, "INT8", 8, True) for name in ("rescales", "selection", "choice")]
    else:
        networks = subjects.saved(args.zoo, _NETWORKS) if args.zoo else ()
        graphs = list(chain(subjects.heads(), subjects.random_subjects(args.random), networks))
    planted = run(graphs, 3 if args.smoke else args.edits, 0 if args.smoke else 6, args.out)
    print(json.dumps(summary(planted)))
    return 1 if summary(planted)["passes"] else 0


if __name__ == "__main__":
    sys.exit(main())
