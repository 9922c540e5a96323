"""The pages as a reader's browser shows them, without a network."""

from collections.abc import Iterator

import pytest

from eqsat.report import RecordedRun, write
from tests.report.browser import EXECUTABLE, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium here: apt-get install chromium"),
]
PAGE = "pixel_shuffle.ethos-u85-256.html"


@pytest.fixture(scope="module")
def report(zoo_run, tmp_path_factory):
    directory = tmp_path_factory.mktemp("report")
    write(RecordedRun.read(zoo_run), directory)
    return directory


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


def test_charts_are_there_and_nothing_is_fetched_or_complained_about(report, browser):
    browser.open(report / "index.html")
    charts = shown(browser, "figure.chart > svg")
    assert len(charts) == 3 and all(w > 300 and h > 100 for w, h in charts)
    assert browser.complaints() == []
    assert browser.requests() == [(report / "index.html").as_uri()]
    assert browser.value("document.querySelector('#summary').innerText.includes('eqsat')")
    colours = browser.value("[...document.querySelectorAll('figure.chart path')].map(p => getComputedStyle(p).fill)")
    assert "rgb(213, 94, 0)" in colours  # bars of transposes
    assert browser.value(
        "[...document.querySelectorAll('figure.chart text')].some(t => t.textContent.includes('pixel_shuffle'))"
    )


def test_no_text_of_a_chart_lies_on_another(report, browser):
    browser.open(report / "index.html")
    overlaps = browser.value("""[...document.querySelectorAll('figure.chart > svg')].flatMap(svg => {
        const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
        return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([b, q]) =>
            p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && q.top < p.bottom - 1).map(([b]) => a + ' on ' + b))})""")
    assert overlaps == []


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


def test_links_lead_to_pages(report, browser):
    browser.open(report / "index.html")
    links = browser.value("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert links == [PAGE] and (report / PAGE).exists()
