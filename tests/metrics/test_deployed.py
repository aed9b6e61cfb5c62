"""The alerts and the dashboard that are shipped use metrics that exist, and each alert is described."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast._core.metrics import METRICS, Kind

ROOT = Path(__file__).parents[2]
RULES, DASHBOARD = ROOT / "deploy/prometheus/rules.yml", ROOT / "deploy/grafana/holdfast.json"
SUFFIXES = {
    Kind.COUNTER: ("_total",),
    Kind.SECONDS: ("_bucket", "_sum", "_count"),
    Kind.BYTES: ("_bucket", "_sum", "_count"),
    Kind.GAUGE: ("",),
}
NAMES = {f"holdfast_{name}{suffix}": metric for name, metric in METRICS.items() for suffix in SUFFIXES[metric.kind]}
ALERTS = re.findall(r"alert: (\w+)", RULES.read_text())


@pytest.mark.parametrize("file", [RULES, DASHBOARD], ids=lambda file: file.name)
def test_only_metrics_and_labels_are_named_that_exist(file: Path) -> None:
    text = file.read_text()
    used = set(re.findall(r"\bholdfast_\w+", text))
    assert len(used) > 10
    assert not used - NAMES.keys()
    for name, matchers in re.findall(r"\b(holdfast_\w+)\{([^}]*)\}", text.replace('\\"', '"')):
        labels = set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", matchers))
        assert labels <= {*NAMES[name].labels}, name


def test_each_alert_has_a_section_and_two_cases() -> None:
    sections = re.findall(r"^## (Holdfast\w+)", (ROOT / "docs/operations/alerts.md").read_text(), re.MULTILINE)
    assert sections == ALERTS
    cases = re.findall(r"alertname: (\w+)\n.*\n        exp_alerts:(.*)", (ROOT / "deploy/prometheus/rules_test.yml").read_text())
    assert sorted(cases) == sorted((alert, ending) for alert in ALERTS for ending in ("", " []"))


@pytest.fixture(scope="module")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return Prometheus' own tool: that of this machine, or of the Debian package, which is unpacked and not installed."""
    if (found := shutil.which("promtool")) is not None:
        return found
    folder = tmp_path_factory.mktemp("prometheus")
    subprocess.run(
        ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", "prometheus"], cwd=folder, check=True, timeout=120
    )
    (package,) = folder.glob("*.deb")
    subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True, timeout=60)
    return str(folder / "usr/bin/promtool")


@pytest.mark.prove
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "arguments", [("check", "rules", "rules.yml"), ("test", "rules", "rules_test.yml")], ids=lambda words: words[0]
)
def test_prometheus_itself_accepts_the_rules_and_each_alert_fires_and_is_silent(
    promtool: str, arguments: tuple[str, ...]
) -> None:
    done = subprocess.run([promtool, *arguments], cwd=RULES.parent, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


SCALING = """
rule_files: [rules.yml]
tests:
  - interval: 1m
    input_series:
      - {series: 'holdfast_queue_backlog{queue="mail",pod="a"}', values: '7 7 7'}
      - {series: 'holdfast_queue_backlog{queue="mail",pod="b"}', values: '7 7 7'}
      - {series: 'holdfast_queue_backlog{queue="other",pod="a"}', values: '9 9 9'}
      - {series: 'holdfast_queue_paused{queue="mail",pod="a"}', values: '0 0 1'}
      - {series: 'holdfast_queue_paused{queue="mail",pod="b"}', values: '0 0 1'}
    promql_expr_test:
      - {expr: wanted, eval_time: 1m, exp_samples: [{labels: wanted, value: 7}]}
      - {expr: wanted, eval_time: 2m, exp_samples: []}
"""


@pytest.mark.prove
@pytest.mark.timeout(240)
def test_prometheus_counts_a_queue_once_for_the_scaler_and_not_while_it_is_paused(promtool: str, tmp_path: Path) -> None:
    template = (ROOT / "deploy/helm/holdfast/templates/scaledobject.yaml").read_text()
    (query,) = re.findall(r"query: (max\(.*)", template)
    expression = query.replace("{{ .Values.keda.queue }}", "mail")
    (tmp_path / "rules.yml").write_text(f"groups: [{{name: a, rules: [{{record: wanted, expr: '{expression}'}}]}}]")
    (tmp_path / "test.yml").write_text(SCALING)
    words = [promtool, "test", "rules", "test.yml"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
