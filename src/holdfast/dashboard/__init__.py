"""The dashboard: pages that show what is in a store, as an ASGI app. They change nothing unless actions are switched on.

``views/`` prepares the values of each page from what the App reads; ``templates/`` have loops and conditions only, and escape everything.
Change freely: pages, words, looks. Do not change: the guard before each page, the policy against scripts, the masks of sensitive values.
A mistake fails `tests/dashboard`.
"""

from holdfast.dashboard.dashboard import Dashboard as Dashboard
from holdfast.http.authentication import basic as basic
from holdfast.http.authentication import bearer as bearer
from holdfast.http.authentication import header as header
from holdfast.http.identity import Identity as Identity
