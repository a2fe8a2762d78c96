"""``onelaunch evaluate gsm8k`` as a command, against a server of fixed answers and a real one."""

from __future__ import annotations

import itertools
import json

import pytest

from onelaunch.cli import main
from proof.evaluate.answering_server import answering, said

COUNT = 12


def run(*arguments):
    with pytest.raises(SystemExit) as exit_:
        main(["evaluate", "gsm8k", *map(str, arguments)])
    return exit_.value.code


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "questions.jsonl"
    lines = [
        {"question": f"What is {i} + 1?", "answer": f"{i}+1={i + 1}\n#### {i + 1}"} for i in range(COUNT)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def number_asked(body):
    return int(body["prompt"].rpartition("What is ")[2].split()[0])


def right(body, _):
    return said(f" #### {number_asked(body) + 1}")


def test_prompts_scores_and_the_result_file(data, tmp_path, capsys):
    def answer(body, _):
        i = number_asked(body)
        return said(f" #### {i + 1}" if i >= 3 else f" it is {i + 1}", "length" if i == 5 else "stop")

    out = tmp_path / "out.json"
    with answering(answer) as (url, record):
        assert (
            run("--data", data, "--base-url", f"{url}/v1", "--shots", 2, "--parallel", 3, "--json", out) == 0
        )
    [prompt] = [body["prompt"] for body in record.bodies if number_asked(body) == 0]
    assert prompt == (
        "Question: What is 0 + 1?\nAnswer: 0+1=1\n#### 1\n\n"
        "Question: What is 1 + 1?\nAnswer: 1+1=2\n#### 2\n\n"
        "Question: What is 0 + 1?\nAnswer:"
    )
    asked = {key: record.bodies[0][key] for key in ("model", "temperature", "max_tokens", "stop")}
    assert asked == {
        "model": "m", "temperature": 0, "max_tokens": 512,
        "stop": ["Question", "Assistant:", "<|separator|>"],
    }  # fmt: skip
    assert sorted(map(number_asked, record.bodies)) == list(range(COUNT))
    assert record.most_in_flight == 3
    result = json.loads(out.read_text())
    assert result["accuracy"] == result["scores"]["strict"]["mean"] == pytest.approx(9 / 12)
    assert result["scores"]["flexible"]["mean"] == 1
    assert result["scores"]["strict"]["mean_without_examples"] == pytest.approx(9 / 10)
    assert result["truncated"] == 1 and result["output_tokens"] == 7 * COUNT
    assert "GSM8K (strict): 75.00% of 12 questions (46.77% to 91.11%)" in capsys.readouterr().out


def test_salts_differ_and_are_only_sent_when_asked_for(data):
    with answering(right) as (url, record):
        options = ("--data", data, "--base-url", url, "--model", "m", "--shots", 1, "--runs", 2)
        assert run(*options, "--salt") == 0
        salts = {body["cache_salt"] for body in record.bodies}
        assert len(salts) == 2 * COUNT
        record.bodies.clear()
        assert run(*options) == 0
        assert not any("cache_salt" in body for body in record.bodies)


@pytest.mark.parametrize(
    ("response", "says"),
    [
        ((500, "broken"), "status 500: broken"),
        ((200, "not json"), "this is no completion: not json"),
        ((200, '{"error": "overloaded"}'), "this is no completion"),
        ((200, json.dumps(said(None))), "this is no finished completion"),
        ((200, json.dumps(said(" 1", None))), "this is no finished completion"),
        ((200, json.dumps(said(" 1", "abort"))), "this is no finished completion"),
        ((200, json.dumps({"choices": []})), "this is no completion"),
        (None, "RemoteProtocolError"),
    ],
)
def test_a_failed_request_fails_the_run(data, tmp_path, capsys, response, says):
    out = tmp_path / "out.json"

    def answer(body, number):
        return right(body, number) if number != 4 else response

    with answering(answer) as (url, _):
        assert run("--data", data, "--base-url", url, "--shots", 0, "--parallel", 1, "--json", out) == 1
    error = capsys.readouterr().err
    assert "question 5 of 12 failed" in error and says in error
    assert not out.exists()


def test_finished_runs_are_kept_and_not_made_again(data, tmp_path, capsys):
    out = tmp_path / "out.json"
    breaks = True

    def answer(body, number):
        return (503, "gone") if breaks and number == COUNT + 2 else right(body, number)

    with answering(answer) as (url, record):
        options = ("--data", data, "--base-url", url, "--parallel", 1, "--runs", 3, "--json", out)
        assert run(*options) == 1
        assert "1 finished runs are kept" in capsys.readouterr().err
        breaks = False
        made = len(record.bodies)
        assert run(*options, "--shots", 2) == 2  # not the same evaluation
        assert "another evaluation" in capsys.readouterr().err
        assert run(*options) == 0
        assert "1 runs are kept from before" in capsys.readouterr().err
        assert len(record.bodies) - made == 2 * COUNT
    result = json.loads(out.read_text())
    assert [one["number"] for one in result["runs_made"]] == [1, 2, 3]
    assert [path.name for path in tmp_path.glob("out*")] == ["out.json"]


def test_two_servers_and_their_differences(data, tmp_path):
    out = tmp_path / "out.json"
    # The second server is wrong at 3 questions, and words all answers otherwise.
    with (
        answering(right) as (one, _),
        answering(lambda body, _: said(f"  #### {number_asked(body) + 1 + (number_asked(body) < 3)}")) as (
            two,
            _,
        ),
    ):
        assert run("--data", data, "--base-url", one, "--base-url", two, "--runs", 2, "--json", out) == 0
    result = json.loads(out.read_text())
    assert result["accuracy"] == pytest.approx((1 + 9 / 12) / 2)
    assert result["scores"]["strict"]["server_error"] == pytest.approx(0.125)
    pairs = {(pair["first"], pair["second"]): pair for pair in result["pairs"]}
    assert len(pairs) == 6
    apart = pairs[f"{one} #1", f"{two} #2"]
    assert apart["texts_differ"] == COUNT
    assert apart["strict"] == {"only_first": 3, "only_second": 0, "p": 0.25}
    assert pairs[f"{one} #1", f"{one} #2"]["texts_differ"] == 0


def test_a_loss_against_an_earlier_result(data, tmp_path, capsys):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    with answering(right) as (url, _):
        assert run("--data", data, "--base-url", url, "--json", before) == 0
        same = ("--data", data, "--base-url", url, "--against", before)
        assert run(*same, "--max-loss", 0) == 0
        assert "every answer is the same text" in capsys.readouterr().out
        assert run(*same, "--num-questions", 10) == 2
        assert "its num_questions is 12" in capsys.readouterr().err
    with answering(lambda body, _: said(f" #### {number_asked(body)}")) as (url, _):
        same = ("--data", data, "--base-url", url, "--against", before)
        assert run(*same, "--max-loss", 50, "--json", after) == 1
        assert "more than 50 points are lost" in capsys.readouterr().err
        assert run("--data", data, "--base-url", url, "--min-accuracy", 10) == 1
    against = json.loads(after.read_text())["against"]
    assert against["delta"] == -1 and against["before_accuracy"] == 1
    assert against["pairs"][0]["strict"]["only_first"] == COUNT


def test_wrong_input_is_named_before_a_question_is_asked(data, tmp_path, capsys):
    bad = tmp_path / "bad.jsonl"
    with answering(right) as (url, record):
        good = ("--data", data, "--base-url", url)
        for arguments, says in [
            ((*good, "--score", "loose"), "score is 'loose'"),
            ((*good, "--shots", 13), "shots is 13: it must be 0 to 12"),
            ((*good, "--num-questions", 13), "num-questions is 13"),
            ((*good, "--max-loss", 1), "max-loss needs against"),
            ((*good, "--json", tmp_path / "no" / "out.json"), "there is no folder"),
            ((*good, "--base-url", url), "names a server twice"),
            (("--data", data, "--base-url", "localhost:1"), "it must be an address"),
            ((*good, "--against", data), "must be a result of onelaunch evaluate"),
        ]:
            assert run(*arguments) == 2, says
            assert says in capsys.readouterr().err
        for text, says in [
            ("", "has no question"),
            ("{}\n", "line 1: it must be"),
            ('{"question": "a", "answer": "#### 1"}\n\n[1]\n', "line 3: it must be"),
            ('{"question": "a", "answer": "no number"}\n', "line 1: the answer must end in"),
            ('{"question": 1, "answer": "#### 1"}\n', "line 1: question and answer must be strings"),
        ]:
            bad.write_text(text)
            assert run("--data", bad, "--base-url", url) == 2
            assert says in capsys.readouterr().err
        assert not record.bodies
    with answering(right, models=("a", "b")) as (url, record):
        assert run("--data", data, "--base-url", url) == 2
        assert "serves a, b: model must say which" in capsys.readouterr().err
    assert run("--data", data, "--base-url", url) == 2  # it is gone
    assert "does not say what it serves" in capsys.readouterr().err


def test_equal_accuracy_of_several_runs_is_no_loss(data, tmp_path):
    """Thirds of a question do not add up to the last bit."""
    before = tmp_path / "before.json"

    def some(wrong):
        return lambda body, number: said(f" #### {number_asked(body) + 1 + ((number + wrong) % 3 == 0)}")

    options = ("--data", data, "--runs", 3, "--parallel", 1, "--num-questions", 11)
    with answering(some(0)) as (url, _):
        assert run(*options, "--base-url", url, "--json", before) == 0
    with answering(some(1)) as (url, _):
        assert run(*options, "--base-url", url, "--against", before, "--max-loss", 0) == 0


def test_the_same_answers_may_be_asked_for(data, tmp_path, capsys):
    before = tmp_path / "before.json"
    with answering(right) as (url, _):
        options = ("--data", data, "--base-url", url)
        assert run(*options, "--same-answers") == 2
        assert run(*options, "--json", before) == 0
        assert run(*options, "--against", before, "--same-answers") == 0
    with answering(lambda body, _: said(f"  #### {number_asked(body) + 1}")) as (url, _):
        capsys.readouterr()
        assert (
            run("--data", data, "--base-url", url, "--against", before, "--max-loss", 0, "--same-answers")
            == 1
        )
        said_ = capsys.readouterr()
        assert "12 of 12 answers are other texts" in said_.err and "no question's score differs" in said_.out


def test_an_answer_of_thousands_of_digits_loses_nothing(data, tmp_path):
    with answering(lambda *_: said(" #### " + "7" * 5000)) as (url, _):
        assert run("--data", data, "--base-url", url, "--json", tmp_path / "out.json") == 0


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:abc", "http://[::", "http://127.0.0.1:99999", "http://a..b", "x"]
)
def test_a_wrong_address_is_named(data, capsys, url):
    assert run("--data", data, "--base-url", url, "--model", "m") == 2
    assert "base-url is" in capsys.readouterr().err


