"""Runs the blocks of one page as they come, in one namespace and in the current folder; a separate program, for `pages`."""

import json
import os
import sys
import traceback

DONE = "-- done "


def forget(written: list[str]) -> None:
    """Unload modules whose files were written again."""
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) in written:
            del sys.modules[name]


def main() -> None:
    """Run one JSON object per line of stdin; print a line with the exit code after each."""
    sys.path[0] = os.getcwd()
    sys.dont_write_bytecode = True
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line in sys.stdin:
        block, code = json.loads(line), 0
        forget(block["written"])
        try:
            exec(compile(block["code"], block["name"], "exec"), namespace)
        except BaseException:
            traceback.print_exc(file=sys.stdout)
            code = 1
        sys.stdout.write(f"{DONE}{code}\n")
        sys.stdout.flush()


main()
