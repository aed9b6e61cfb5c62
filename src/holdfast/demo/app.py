"""The app that the demo's workers load: HOLDFAST_URL names its store, HOLDFAST_DEMO_TRANSPORT how its workers wake each other."""

import os

from holdfast.demo.stage import TRANSPORT, open_app
from holdfast.demo.task import register

app = open_app(os.environ.get("HOLDFAST_URL", ""), os.environ.get(TRANSPORT) or None)
analyze = register(app)
