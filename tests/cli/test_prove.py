"""``onelaunch prove``: gathered, kept, reported."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onelaunch.cli import main
from proof.ab.arena import running_with

SRC = Path(__file__).parents[2] / "src"
# Writes a result of ``onelaunch generate``'s kind and says so; its number of launches is its first argument.
TOOL = """\
import json, sys
from pathlib import Path
runs = Path(sys.argv[1]).parent.parent / "runs.txt"
runs.open("a").write(sys.argv[2] + "\\n")
Path(sys.argv[1]).write_text(json.dumps({"number": int(sys.argv[2])}))
print("number", sys.argv[2])
sys.exit(int(sys.argv[3]))
"""
SERVER = """\
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_): pass
open(sys.argv[2], "a").write("started\\n")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
ASK = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + '/health'); print('asked')"


def prove(*arguments):
    with pytest.raises(SystemExit) as exit_:
        main(["prove", *map(str, arguments)])
    return exit_.value.code


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def plan(tmp_path):
    """Writes a plan; evidence by name: (number, exit status), or a command."""
    (tmp_path / "tool.py").write_text(TOOL)
    (tmp_path / "server.py").write_text(SERVER)

    def write(claims, extra="", **evidence):
        lines = [
            'title = "A <b>plan</b>"',
            f"port = {free_port()}",
            'not_measured = ["AMD GPUs"]',
            "stop_timeout = 5",
        ]
        for says, names in claims.items():
            lines += ["[[claims]]", f"says = {says!r}", f"evidence = {names}"]
        for name, command in evidence.items():
            if isinstance(command, tuple):
                number, status = command
                command = [sys.executable, str(tmp_path / "tool.py"), "{json}", str(number), str(status)]
            lines += [f"[evidence.{name}]", f"command = {json.dumps(command)}"]
        path = tmp_path / "plan.toml"
        path.write_text("\n".join([*lines, extra]) + "\n")
        return path

    return write


def runs(tmp_path):
    return (tmp_path / "plan.proof" / "runs.txt").read_text().split()


def test_claims_hold_when_all_their_evidence_does(plan, tmp_path, capsys):
    path = plan({"Right.": ["one"], "Fast.": ["one", "two"]}, one=(1, 0), two=(2, 1))
    assert prove(path) == 1
    said = capsys.readouterr()
    assert "holds          Right." in said.out and "DOES NOT HOLD  Fast." in said.out
    assert "1 of 2 claims do not hold: Fast." in said.err
    text = (tmp_path / "plan.proof" / "report.md").read_text()
    assert "- **Right.** Holds." in text and "- **Fast.** **Does not hold.**" in text
    assert "number 2 *(fails)*" in text
    assert "- AMD GPUs" in text and "tool.py" in text and "- torch: " in text
    assert "says = 'Right.'" in text, "the plan itself"
    page = (tmp_path / "plan.proof" / "report.html").read_text()
    assert "<title>A &lt;b&gt;plan&lt;/b&gt;</title>" in page
    assert '<h3 id="two">two</h3>' in page and 'href="#two"' in page
    assert "http://" not in page and "https://" not in page, "needs nothing from elsewhere"


