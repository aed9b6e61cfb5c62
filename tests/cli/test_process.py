"""A worker process stays small, and its options are what was typed."""

import os
import subprocess
import sys

import pytest

from holdfast import ConfigurationError
from holdfast._processes.worker import ProcessOptions


def test_a_worker_process_needs_neither_click_nor_rich() -> None:
    code = "import sys, holdfast._processes.worker; print(sorted({'click', 'rich', 'sqlite3'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_is_the_command_where_no_script_of_it_is_on_the_path() -> None:
    done = subprocess.run([sys.executable, "-m", "holdfast", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("holdfast, version ")


def test_defaults_and_an_explicit_concurrency() -> None:
    worker = ProcessOptions.of(None, None, "info", "text").worker
    assert (worker.concurrency, worker.threads, worker.queues) == (100, min(32, 4 * (os.cpu_count() or 1)), None)
    worker = ProcessOptions.of(5, "a, b", "info", "text").worker
    assert (worker.concurrency, worker.threads, worker.queues) == (5, 5, ("a", "b"))


def test_a_queue_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        ProcessOptions.of(None, "a b,,c", "info", "text")
    assert len(caught.value.problems) == 2
