"""Tables and verdicts from a kept result."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from onelaunch.bench.report import bars, markdown
from onelaunch.cli import main


def record(arm: str, rows: int, device_us: float, host_us: float = 10.0) -> dict:
    return {"arm": arm, "rows": rows, "device_us": device_us, "p10": 1.0, "p90": 9.0, "host_us": host_us}


RESULT = {
    "device": "a GPU",
    "torch": "2",
    "triton": "3",
    "onelaunch": "0",
    "copy_bandwidth_gb_s": {"torch copy_": 4000.0},
    "records": [
        record("usual", 7, 60, 1000),
        record("onelaunch", 7, 3, 30),
        record("per-group", 7, 14),
        record("empty", 7, 1, 20),
        record("onelaunch", 14, 12),
        record("onelaunch", 4096, 20),
        {"arm": "bytes", "rows": 4096, "device_us": 8},
    ],
}


def verdicts() -> dict[str, bool]:
    return {bar.what: bar.met for bar in bars(RESULT)}


def test_bars_are_judged_by_their_ratios():
    found = verdicts()
    assert found["device, 7 rows: onelaunch / usual"] is True  # 1/20
    assert found["device, 7 rows: onelaunch / per-group"] is False  # 3/14
    assert found["device, 4,096 rows: onelaunch / bytes"] is False  # 2.5
    assert found["host, 7 rows: onelaunch / usual"] is True  # 3%, and at most 4%


def test_growth_is_held_against_the_growth_of_the_rows():
    found = verdicts()
    assert found["device, growth to 14 rows / growth of the rows"] is False  # four times for twice the rows
    assert found["device, growth to 4,096 rows / growth of the rows"] is True


def test_row_counts_that_were_not_timed_are_not_judged():
    assert not any("1,024 rows" in what for what in verdicts())


def squeezed(text):
    """Without the padding of its tables."""
    return re.sub(" +", " ", text)


def test_tables_show_times_spreads_and_verdicts():
    text = markdown(RESULT)
    assert "| 7 | 60.00 (1.00-9.00) | 14.00 (1.00-9.00) | 3.00 (1.00-9.00) |" in squeezed(text)
    assert "**not met**" in text


def test_a_missing_time_is_a_dash_and_a_spread_of_zero_is_shown():
    records = [record("usual", 7, 60) | {"p10": 0.0}, record("onelaunch", 7, 3) | {"p90": None}]
    text = markdown({**RESULT, "records": records})
    assert "| 7 | 60.00 (0.00-9.00) | - | 3.00 |" in squeezed(text)


def test_tables_without_spreads_have_medians_alone():
    text = markdown(RESULT, spreads=False)
    assert "| 7 | 60.00 | 14.00 | 3.00 |" in squeezed(text)
    assert "p10" not in text


def test_the_kept_tables_are_drawn_from_the_kept_result():
    folder = Path(__file__).parents[2] / "benchmarks" / "results"
    assert markdown(json.loads((folder / "h200.json").read_text())) == (folder / "h200.md").read_text()


def test_a_kept_result_is_shown_and_drawn_without_a_gpu(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    kept, table, plot = (tmp_path / name for name in ("r.json", "r.md", "r.png"))
    kept.write_text(json.dumps(RESULT))
    with pytest.raises(SystemExit) as stop:
        main(["bench", "--from", str(kept), "--markdown", str(table), "--plot", str(plot)])
    assert stop.value.code == 0
    assert table.read_text() == markdown(RESULT)
    assert plot.read_bytes().startswith(b"\x89PNG")


def without(field: str) -> str:
    return json.dumps({name: value for name, value in RESULT.items() if name != field})


def with_record(**fields: object) -> str:
    return json.dumps({**RESULT, "records": [{"arm": "usual", "rows": 7, **fields}]})


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[1]",
        "{}",
        json.dumps({**RESULT, "records": []}),
        '{"records": [{"arm": "usual"}]}',
        without("device"),
        without("copy_bandwidth_gb_s"),
        with_record(arm=["usual"]),
        with_record(rows="7"),
        with_record(device_us="fast"),
    ],
)
def test_a_file_that_is_no_result_is_refused(capsys, tmp_path, text):
    kept = tmp_path / "r.json"
    kept.write_text(text)
    with pytest.raises(SystemExit) as stop:
        main(["bench", "--from", str(kept)])
    assert stop.value.code == 2
    assert f"from is {kept}" in capsys.readouterr().err
