"""The pages as a reader's browser shows them, without a network."""

from collections.abc import Iterator

import pytest

from eqsat.options.options import Options
from eqsat.report import RecordedRun, write, write_page
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.tosa import dumps
from tests.report.browser import EXECUTABLE, Browser
from tests.term import inputs, outputs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium here: apt-get install chromium"),
]
TARGET = "ethos-u85-256"
PAGE = f"pixel_shuffle.{TARGET}.html"


@pytest.fixture(scope="module")
def report(zoo_run, tmp_path_factory):
    directory = tmp_path_factory.mktemp("report")
    write(RecordedRun.read(zoo_run), directory)
    return directory


@pytest.fixture(scope="module")
def result(zoo_run) -> Result:
    files = (zoo_run / "graphs" / f"pixel_shuffle.0.{TARGET}.{kind}.tosa" for kind in ("explicit", "stock"))
    explicit, stock = (file.read_bytes() for file in files)
    return optimize_tosa(explicit, TARGET, stock=stock, options=Options(effort=1))


@pytest.fixture(scope="module")
def compiled(result, tmp_path_factory):
    """The page of one compilation."""
    path = tmp_path_factory.mktemp("compiled") / "page.html"
    write_page(path, result, title="benchmarks/models/pixel_shuffle.py:model")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    b = Browser(tmp_path_factory.mktemp("profile"))
    yield b
    b.close()


def shown(browser: Browser, selector: str) -> list[list[float]]:
    """Widths and heights, in pixels, of what matches."""
    return browser.value(
        f"[...document.querySelectorAll({selector!r})].map(e => {{const b = e.getBoundingClientRect(); return [b.width, b.height]}})"
    )


def test_bars_are_there_and_nothing_is_fetched_or_complained_about(report, browser):
    browser.open(report / "index.html")
    assert browser.complaints() == []
    assert browser.requests() == [(report / "index.html").as_uri()]
    assert browser.value("document.body.innerText.includes('pixel_shuffle')")
    spans = "[...document.querySelectorAll('.bars .bar span')]"
    colours = browser.value(f"{spans}.map(s => getComputedStyle(s).backgroundColor)")
    assert "rgb(213, 94, 0)" in colours  # bars of transposes
    assert all(w > 200 for w, _ in shown(browser, ".bars .bar")) and len(shown(browser, ".bars .bar")) == 2


def test_the_page_of_a_model_marks_what_is_gone_and_new(report, browser):
    browser.open(report / PAGE)
    assert browser.complaints() == [] and browser.requests() == [(report / PAGE).as_uri()]
    before, after = shown(browser, "svg.graph")
    assert before[1] > 100 and after[1] > 100
    gone = browser.value(
        "[...document.querySelectorAll('.side:first-child .transpose.gone rect')].map(r => getComputedStyle(r).strokeDasharray)"
    )
    assert gone and all(d != "none" for d in gone)
    assert shown(browser, ".side:last-child .transpose.new") and not shown(browser, ".side:last-child .gone")


def test_a_heading_sorts_and_the_field_filters(compiled, browser):
    browser.open(compiled)
    rows = "[...document.querySelectorAll('tr[data-module]')]"
    cycles = f"{rows}.map(r => Number(r.cells[3].textContent.replaceAll(',', '')))"
    heading = "document.querySelector('tr[data-module]').closest('table').querySelectorAll('th')[3]"
    for downwards in (True, False):
        browser.value(f"{heading}.click()")
        expected = sorted(browser.value(cycles), reverse=downwards)
        assert browser.value(cycles) == expected and len(set(browser.value(cycles))) > 1
    table = "[...document.querySelectorAll('table')].find(t => t.closest('.scroll').previousElementSibling?.matches('.filter'))"
    field = f"{table}.closest('.scroll').previousElementSibling"
    browser.value(f"{field}.value = 'conv2d'; {field}.oninput()")
    shown = browser.value(f"[...{table}.tBodies[0].rows].filter(r => !r.hidden).map(r => r.textContent)")
    assert shown and all("conv2d" in r for r in shown)
    assert len(shown) < browser.value(f"{table}.tBodies[0].rows.length")


def test_graphs_zoom_and_show_what_belongs_together(compiled, browser):
    browser.open(compiled)
    assert browser.complaints() == [] and browser.requests() == [compiled.as_uri()]
    width = "document.querySelector('.pane:not([hidden]) svg').getBoundingClientRect().width"
    before = browser.value(width)
    browser.value("document.querySelector('[data-act=in]').click()")
    assert browser.value(width) == pytest.approx(1.3 * before, rel=0.01)
    browser.value("document.querySelector('[data-act=whole]').click()")
    pane, row = "document.querySelector('.pane:not([hidden])')", "document.querySelector('tr[data-module]')"
    for side in ("Height", "Width"):
        assert browser.value(f"{pane}.scroll{side} <= {pane}.client{side} + 1")
    module = browser.value(f"{row}.click(), {row}.dataset.module")
    picked = browser.value("[...document.querySelectorAll('g.picked')].map(g => g.dataset.modules.split('\\n'))")
    assert picked and all(module in m for m in picked)
    assert browser.value("[...document.querySelectorAll('.side')].every(s => s.querySelector('g.picked'))")


def merged() -> Result:
    """Six equal convolutions side by side; the optimized graph is narrower."""
    (x,) = inputs("x:INT8[1,8,8,16]")
    given = dumps(outputs(*(x.layer(16, 3, seed=1).clamp(0, 100) for _ in range(6))))
    return optimize_tosa(given, TARGET, stock=given, options=Options(effort=1))


def test_graphs_shown_together_have_one_scale_at_which_all_of_them_fit(result, browser, tmp_path):
    write_page(tmp_path / "page.html", {"tall": result, "wide": merged()})
    scales = """[...document.querySelectorAll('.view')].map(view =>
        [...view.querySelectorAll('.pane:not([hidden])')].map(pane => {
            const svg = pane.querySelector('svg'), natural = svg.viewBox.baseVal, wide = (pane.clientWidth - 4) / natural.width;
            return [
                svg.getBoundingClientRect().width / natural.width,
                Math.min(1, Math.max(wide, 0.35)),
                Math.min(wide, (pane.clientHeight - 4) / natural.height),
            ];
        }))"""

    def check(alone: int) -> None:
        """alone: where a pane's factor is that it would have without the other."""
        views = browser.value(scales)
        for view in views:
            least = min(pane[alone] for pane in view)
            assert len(view) == 2 and all(pane[0] == pytest.approx(least, rel=1e-3) for pane in view)
        assert any(pane[alone] > 1.05 * view[0][0] for view in views for pane in view), "no graph would be larger alone"

    browser.open(tmp_path / "page.html")
    check(1)
    for width in (1400, 400):
        browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        for chosen in ("explicit", "stock"):
            selects = "document.querySelectorAll('.view select')"
            browser.value(f"{selects}.forEach(s => {{ s.value = '{chosen}'; s.onchange(); }})")
            check(1)
            for action, alone in (("whole", 2), ("width", 1)):
                browser.value(f"document.querySelectorAll('[data-act={action}]').forEach(b => b.click())")
                check(alone)


@pytest.mark.parametrize("width", [360, 1600])
def test_no_page_is_wider_than_the_window(compiled, report, browser, width):
    for page in (compiled, report / "index.html", report / PAGE):
        browser.open(page)
        browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        assert browser.value("document.documentElement.scrollWidth") <= width
    browser.send("Emulation.clearDeviceMetricsOverride")
