"""The HTML page in a browser: everything of it is in the file."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from html.parser import HTMLParser

import pytest

from onelaunch.proof.prove.findings import find
from onelaunch.proof.prove.plan import make_plan
from onelaunch.proof.prove.plots import draw
from onelaunch.proof.prove.report import markdown, page
from onelaunch.proof.prove.state import Gathered

CHROMIUM = shutil.which("chromium")
# Without a network, a sandbox of its own, or anything that looks for them.
OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
ACCEPTANCE = {
    "acceptance_length": 3.5,
    "drafts": 1000,
    "acceptance_rate_per_position": [0.9, 0.8, 0.5, 0.3],
    "prefix_cache_queries": None,
    "prefix_cache_hits": None,
}
RESULTS = {
    "acceptance": {**ACCEPTANCE, "against": {**ACCEPTANCE, "acceptance_length": 3.6}},
    "launches": {
        name: {
            "launches": {"mode": mode},
            "graph_launches": 1,
            "graph_nodes": 9,
            "device_us": 3.0,
            "steps": 4,
            "kernels": {},
        }
        for name, mode in (("a", 114), ("b", 60))
    }
    | {
        "changed": [{"name": "k<int>(long)", "a": 56, "b": 2}],
        "unchanged": [{"name": "gemm", "a": 9, "b": 9}],
    },
}


@pytest.fixture
def report(tmp_path):
    plan = make_plan(
        {
            "title": "One <launch> & more",
            "claims": [
                {"says": "Fewer launches.", "evidence": ["launches"]},
                {"says": "x", "evidence": ["acceptance"]},
            ],
            "evidence": {name: {"command": f"onelaunch {name} --json {{json}}"} for name in RESULTS},
        },
        'title = "<script>alert(1)</script>"',
    )
    findings, pictures = {}, {}
    made = {name: {"date": "2026-01-01 00:00 UTC", "torch": "2", "commit": name[0]} for name in RESULTS}
    for name, result in RESULTS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(result))
        command = tuple(plan.evidence[name].command)
        gathered = Gathered(
            name, {}, command, name == "launches", "said", 1.0, f"{name}.json", "log.txt", made[name]
        )
        findings[name] = find(gathered, tmp_path)
        if draw(findings[name].tool, findings[name].result, tmp_path / f"{name}.png"):
            pictures[name] = f"{name}.png"
    assert set(pictures) == set(RESULTS)
    text = markdown(plan, findings, pictures, "onelaunch prove plan.toml")
    path = tmp_path / "report.html"
    path.write_text(page(plan.title, text, tmp_path))
    return path, text


def test_the_text_has_claims_numbers_and_pictures(report):
    _, text = report
    assert "- **Fewer launches.** Holds." in text and "- **x** **Does not hold.**" in text
    assert "A: 114 launches a step (1 of graphs, with 9 nodes), 3 us on the device; B: 60" in text
    assert "| `k<int>(long)` " in text and "1 other kernel is launched as often in both" in text
    assert "mean acceptance length 3.500 over 1,000 drafts; before 3.600 (-2.78%)" in text
    assert "![launches](launches.png)" in text
    assert "- torch: 2" in text
    # Evidence of two commits: which was gathered with which.
    assert "**Not all evidence was gathered with the same.**" in text
    assert "acceptance:\n\n- date: 2026-01-01 00:00 UTC\n- torch: 2\n- commit: a" in text


def test_nothing_of_the_page_is_elsewhere_and_nothing_in_it_runs(report):
    path, _ = report
    found = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag, attributes):
            found.append((tag, dict(attributes)))

    Parser().feed(path.read_text())
    sources = [a["src"] for _, a in found if "src" in a]
    assert len(sources) == 2 and all(one.startswith("data:image/png;base64,") for one in sources)
    assert not any(tag in ("script", "link", "iframe") for tag, _ in found)
    assert all(a["href"].startswith("#") for tag, a in found if tag == "a")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_shows_it(report, tmp_path):
    path, _ = report
    browse = partial(subprocess.run, capture_output=True, check=True, timeout=120)
    options = [CHROMIUM, *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}"]
    dom = browse([*options, "--dump-dom", path.as_uri()]).stdout.decode()
    assert "<title>One &lt;launch&gt; &amp; more</title>" in dom
    assert dom.count("<table>") >= 2 and "alert(1)" in dom and "<script>" not in dom
    picture = tmp_path / "page.png"
    browse([*options, f"--screenshot={picture}", "--window-size=1000,2000", path.as_uri()])
    from matplotlib.image import imread

    pixels = imread(picture)
    assert pixels.shape[:2] == (2000, 1000)
    # The plots' two colours are seen: the pictures in the page were decoded and drawn.
    for colour in ((0x8A, 0x8F, 0x98), (0xD9, 0x48, 0x0F)):
        near = abs(pixels[..., :3] * 255 - colour).max(-1) < 2
        assert near.sum() > 1000, colour
