"""The app that the demo's workers load; its store is named by HOLDFAST_URL."""

from holdfast import App
from holdfast.demo.task import register

app = App()
analyze = register(app)
