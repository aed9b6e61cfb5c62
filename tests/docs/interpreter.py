"""Runs the blocks of one page as they come, in one namespace and in the current folder; a program of its own, for `pages`."""

import json
import os
import sys
import traceback

DONE = "-- done "


def forget_modules_of(folder: str) -> None:
    """A later block may have written another file of the same name."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(folder + os.sep):
            del sys.modules[name]


def main() -> None:
    """One JSON object per line of stdin; afterwards a line with the exit code."""
    sys.path[0] = folder = os.getcwd()
    sys.dont_write_bytecode = True
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line in sys.stdin:
        block, code = json.loads(line), 0
        forget_modules_of(folder)
        try:
            exec(compile(block["code"], block["name"], "exec"), namespace)
        except BaseException:
            traceback.print_exc()
            code = 1
        print(f"{DONE}{code}", flush=True)


main()
