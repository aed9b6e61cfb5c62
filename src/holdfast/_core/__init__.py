"""Values and decisions as pure functions: jobs, leases, outcomes, transitions, policies, timing.

`lifecycle` decides which transition an outcome leads to; `record` applies it to a job. `timing` has every timer rule of ownership.
`book` is the reference store without clock, lock or asyncio.
Nothing here does I/O, reads a clock or is random: the caller passes the time.
Change freely: messages and values. Do not change without reading the promises in docs/promises.md: a transition or a budget.
A mistake fails `tests/core`; a wrong decision fails the models, `tests/contract` and `tests/simulation` as well.
"""
