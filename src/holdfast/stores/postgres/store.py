"""The PostgreSQL store: what its three halves say together."""

from holdfast.stores.postgres.keeping import Keeping
from holdfast.stores.postgres.moving import Moving
from holdfast.stores.postgres.owning import Owning
from holdfast.stores.postgres.reading import Reading
from holdfast.stores.postgres.sharing import Sharing


class PostgresStore(Moving, Sharing, Owning, Reading, Keeping):
    """Jobs in one schema of a PostgreSQL database; nothing is opened until first used."""
