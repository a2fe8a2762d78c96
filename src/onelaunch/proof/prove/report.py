"""The report of a plan: Markdown for a pull request, and one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from onelaunch.proof.prove.findings import Finding
from onelaunch.proof.prove.plan import ProofPlan

_OF_EACH = ("date", "server", "server version")  # of facts, what differs by itself from piece to piece
_IMAGE = re.compile(r'src="([^":]+\.png)"')


def verdicts(plan: ProofPlan, findings: Mapping[str, Finding]) -> list[bool]:
    """Of each claim: whether all its evidence holds."""
    return [all(findings[name].gathered.holds for name in claim.evidence) for claim in plan.claims]


def markdown(
    plan: ProofPlan,
    findings: Mapping[str, Finding],
    pictures: Mapping[str, str],
    repeat: str,
) -> str:
    """The whole report.

    Args:
        findings: by name, in the plan's order.
        pictures: file of each finding that is drawn, relative to the report.
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
    lines += _made_with(findings)
    fence = _fence(plan.text)
    lines += ["## Again", "", "```sh", repeat, "```", "", f"{fence}toml", plan.text.strip(), fence]
    return "\n".join(lines) + "\n"


def _evidence(plan: ProofPlan, finding: Finding, picture: str | None) -> list[str]:
    gathered = finding.gathered
    evidence = plan.evidence[gathered.name]
    lines = [f"### {gathered.name}", "", f"{finding.says}.", "", "```sh"]
    if evidence.server is not None:
        started = _settings(plan.servers[evidence.server].env) + gathered.facts["server"]
        lines += [f"# on {evidence.server}", started]
    lines += [_settings(evidence.env) + shlex.join(gathered.command), "```", ""]
    lines += [f"{gathered.seconds:,.0f} s. Log: `{gathered.log}`.", ""]
    if picture is not None:
        lines += [f"![{gathered.name}]({picture})", ""]
    if finding.markdown:
        lines += [finding.markdown.strip(), ""]
    return lines


def _settings(env: Mapping[str, str]) -> str:
    return "".join(f"{name}={shlex.quote(value)} " for name, value in env.items())


def _made_with(findings: Mapping[str, Finding]) -> list[str]:
    """What all evidence was gathered with; or, where that changed in between, which with what."""
    made: dict[tuple[tuple[str, str], ...], list[Finding]] = {}
    for finding in findings.values():
        same = tuple((k, v) for k, v in finding.gathered.facts.items() if k not in _OF_EACH)
        made.setdefault(same, []).append(finding)
    lines = ["## Made with", ""]
    if len(made) > 1:
        lines += ["**Not all evidence was gathered with the same.**", ""]
    for same, members in made.items():
        if len(made) > 1:
            lines += [f"{', '.join(one.gathered.name for one in members)}:", ""]
        dates = sorted(one.gathered.facts["date"] for one in members)
        lines += [f"- date: {dates[0]}" + (f" to {dates[-1]}" if dates[-1] != dates[0] else "")]
        lines += [f"- {name}: {value}" for name, value in same]
        told = dict.fromkeys(one.gathered.facts.get("server version") for one in members)
        lines += [f"- server version: {version}" for version in told if version is not None]
        lines.append("")
    return lines


def _fence(text: str) -> str:
    """Longer than any in ``text``."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)


def page(title: str, text: str, folder: Path) -> str:
    """The Markdown as an HTML page, its pictures (in ``folder``) inside."""
    from jinja2 import Environment
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    # Its links go to the headings of evidence, which have no ids in CommonMark.
    body = re.sub(r"<h3>([a-z0-9-]+)</h3>", r'<h3 id="\1">\1</h3>', body)
    body = re.sub(r"(<table>.*?</table>)", r'<div class="wide">\1</div>', body, flags=re.DOTALL)
    body = _IMAGE.sub(lambda match: _with_data(match, folder), body)
    template = resources.files("onelaunch.proof.prove").joinpath("page.html").read_text()
    return Environment(autoescape=True).from_string(template).render(title=title, body=body)


def _with_data(match: re.Match[str], folder: Path) -> str:
    """A picture of the report inside the page; another's address, of the plan's summary, as it is."""
    path = folder / match[1]
    if not path.is_file():
        return match[0]
    return f'src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"'
