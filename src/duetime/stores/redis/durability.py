"""What the server must promise before timers are entrusted to it: its settings are asked for."""

from redis.exceptions import ResponseError

from duetime.errors import ConfigurationError
from duetime.stores.redis.link import Link

OLDEST = 7

# By the setting's name: what it must be, and why.
_NEEDED = {
    "appendonly": ("yes", "or else a restart forgets what was acknowledged"),
    "appendfsync": ("always", "or else a crash of the machine forgets what was acknowledged"),
    "no-appendfsync-on-rewrite": (
        "no",
        "or else nothing is on the disk while the file is rewritten",
    ),
}


async def check(link: Link, *, is_checked: bool) -> None:
    """ConfigurationError names what keeps the server from being a safe place for timers."""
    server = await link.info("server")
    version = server["redis_version"]
    if int(version.partition(".")[0]) < OLDEST:
        raise ConfigurationError(f"Redis {OLDEST}.0 or newer is needed, and this is {version}")
    if (await link.info("cluster")).get("cluster_enabled") == "1":
        raise ConfigurationError("Redis Cluster cannot hold timers: use a single server")
    if (await link.info("replication"))["role"] != "master":
        raise ConfigurationError("this Redis server is a replica: name the one that writes")
    if is_checked:
        await _check_settings(link)


async def _check_settings(link: Link) -> None:
    try:
        flat = await link.ask("CONFIG", "GET", *_NEEDED, "maxmemory-policy")
    except ResponseError as error:
        raise ConfigurationError(
            "Redis does not tell whether an acknowledged write is on its disk, since CONFIG GET is "
            "refused: allow it to this user, or make sure of it and put durability=unchecked into "
            "DATABASE_URL"
        ) from error
    texts = [each.decode() for each in flat]
    found = dict(zip(texts[::2], texts[1::2], strict=True))
    for name, (needed, why) in _NEEDED.items():
        if found.get(name) != needed:
            raise ConfigurationError(
                f"{name}: it is {found.get(name)} at this Redis server, and must be {needed}, {why}"
            )
    policy = found.get("maxmemory-policy", "")
    if policy.startswith("allkeys"):  # the others leave alone what does not expire
        raise ConfigurationError(
            f"maxmemory-policy: it is {policy} at this Redis server, which drops timers when "
            "memory is short; it must be noeviction"
        )