def test_an_api_key_is_sent(data, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with answering(right) as (url, record):
        assert run("--data", data, "--base-url", url, "--num-questions", 1) == 0
    assert record.headers[0]["Authorization"] == "Bearer secret"


def test_a_real_server(data, tmp_path):
    """Two runs at temperature 0 give the same texts, from the cache or with salts."""
    from onelaunch.engine.config import EngineConfig
    from onelaunch.engine.core import EngineCore
    from server.conftest import running

    options = {"preset": "tiny", "device": "cpu", "block_size": 16, "max_model_len": 1024, "max_num_seqs": 8}
    out = tmp_path / "out.json"
    with running(lambda: EngineCore(EngineConfig.make(**options))) as served:
        common = ("--data", data, "--base-url", served.url, "--max-tokens", 12, "--num-questions", 4)
        assert run(*common, "--runs", 2, "--parallel", 4, "--json", out) == 0
        assert run(*common, "--salt", "--against", out, "--max-loss", 0) == 0
    result = json.loads(out.read_text())
    texts = [[answer["text"] for answer in one["answers"]] for one in result["runs_made"]]
    assert texts[0] == texts[1] and all(texts[0])
    assert all(pair["texts_differ"] == 0 for pair in result["pairs"])
    assert [a["tokens"] for a in itertools.chain(*(one["answers"] for one in result["runs_made"]))] == [
        12
    ] * 8
