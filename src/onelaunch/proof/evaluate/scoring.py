"""Whether an answer is right, by three rules that are in use.

``strict`` and ``flexible`` are the filters of lm-evaluation-harness's ``gsm8k`` task (version 3.0), compared
as it compares: the number after ``#### ``, and the last number anywhere. ``last-digits`` is the last run of
digits, as in SGLang's ``few_shot_gsm8k``: it drops signs and splits decimals, so -5 counts as 5 and 2.50 as
50. It is here for comparison with figures that were made so.
"""

from __future__ import annotations

import re

SCORES = ("strict", "flexible", "last-digits")

_STRICT = re.compile(r"#### (-?[0-9.,]+)")
_FLEXIBLE = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")
_DIGITS = re.compile(r"[0-9]+")
_WORKED = re.compile(r".*#### ", re.DOTALL)


def extract(text: str, score: str) -> str | None:
    """What a rule takes as the answer in ``text``, normalized; None if there is none."""
    if score == "strict":
        found = _STRICT.search(text)
        return None if found is None else _normalized(found[1])
    if score == "flexible":
        numbers = _FLEXIBLE.findall(text)
        return _normalized(numbers[-1]) if numbers else None
    digits = _DIGITS.findall(text.replace(",", ""))
    return digits[-1].lstrip("0") or "0" if digits else None


def is_right(text: str, answer: str, score: str) -> bool:
    """Whether ``text`` has the number of the worked ``answer``."""
    found = extract(text, score)
    if found is None:
        return False
    return found == (extract(answer, score) if score == "last-digits" else _normalized(answer))


def has_reference(answer: str) -> bool:
    """Whether a worked answer has its number."""
    return _STRICT.search(answer) is not None


def _normalized(text: str) -> str:
    """As lm-eval's ``regexes_to_ignore`` leave it, and in lower case."""
    text = _WORKED.sub("", text.replace(",", "").replace("$", ""))
    return re.sub(r"\.$", "", text).lower()
