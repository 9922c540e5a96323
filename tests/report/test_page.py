"""The page of a compilation: its figures are those of the result, its graphs and reasons those of the run."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag

from eqsat import runs
from eqsat.explain import explain
from eqsat.options.options import Options
from eqsat.report import compiled, write_page
from eqsat.report.compiled import Sides
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.command import run
from tests.graphs import located, transposed_relus
from tests.term import graph


def computed_twice() -> TensorGraph:
    """The same convolution twice, one of them clamped."""
    return graph("x:INT8[1,8,8,16]", lambda x: (x.layer(16, 3, seed=1), x.layer(16, 3, seed=1).clamp(0, 100)))


def optimized(buffer: bytes, place: Path, **options) -> Result:
    own = Options(effort=1, cache=place / "prices", max_sram="any", max_flash="any", **options)
    return optimize_tosa(buffer, "ethos-u55-128", stock=buffer, options=own, name="made by hand")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    found = optimized(located(transposed_relus()), tmp_path_factory.mktemp("result"))
    assert found.chosen == "eqsat" and found.run is not None
    return found


@pytest.fixture(scope="module")
def page(result: Result, tmp_path_factory: pytest.TempPathFactory) -> BeautifulSoup:
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(path, result)
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]
    return BeautifulSoup(path.read_text(), "html.parser")


def column(table: Tag, name: str) -> list[float]:
    headings = [th.text for th in table.select("thead th")]
    cells = [row.select("td")[headings.index(name)].text for row in table.select("tbody tr")]
    return [float(c.replace(",", "")) for c in cells if c != "-"]


def table(page: BeautifulSoup, title: str) -> Tag:
    """The table below a heading."""
    return next(h for h in page.select("h2, h3") if h.text == title).find_next("table")


def test_tables_add_up_to_the_result(result: Result, page: BeautifulSoup) -> None:
    by_module = table(page, "By PyTorch module")
    assert sum(column(by_module, "cycles: eqsat")) == pytest.approx(result.calibrated, abs=2)
    assert sum(column(by_module, "cycles: stock")) == pytest.approx(result.stock_calibrated, abs=2)
    assert 0 < max(column(by_module, "SRAM, bytes: eqsat")) <= result.footprint.sram
    assert sum(column(by_module, "operators: eqsat")) == pytest.approx(len(result.table), abs=0.2)
    modules = {o["module"] for row in result.table for o in row["origins"]}
    assert modules <= {row["data-module"] for row in by_module.select("tr[data-module]")}
    assert {td.text for td in by_module.select("tbody td:nth-of-type(2)")} == {"Some"}


def test_the_first_figures_are_the_results(result: Result, page: BeautifulSoup) -> None:
    tiles = {
        t.select_one(".name").text: (t.select_one(".big").text, t.select_one(".more").text)
        for t in page.select(".tile")
    }
    cycles, stock = tiles["calibrated cycles"]
    assert cycles == f"{result.calibrated:,}" and stock.startswith(f"{result.stock_calibrated:,} stock")
    assert f"ratio {result.calibrated / result.stock_calibrated:.3f}" in stock
    assert tiles["SRAM in use, bytes"][0] == f"{result.footprint.sram:,}"
    assert "verified bit for bit: yes; proved for every input: yes" in page.text
    assert f"Vela {result.vela}" in page.text


def test_the_configuration_and_the_options_are_at_the_top(page: BeautifulSoup) -> None:
    top = page.text[: page.text.index("calibrated cycles")]
    for asked in ("memory_mode: Shared_Sram", "config: Arm/vela.ini", "max_sram: any", "max_flash: any", "effort: 1"):
        assert asked in top


def test_the_tables_of_the_terminal_are_on_the_page(result: Result, page: BeautifulSoup) -> None:
    for told in result.tables():
        rows = [[td.text for td in row.select("td")] for row in table(page, told.title).select("tbody tr")]
        shown = {row[0]: [row[1], *row[-2:]] for row in rows}
        assert {row[0]: list(row[1:]) for row in told.rows} == {row[0]: shown[row[0]] for row in told.rows}


def test_graphs_have_every_operator_its_cycles_and_its_module(result: Result, page: BeautifulSoup) -> None:
    sides = Sides.of(result)
    panes = page.select(".pane")
    assert [p.get("data-graph") for p in panes] == ["stock", "explicit", None]
    for pane, side in zip(panes, (*sides.before, sides.after), strict=True):
        shown = [n for n in side.graph.live() if side.graph.nodes[n].op != "const"]
        assert len(pane.select("svg.graph > g")) == len(shown)
        costs = sum(int(t.text.replace(",", "")) for t in pane.select("text.cost"))
        assert costs == pytest.approx(side.figures.calibrated, abs=2)
        assert len(pane.select("g[data-modules]")) == sum(side.graph.nodes[n].op != "input" for n in shown)
    assert panes[0].select(".transpose.gone") and not panes[2].select(".gone")


def test_every_operator_that_changed_is_there_with_its_rules(result: Result, page: BeautifulSoup) -> None:
    told = explain(result)
    assert {v.verdict for v in told.ops.values()} > {"removed"}
    rows = {
        row.select("td")[0].text.split()[0]: row for row in page.select("tr") if re.match(r"n\d+ ", row.text.strip())
    }
    for v in told.ops.values():
        cells = [td.text for td in rows[f"n{v.node}"].select("td")]
        assert cells[1] == v.verdict and cells[3] == ", ".join(v.rules) and f"op{v.node}" in cells[4]
    written = [d.text for d in page.select("details pre")]
    assert any("Proof" in t and "by the run's prices" in t for t in written)


def test_nothing_is_fetched_and_only_its_own_script_may_run(page: BeautifulSoup) -> None:
    policy = page.select_one("meta[http-equiv]")["content"]
    assert "default-src 'none'" in policy and re.search(r"script-src 'sha256-[\w+/]{43}='", policy)
    assert not page.select("[src], link[rel=stylesheet]")
    assert {a["href"][0] for a in page.select("a:not([download])")} <= {"#"}


def test_model_explorer_gets_the_same_graphs(result: Result, page: BeautifulSoup) -> None:
    data, cycles = (
        json.loads(base64.b64decode(link["href"].partition("base64,")[2])) for link in page.select("a[download]")
    )
    assert [g["id"] for g in data["graphs"]] == list(cycles) == ["stock", "explicit", "eqsat"]
    for g in data["graphs"]:
        assert cycles[g["id"]]["results"].keys() <= {n["id"] for n in g["nodes"]}
    assert sum(v["value"] for v in cycles["eqsat"]["results"].values()) == pytest.approx(result.calibrated, abs=2)
    assert any(n.get("style") for n in data["graphs"][-1]["nodes"])


def test_cycles_of_several_modules_are_shared(tmp_path: Path) -> None:
    result = optimized(located(computed_twice(), 1), tmp_path)
    sides = Sides.of(result)
    merged = [row for row in sides.after.rows if len({o.module for o in row.origins}) > 1]
    assert merged, "no operator of the result stands for several modules"
    found = compiled.by_module(sides)
    at = found.header.index("cycles: eqsat")
    cycles = [float(row[at].replace(",", "")) for row in found.rows]
    assert sum(cycles) == pytest.approx(result.calibrated, abs=len(cycles))


def test_several_delegates_each_have_their_part(result: Result, tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", {"forward/0": result, "forward/1": result}, title="twice", warnings=["too warm"])
    page = BeautifulSoup((tmp_path / "page.html").read_text(), "html.parser")
    assert column(table(page, "Delegates"), "calibrated cycles") == [result.calibrated] * 2
    assert len(page.select(".view")) == 2 and page.select_one(".warning").text == "too warm"


def test_what_cannot_be_explained_says_why(result: Result, tmp_path: Path) -> None:
    write_page(tmp_path / "lacking.html", replace(result.run, rules=[*result.run.rules, "no-such-rule"]))
    assert "rules that are not at hand: no-such-rule" in (tmp_path / "lacking.html").read_text()
    g = graph("x:INT8[1,3,5,7]", lambda x: x.clamp(-9, 9))
    refusing = Options(cache=tmp_path / "prices", cost_model="tests.planted_costs:Refusing")
    none = optimize_tosa(dumps(g), "ethos-u55-128", options=refusing)
    assert none.run is None
    write_page(tmp_path / "none.html", none)
    page = (tmp_path / "none.html").read_text()
    assert "nothing to explain" in page and f"{none.cycles:,}" in page and none.warnings[0][:20] in page


def test_a_saved_run_gives_the_same_page(result: Result, page: BeautifulSoup, tmp_path: Path) -> None:
    runs.save(result, tmp_path / "run")
    write_page(tmp_path / "page.html", runs.load(tmp_path / "run"))
    assert BeautifulSoup((tmp_path / "page.html").read_text(), "html.parser").text == page.text


def test_a_page_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    source = tmp_path / "in.tosa"
    source.write_bytes(located(transposed_relus()))
    done = run("optimize", source, "-t", "ethos-u85-256", "-o", tmp_path / "out.tosa", "--report", tmp_path)
    assert done.exit_code == 2 and not (tmp_path / "out.tosa").exists()
