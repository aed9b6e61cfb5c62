"""Programs that read deployment files. Where one is missing, the test fails with what installs it."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def program(name: str, package: str) -> str:
    """Return the path of a program of this machine or of this environment; fail with what installs it."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    assert found, f"no {name}: {package}"
    return found


def require(module: str) -> None:
    """Fail with what installs a module, unless it is there."""
    assert find_spec(module), f"no {module}: pip install -e '.[deploy]', as `make prove` does"
