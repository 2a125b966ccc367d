"""Real servers for tests and benchmarks: found or fetched, started, shared, and never left behind.

| file | its noun |
|---|---|
| `install.py` | the programs of a server, wherever they come from |
| `debian.py` | Debian's packages, unpacked into `.cache/servers` without installing them |
| `java.py` | a Java runtime, and programs from Maven Central |
| `eatmydata.py` | a library that spares a program waiting for the disk |
| `certificates.py` | what servers with TLS show of themselves |
| `account.py` | who a server runs as, since PostgreSQL refuses to run as root |
| `keeper.py`, `kept.py` | what ends a server whose owner is gone, and the owner's side of it |
| `server.py` | a server: started, stopped, crashed, paused |
| `installed.py` | one whose program is part of an install |
| `postgres.py`, `pgbouncer.py`, `mysql.py`, `nats.py`, ... | one kind each, or one family |
| `pool.py` | databases that are lent to one test after the other |
| `mongodb_set.py` | three MongoDB servers that are one |
| `cassandra_ring.py` | three Cassandra servers that are one cluster |
| `kinds.py` | the kinds there are |
| `processes.py` | the processes of this machine |
| `desk.py` | one server of each kind, shared by the processes of a test run |
| `fixtures.py` | what pytest sees of all this; nothing else here knows pytest |

`python -m tests.servers` fetches all of them ahead of time.
"""
