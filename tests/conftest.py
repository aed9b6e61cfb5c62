"""What every test shares."""

import os

from hypothesis import settings

# A slow machine is not a failing property. Under CI=true Hypothesis chooses its own reproducible profile.
settings.register_profile("here", deadline=None)
if settings.get_current_profile_name() == "default":
    settings.load_profile("here")

# Tests look into files of running workers by sqlite3; one process must not open a file by two SQLite libraries. What
# apsw brings is tested by the contract suite.
os.environ["HOLDFAST_SQLITE"] = "python"
