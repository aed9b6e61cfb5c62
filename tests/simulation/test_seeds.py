"""The engine in seeded worlds: no property breaks, and the same seed gives the same run in any interpreter."""

import os
import subprocess
import sys

import pytest

SIMULATE = [sys.executable, "-m", "proof.simulate"]


def _simulate(*words: str, hash_seed: str = "0") -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([*SIMULATE, *words], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.timeout(600)
def test_no_property_breaks_in_any_seed() -> None:
    output = _simulate("--seeds", "12", "--jobs", "2")
    assert "12 seeds, 0 failed" in output
    assert "0 inside the timing assumptions" in output


@pytest.mark.parametrize("seed", ["11", pytest.param("3", marks=pytest.mark.prove)])
def test_a_seed_decides_everything(seed: str) -> None:
    first, second = (_simulate("--seed", seed, hash_seed=hash_seed) for hash_seed in ("1", "2"))
    assert first == second
    assert "digest" in first
