"""Two traces side by side, and the pages that show them."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from onelaunch.proof.profile.compare import compare
from onelaunch.proof.profile.count import count_launches
from onelaunch.proof.profile.report import comparison_markdown, markdown
from onelaunch.proof.profile.timeline import page, typical_step
from onelaunch.proof.profile.trace import read_trace
from proof.profile.traces import TraceMaker

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ODD = 'void f<1>(int) && "x" | `y` </title><script>alert(1)</script>'


@pytest.fixture
def counted(tmp_path):
    def count(windows: int, nodes: list[str], name: str):
        maker = TraceMaker()
        for step in range(5):
            at = 10_000 * step
            maker.annotate(f"ProfilerStep#{step}", at, 9_000)
            for i in range(windows + (step == 1)):
                maker.launch("window", at + 10 * i)
            maker.launch(ODD, at + 500, "cuLaunchKernelEx")
            maker.launch("Memcpy HtoD (Pageable -> Device)", at + 600, "cudaMemcpyAsync", "gpu_memcpy")
            maker.graph(nodes, at + 700)
            if step == 3:
                maker.launch("rare", at + 800)
        return count_launches(read_trace(maker.write(tmp_path / name)))

    return count


@pytest.fixture
def both(counted):
    return counted(8, ["gemm", "attention"], "a.json"), counted(2, ["gemm", "gemm"], "b.json.gz")


def test_what_differs_is_apart_from_the_controls_and_graph_nodes_from_both(both):
    found = compare(*both)
    assert [(row.name, row.a, row.b) for row in found.changed] == [("window", 8, 2)]
    assert [(row.name, row.a, row.b) for row in found.unchanged] == [(ODD, 1, 1)]
    assert [(row.name, row.a, row.b) for row in found.graph_changed] == [("attention", 1, 0), ("gemm", 1, 2)]
    assert found.graph_unchanged == []
    assert (found.changed[0].a_us, found.changed[0].b_us) == (24, 6)


def test_tables_have_as_many_cells_in_each_row(both):
    for text in (comparison_markdown(*both), markdown(both[0])):
        tables = [part for part in text.split("\n\n") if part.startswith("|")]
        assert len(tables) >= 3
        for table in tables:
            cells = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
            assert len(cells) == 1, table


def test_long_names_stay_apart_in_a_table(tmp_path):
    maker = TraceMaker()
    for step in range(2):
        maker.annotate(f"ProfilerStep#{step}", 1_000 * step, 900)
        for functor in ("add", "mul"):
            maker.launch("void elementwise<" + "x" * 90 + functor + "y" * 90 + ">(int)", 1_000 * step)
    text = markdown(count_launches(read_trace(maker.write(tmp_path / "t.json"))))
    rows = [line for line in text.splitlines() if "elementwise" in line]
    assert ["add" in row for row in rows].count(True) == 1
    assert ["mul" in row for row in rows].count(True) == 1
    assert max(map(len, rows)) < 140


def test_the_page_shows_both_steps_and_needs_no_network(both):
    html = page(list(both))
    assert not re.search(r"https?:|src=|href=|@import|url\(", html)
    assert html.count("<section>") == 2
    assert "<script>alert" not in html
    rectangles = re.findall(r'<rect class="(\w+)"', html)
    assert {kind: rectangles.count(kind) for kind in set(rectangles)} == {
        "step": 2,
        "launch": 2 * (9 + 3),  # each with its call
        "graph": 2,
        "node": 4,
        "copy": 2,
        "call": 2,
    }
    parser = HTMLParser()
    parser.feed(html)
    parser.close()


def test_the_step_shown_is_a_usual_one(both):
    shown = typical_step(both[0])
    assert shown.subtitle.startswith("ProfilerStep#0 ")  # the second has a launch more
    assert [lane.label for lane in shown.lanes] == [
        "annotation ProfilerStep#N",
        "host, process 100, thread 1",
        "device 0, stream 7",
    ]
    assert min(bar.at for lane in shown.lanes for bar in lane.bars) == 0


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_browser_draws_the_page(both, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page(list(both)))
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", path.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    assert dom.count("<rect") == page(list(both)).count("<rect")
