"""Plans of claims: what they say, and every mistake named by its key."""

from __future__ import annotations

import tomllib

import pytest

from onelaunch.proof.prove.plan import make_plan, read_plan

GOOD = """
title = "T"
not_measured = ["AMD GPUs"]

[[claims]]
says = "It is right."
evidence = ["two", "one"]

[servers.base]
command = "serve --port {port}"
env = { A = 1 }

[evidence.one]
server = "base"
command = "check --url {base_url} --json {json} --keep '{\\"a\\": 1}'"

[evidence.two]
command = ["compare", "{json:one}", "{folder:one}/x"]
timeout = 5
"""


def changed(old: str, new: str):
    assert old in GOOD
    return tomllib.loads(GOOD.replace(old, new))


def test_a_plan_is_read(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(GOOD)
    plan = read_plan(path)
    assert list(plan.evidence) == ["one", "two"]
    assert plan.claims[0].evidence == ("two", "one")
    assert plan.evidence["one"].command[-1] == '{"a": 1}'
    assert plan.evidence["two"].needs() == {"one"}
    assert plan.servers["base"].env == {"A": "1"}
    assert plan.text == GOOD and plan.not_measured == ("AMD GPUs",)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('title = "T"', "", "title is missing"),
        ("not_measured =", "not_mesured =", "not_mesured is no key"),
        ('["AMD GPUs"]', '[""]', "not_measured is \\[''\\]: it must be a list of strings"),
        ("[[claims]]", "[[claim]]", "claims is missing"),
        ('says = "It is right."', "", r"claims\[1\].says is missing"),
        ('["two", "one"]', "[]", r"claims\[1\].evidence is \[\]"),
        ('["two", "one"]', '["three"]', r"claims\[1\].evidence has 'three': it must be one of one, two"),
        ("serve --port {port}", "serve", "servers.base.command has no {port}"),
        ('server = "base"', "", "evidence.one.command names a server's URL: evidence.one.server must say"),
        ('server = "base"', 'server = "bose"', "evidence.one.server is 'bose': it must be base"),
        ("{json:one}", "{json:two}", "evidence.two.command needs 'two': it must be evidence before"),
        ("{folder:one}", "{folder:none}", "evidence.two.command needs 'none'"),
        ('["compare", ', '["onelaunch", "evaluate", ', "onelaunch evaluate must write its result"),
        ("timeout = 5", "timeout = 0", "evidence.two.timeout is 0"),
        ("timeout = 5", "restart = 1", "evidence.two.restart is 1: it must be true or false"),
        ("[evidence.two]", "[evidence.Two]", "evidence.Two: a name must be"),
        ("env = { A = 1 }", 'health = "health"', "servers.base.health is 'health'"),
        ("[servers.base]", '[servers.x]\ncommand = "s {port}"\n[servers.base]', "servers.x is used by no"),
        ('title = "T"', 'title = "T"\nport = 70000', "port is 70000"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_by_its_key(old, new, says):
    with pytest.raises(ValueError, match=says):
        make_plan(changed(old, new))


def test_what_is_no_plan_is_named(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text("title = ")
    with pytest.raises(ValueError, match=r"plan\.toml is not TOML"):
        read_plan(path)
    with pytest.raises(ValueError, match="evidence is missing"):
        make_plan({"title": "T"})
    with pytest.raises(ValueError, match="evidence is 3: it must be tables"):
        make_plan({"title": "T", "evidence": 3})