def test_what_was_gathered_is_kept_until_it_changes(plan, tmp_path, capsys):
    claims = {"Right.": ["one", "two", "three"]}
    uses_one = [sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", "{json:one}"]
    assert prove(plan(claims, one=(1, 0), two=(2, 0), three=uses_one)) == 0
    assert prove(plan(claims, one=(1, 0), two=(2, 0), three=uses_one)) == 0
    assert runs(tmp_path) == ["1", "2"]
    assert prove(plan(claims, one=(1, 0), two=(22, 0), three=uses_one)) == 0
    assert runs(tmp_path) == ["1", "2", "22"]
    assert prove(plan(claims, one=(11, 0), two=(22, 0), three=uses_one)) == 0
    assert '{"number": 11}' in (tmp_path / "plan.proof" / "report.md").read_text(), (
        "what read it is stale, too"
    )
    assert prove(plan(claims, one=(11, 0), two=(22, 0), three=uses_one), "--again", "two") == 0
    assert runs(tmp_path) == ["1", "2", "22", "11", "22"]
    assert prove(plan(claims, one=(11, 0), two=(22, 0), three=uses_one), "--again", "four") == 2
    assert "again is 'four': it must be one of one, two, three" in capsys.readouterr().err


def test_what_an_interrupted_command_left_is_for_the_same_command_alone(plan, tmp_path):
    keeps = "import sys, pathlib; p = pathlib.Path(sys.argv[1], 'kept'); " + (
        "print('found', p.exists()); p.write_text('x'); sys.exit(int(sys.argv[2]))"
    )

    def kept(name):
        return (tmp_path / "plan.proof" / "one" / "log.txt").read_text().split()[-1] == name

    def with_status(status):
        return plan({"Right.": ["one"]}, one=[sys.executable, "-c", keeps, "{folder}", str(status)])

    assert prove(with_status(3)) == 1 and kept("False")
    assert prove(with_status(3)) == 1 and kept("True"), "it goes on"
    assert prove(with_status(0)) == 0 and kept("False"), "another command begins anew"
    assert prove(with_status(0), "--again", "one") == 0 and kept("False")


def test_a_file_that_a_command_names_is_part_of_it(plan, tmp_path):
    data = tmp_path / "data.txt"
    show = [sys.executable, "-c", "import sys; print('read', open(sys.argv[1]).read())", str(data)]
    for content in ("first", "second"):
        data.write_text(content)
        assert prove(plan({"Right.": ["one"]}, one=show)) == 0
        assert f"read {content}" in (tmp_path / "plan.proof" / "report.md").read_text()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([sys.executable, "-c", "import sys; print('oh no'); sys.exit(3)"], "two broke with status 3"),
        ([sys.executable, "-c", "print('no result')", "{json}"], "two broke with status 0"),
        (["/no/such/program"], "two broke with status 127"),
    ],
)
def test_a_command_that_breaks_is_no_evidence(plan, tmp_path, capsys, command, says):
    assert prove(plan({"Right.": ["one", "two"]}, one=(1, 0), two=command)) == 1
    error = capsys.readouterr().err
    assert says in error and "log.txt" in error and "1 of 2 pieces of evidence are kept" in error
    assert not (tmp_path / "plan.proof" / "report.md").exists()


def test_evidence_that_takes_too_long(plan, capsys):
    path = plan(
        {"Right.": ["one"]}, "timeout = 0.3", one=[sys.executable, "-c", "import time; time.sleep(60)"]
    )
    assert prove(path) == 1
    assert "one was not done after 0.3 s" in capsys.readouterr().err


def with_server(plan, tmp_path, more=""):
    starts = tmp_path / "starts.txt"
    server = json.dumps([sys.executable, str(tmp_path / "server.py"), "{port}", str(starts)])
    ask = json.dumps([sys.executable, "-c", ASK, "{base_url}"])
    extra = f"[servers.base]\ncommand = {server}\n"
    for name in ("one", "two", "three"):
        extra += f'[evidence.{name}]\nserver = "base"\ncommand = {ask}\n' + (more if name == "three" else "")
    return plan({"Right.": ["one", "two", "three"]}, extra), starts


def test_evidence_on_one_server_shares_it_unless_it_wants_a_fresh_one(plan, tmp_path):
    path, starts = with_server(plan, tmp_path, "restart = true\n")
    assert prove(path) == 0
    assert starts.read_text().split() == ["started"] * 2
    assert not running_with(str(starts))
    assert "# on base" in (tmp_path / "plan.proof" / "report.md").read_text()


def test_a_server_that_is_never_healthy(plan, tmp_path, capsys):
    path, _ = with_server(plan, tmp_path)
    text = path.read_text().replace("[servers.base]", '[servers.base]\nhealth = "/nowhere"')
    path.write_text("start_timeout = 0.5\n" + text)
    assert prove(path) == 1
    assert "base: the server was not healthy after 0.5 s" in capsys.readouterr().err


def test_an_interrupt_leaves_nothing_running(plan, tmp_path):
    slow = [sys.executable, "-c", "import time; time.sleep(1000)", str(tmp_path)]
    path = plan({"Right.": ["one", "two"]}, one=(1, 0), two=slow)
    command = [sys.executable, "-m", "onelaunch", "prove", str(path)]
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=env)
    try:
        deadline = time.monotonic() + 60
        while not running_with(str(tmp_path)):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=40)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "nothing is left running; 1 of 2 pieces of evidence are kept" in said
    assert not running_with(str(tmp_path))
