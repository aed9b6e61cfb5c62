"""Programs that read deployment files. Where one is missing, the test fails with what installs it."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm/holdfast"


def program(name: str, package: str) -> str:
    """Return the path of a program of this machine or of this environment; fail with what installs it."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    assert found, f"no {name}: {package}"
    return found


def require(module: str) -> None:
    """Fail with what installs a module, unless it is there."""
    assert find_spec(module), f"no {module}: pip install -e '.[deploy]', as `make prove` does"


def rendered(**values: Any) -> list[dict[str, Any]]:
    """Return the objects of the chart, as `helm template` renders it, by Helm's own library; ``AssertionError`` if it is refused."""
    from helm_python import Chart, lint  # noqa: PLC0415 – only `make prove` installs it

    report = lint(str(CHART), values, strict=True)
    assert report["errors"] == []
    assert {message["error"] for message in report["messages"]} <= {"icon is recommended"}
    with Chart.load(str(CHART)) as chart:
        texts = chart.render(values, name="shop", namespace="jobs")
    documents = [yaml.safe_load_all(text) for name, text in texts.items() if name.endswith(".yaml")]
    return [each for found in documents for each in found if each]
