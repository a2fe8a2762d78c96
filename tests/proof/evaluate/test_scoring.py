"""The three rules of an answer, on texts where they part."""

from __future__ import annotations

import importlib.util

import pytest

from onelaunch.proof.evaluate.scoring import SCORES, extract, is_right

WORKED = "She has 2*35=<<2*35=70>>70 dollars.\n#### {}"

# text of the model, the reference's number, then strict, flexible, last-digits
CASES = [
    (" 1+1=2\n#### 2", "2", (True, True, True)),
    (" It is 2.", "2", (False, True, True)),
    (" #### 2\nQuestion of 9", "2", (True, False, False)),
    (" #### 1,234", "1234", (True, True, True)),
    (" #### 1234", "1,234", (True, True, True)),
    (" #### $18", "18", (False, True, True)),  # the strict filter wants the number at once
    (" #### 18.", "18", (True, True, True)),
    (" so $18.00", "18", (False, False, False)),
    (" #### -5", "5", (False, False, True)),  # the sign is dropped
    (" #### 5", "-5", (False, False, True)),
    (" #### 2.50", "50", (False, False, True)),  # the decimal is split
    (" #### 2.50", "2.50", (True, True, True)),
    (" #### 07", "7", (False, False, True)),
    (" #### 3 #### 4", "3", (True, False, False)),
    (" no number", "3", (False, False, False)),
    ("", "0", (False, False, False)),
    (" 12 ...", "12", (False, False, True)),  # three dots are a "number" to lm-eval's filter
]


@pytest.mark.parametrize(("text", "number", "right"), CASES)
def test_each_rule(text, number, right):
    assert tuple(is_right(text, WORKED.format(number), score) for score in SCORES) == right


def test_nothing_found_is_none_for_every_rule():
    assert [extract("no number", score) for score in SCORES] == [None, None, None]


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="lm-eval is not installed")
@pytest.mark.parametrize(("text", "number", "right"), CASES)
def test_lm_eval_agrees(text, number, right):
    from lm_eval.api.metrics import exact_match_hf_evaluate
    from lm_eval.filters.extraction import RegexFilter

    filters = {
        "strict": RegexFilter(r"#### (\-?[0-9\.\,]+)"),
        "flexible": RegexFilter(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", group_select=-1),
    }
    for i, name in enumerate(("strict", "flexible")):
        [[found]] = filters[name].apply([[text]], [{}])
        match = exact_match_hf_evaluate(
            [found],
            [WORKED.format(number)],
            regexes_to_ignore=[",", "\\$", "(?s).*#### ", "\\.$"],
            ignore_case=True,
        )
        assert bool(match["exact_match"]) == right[i], name
