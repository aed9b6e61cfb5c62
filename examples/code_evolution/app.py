"""How did the code of a repository evolve? One task, and it survives the death of its worker.

pip install 'holdfast[demo]', then as README.md says.
"""

from holdfast import App
from holdfast.demo.task import register

app = App("sqlite:///evolution.db")
register(app)
