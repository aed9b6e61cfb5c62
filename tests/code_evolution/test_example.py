"""examples/code_evolution works as its README describes, with a local repository instead of the one on the network."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from analyzer import task
from analyzer.workplace import KINDS

EXAMPLE = Path(__file__).parents[2].resolve() / "examples" / "code_evolution"
README = (EXAMPLE / "README.md").read_text()
COMMANDS = [line[2:] for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
URL = "https://github.com/pallets/flask"


@pytest.mark.prove
@pytest.mark.timeout(120)
def test_every_command_of_the_readme_works(sample: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("HOLDFAST_URL", None)
    environment.pop("PYTHONPATH", None)
    output = ""
    for command in COMMANDS:
        words = shlex.split(command.replace(URL, f"file://{sample}"))
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        output = done.stdout
    assert output.count("completed") == 2
    assert {path.name for path in (tmp_path / "evolution").iterdir()} == {f"evolution.{kind}" for kind in KINDS}
    page = (tmp_path / "page" / "index.md").read_text()
    assert "# sample" in page
    assert re.search(r"^\| TypeScript \| [\d,]+ \|$", page, re.MULTILINE)
    assert (tmp_path / "page" / "evolution.svg").is_file()


def test_every_argument_is_explained() -> None:
    explained = set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE))
    names = task.analyze.__code__.co_varnames[: task.analyze.__code__.co_argcount + task.analyze.__code__.co_kwonlyargcount]
    assert explained == set(names) - {"job"}
