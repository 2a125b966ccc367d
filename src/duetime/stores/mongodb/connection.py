"""The connection to MongoDB: the driver's client, and what every call of ours runs with.

What is written is acknowledged once it is in the journals of a majority; what is read has been
acknowledged by one. The driver repeats what failed on the way, until its time is up: it numbers
its writes, and a server that has done one already answers what came of it and does nothing.
"""

from typing import Any, TypeAlias

from pymongo import AsyncMongoClient, ReadPreference, WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.read_concern import ReadConcern

from duetime.stores.mongodb.address import Address
from duetime.stores.mongodb.numbering import Numbering

Document: TypeAlias = dict[str, Any]
Client: TypeAlias = AsyncMongoClient[Document]
Database: TypeAlias = AsyncDatabase[Document]
Collection: TypeAlias = AsyncCollection[Document]
Session: TypeAlias = AsyncClientSession

# Seconds.
CONNECT_WITHIN = 5.0
ANSWER_WITHIN = 15.0
QUICK_WITHIN = 3.0  # for a heartbeat: a third of what a node is given by default
# A member that hangs is noticed after this and CONNECT_WITHIN. Then the driver lets go of what it
# waits for there, and asks the next primary, while there is time left to answer.
LOOK_EVERY = 2.0

# Connections beside those for timers and for lists: heartbeats, barriers, news, and some to settle
# with. Each has its own, so that none waits behind what is busy.
_OTHERS = 8

DURABLE = WriteConcern("majority", j=True)


def searches_at_once(address: Address) -> int:
    """How many lists may be asked for at once: they may take long."""
    return max(address.pool_size // 3, 1)


def connect(address: Address) -> Client:
    """Make the client; it opens connections as they are needed."""
    wait = int(CONNECT_WITHIN * 1000)
    # An election may take as long as an answer: nobody gives up before his own time is over.
    elect = int(ANSWER_WITHIN * 1000)
    return AsyncMongoClient(
        address.uri,
        maxPoolSize=address.pool_size + searches_at_once(address) + _OTHERS,
        connectTimeoutMS=wait,
        serverSelectionTimeoutMS=elect,
        heartbeatFrequencyMS=int(LOOK_EVERY * 1000),
        waitQueueTimeoutMS=wait,
        retryWrites=True,
        retryReads=True,
        event_listeners=[Numbering()],
    )


def database_of(client: Client, address: Address) -> Database:
    """The database that the address names."""
    return client.get_database(
        address.database,
        write_concern=DURABLE,
        read_concern=ReadConcern("majority"),
        read_preference=ReadPreference.PRIMARY,
    )
