"""An extractor of another package, installed as users install one, is known to the command line and to the
benchmark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eqsat.tosa import dumps
from tests.graphs import transposed_relus

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def installed(tmp_path) -> dict[str, str]:
    """The environment of a process that has a package `lazy_extraction` with an extractor `lazy`; it notes each call in
    CALLS."""
    site = tmp_path / "site"
    info = site / "lazy_extraction-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lazy-extraction\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[extraction.extractors]\nlazy = lazy_extraction:extract\n")
    (site / "lazy_extraction.py").write_text(
        "import os\n"
        "from dataclasses import replace\n"
        "from extraction.tree_greedy import extract as greedy\n"
        "def extract(graph, *, time_limit, seed, warm_start):\n"
        "    with open(os.environ['CALLS'], 'a') as calls:\n"
        "        calls.write('called\\n')\n"
        "    return replace(greedy(graph, time_limit=time_limit, seed=seed, warm_start=warm_start), extractor='lazy')\n"
    )
    paths = [str(site), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), "CALLS": str(tmp_path / "calls")}


def run(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", *command], env=env, capture_output=True, text=True)


def test_in_the_command_line(installed, tmp_path):
    source, target = tmp_path / "in.tosa", tmp_path / "out.tosa"
    source.write_bytes(dumps(transposed_relus()))
    optimize = ["eqsat.cli", "optimize", str(source), "-t", "ethos-u55-128", "-o", str(target)]
    done = run([*optimize, "--extractor", "lazy"], installed)
    assert done.returncode == 0, done.stderr
    assert target.exists() and Path(installed["CALLS"]).exists()
    refused = run([*optimize, "--extractor", "diligent"], installed)
    assert refused.returncode != 0 and "lazy" in refused.stdout + refused.stderr
