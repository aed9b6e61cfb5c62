"""What a claim brings along in SQL stores: the small results that its job takes, so that no call follows for them."""

from holdfast._core.member import OnFailure
from holdfast._core.outcome import Done
from holdfast.testing.contracts.scene import Scene
from holdfast.testing.contracts.workflow_scene import FAILED, Graph


async def brings_small_results(at: Scene) -> None:
    """Run parents of every kind, and check which of their results a claim brings."""
    outcomes = {"small": Done(b"[1]"), "large": Done(b'"%s"' % (b"x" * 1100)), "nothing": Done(None), "failed": FAILED}
    graph = Graph(at).add("other")
    for name in outcomes:
        graph.add(name, on_failure=OnFailure.CONTINUE)
    await graph.add("takes", "other", *outcomes, takes=[*outcomes]).add("waits", *outcomes).stored()
    await graph.run("other", outcome=Done(b"[2]"))
    for name, outcome in outcomes.items():
        await graph.run(name, outcome=outcome)
    claims = await at.claim(await at.lease(), 2, ids=[graph.ids["takes"], graph.ids["waits"]])
    assert {each.job.id: each.results for each in claims} == {
        graph.ids["takes"]: (b"[1]", None, None, None),
        graph.ids["waits"]: (),
    }
