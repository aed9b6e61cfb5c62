"""How did the code of a repository evolve? The analyzer in your App, where it survives the death of its worker.

In this folder of a clone: pip install '../..[demo]', then see README.md.
"""

from pathlib import Path

from analyzer.errors import BadRepository
from analyzer.task import analyze, register

from holdfast import App, Job

app = App("sqlite:///evolution.db")
register(app)  # the analysis as it is: app.enqueue("analyze", repo=..., out=...)


@app.task(fail_for=(BadRepository,), progress_within="5m")
async def report(job: Job, repo: str, out: str) -> dict[str, object]:
    """Make the analysis a part of something larger: its result becomes a page beside the chart.

    The job is handed on, so progress, checkpoints and cancellation are this job's. An attempt that comes after the analysis was
    finished gets its result at once, so only the last lines run again – and they give the same page.
    """
    found = await analyze(job, repo, out, max_commits=300)
    return {"page": write_page(found, out), "commits": found["commits"]}


def write_page(found: dict[str, object], out: str) -> str:
    languages = found["languages"]
    assert isinstance(languages, dict)
    lines = [f"# {found['name']}", "", "![lines per language](evolution.svg)", "", "| language | lines |", "|---|---|"]
    lines += [f"| {language} | {count:,} |" for language, count in languages.items()]
    page = Path(out, "index.md").absolute()
    page.write_text("\n".join(lines) + "\n")
    return str(page)
