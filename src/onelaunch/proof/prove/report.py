"""The report of a plan: Markdown for a pull request, and one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import re
import shlex
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from onelaunch.proof.prove.findings import Finding
from onelaunch.proof.prove.plan import ProofPlan

_IMAGE = re.compile(r'src="([^":]+\.png)"')


def verdicts(plan: ProofPlan, findings: Mapping[str, Finding]) -> list[bool]:
    """Of each claim: whether all its evidence holds."""
    return [all(findings[name].gathered.holds for name in claim.evidence) for claim in plan.claims]


def markdown(
    plan: ProofPlan,
    findings: Mapping[str, Finding],
    pictures: Mapping[str, str],
    facts: Mapping[str, str | None],
    repeat: str,
) -> str:
    """The whole report.

    Args:
        findings: by name, in the plan's order.
        pictures: file of each finding that is drawn, relative to the report.
        facts: of the machine; None is left out.
        repeat: the command that gathers all of this again.
    """
    lines = [f"# {plan.title}", ""]
    if plan.summary:
        lines += [plan.summary, ""]
    for claim, holds in zip(plan.claims, verdicts(plan, findings), strict=True):
        lines.append(f"- **{claim.says}** {'Holds.' if holds else '**Does not hold.**'}")
        for name in claim.evidence:
            says = findings[name].says.rstrip(".")
            failed = "" if findings[name].gathered.holds else " *(fails)*"
            lines.append(f"  - {says}{failed} ([{name}](#{name}))")
    lines += ["", "## Not measured", ""]
    lines += [f"- {one}" for one in plan.not_measured] or ["Nothing is named."]
    lines += ["", "## Evidence", ""]
    for finding in findings.values():
        lines += _evidence(plan, finding, pictures.get(finding.gathered.name))
    lines += ["## Made with", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items() if value is not None]
    lines += ["", "## Again", "", "```sh", repeat, "```", "", "```toml", plan.text.strip(), "```"]
    return "\n".join(lines) + "\n"


def _evidence(plan: ProofPlan, finding: Finding, picture: str | None) -> list[str]:
    gathered = finding.gathered
    evidence = plan.evidence[gathered.name]
    lines = [f"### {gathered.name}", "", f"{finding.says}.", ""]
    lines += ["```sh"]
    if evidence.server is not None:
        server = plan.servers[evidence.server]
        lines += [f"# on {evidence.server}", _shell(server.command, server.env)]
    lines += [_shell(evidence.command, evidence.env), "```", ""]
    lines += [f"{gathered.seconds:,.0f} s. Log: `{gathered.log}`.", ""]
    if picture is not None:
        lines += [f"![{gathered.name}]({picture})", ""]
    if finding.markdown:
        lines += [finding.markdown.strip(), ""]
    return lines


def _shell(words: tuple[str, ...], env: Mapping[str, str]) -> str:
    """As a shell takes it, but for placeholders."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    return re.sub(r"'(\{[a-z_:-]+\})'", r"\1", " ".join([*settings, shlex.join(words)]))


def page(title: str, text: str, folder: Path) -> str:
    """The Markdown as an HTML page, its pictures (in ``folder``) inside."""
    from jinja2 import Environment
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    # Its links go to the headings of evidence, which have no ids in CommonMark.
    body = re.sub(r"<h3>([a-z0-9-]+)</h3>", r'<h3 id="\1">\1</h3>', body)
    body = re.sub(r"(<table>.*?</table>)", r'<div class="wide">\1</div>', body, flags=re.DOTALL)
    body = _IMAGE.sub(lambda match: f'src="{_data_uri(folder / match[1])}"', body)
    template = resources.files("onelaunch.proof.prove").joinpath("page.html").read_text()
    return Environment(autoescape=True).from_string(template).render(title=title, body=body)


def _data_uri(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def facts(where: Path) -> dict[str, str | None]:
    """Of this machine and of the working tree at ``where``."""
    from onelaunch.machine import device_name, versions
    from onelaunch.platform import detect

    platform = detect()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "device": f"{device_name(platform)} ({platform})",
        **versions(platform),
        "commit": _commit(where),
    }


def _commit(where: Path) -> str | None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(where), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + (", with uncommitted changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
