"""Is everything as it must be? ``python check.py`` prints the answer as JSON; its exit code is 1 while something is wrong."""

import json
import sys
from typing import Any

from bucket import Bucket
from cache import Cache
from tables import connected

WRONG = {
    "expired pastes that are not deleted": "SELECT count(*) FROM pastes WHERE expires_at < CURRENT_TIMESTAMP AND status <> 'DELETED'",
    "live pastes that are not live": "SELECT count(*) FROM pastes WHERE expires_at >= CURRENT_TIMESTAMP AND status <> 'LIVE'",
    "rows in progress": "SELECT (SELECT count(*) FROM pastes WHERE status = 'DELETING') + "
    "(SELECT count(*) FROM contents WHERE status = 'DELETING')",
    "wrong counts": "SELECT count(*) FROM contents WHERE uses <> "
    "(SELECT count(*) FROM pastes WHERE content = contents.id AND status <> 'DELETED')",
    "contents whose state is not that of their count": "SELECT count(*) FROM contents WHERE (uses > 0) <> (status = 'LIVE')",
    "contents that nobody uses and that are not gone": "SELECT count(*) FROM contents WHERE uses = 0 AND status <> 'GONE'",
}
COUNTS = {
    "pastes": "SELECT status, count(*) FROM pastes GROUP BY status",
    "contents": "SELECT status, count(*) FROM contents GROUP BY status",
}


def main() -> None:
    with connected() as connection:
        found: dict[str, Any] = {what: dict(connection.execute(sql).fetchall()) for what, sql in COUNTS.items()}
        wrong = {what: connection.execute(sql).fetchone()[0] for what, sql in WRONG.items()}
        live = {name for (name,) in connection.execute("SELECT object FROM contents WHERE status = 'LIVE'").fetchall()}
        deleted = {paste for (paste,) in connection.execute("SELECT id FROM pastes WHERE status = 'DELETED'").fetchall()}
    objects, cached = Bucket().names(), Cache().pastes()
    wrong |= {
        "objects of live pastes that are missing": len(live - objects),
        "objects that nobody needs": len(objects - live),
        "deleted pastes in the cache": len(deleted & cached),
    }
    found |= {"objects": len(objects), "cached": len(cached), "wrong": {what: count for what, count in wrong.items() if count}}
    print(json.dumps(found))
    sys.exit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()
