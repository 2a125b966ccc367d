"""Orphans: signing secrets whose group is gone.

From the moment that a group is gone nothing is signed with its secrets, also not by a group that
gets its name (``signing_secret.by_owner``). Here they are taken away, so that they fill no memory.
"""

from duetime.tenancy.group import Group, name_of
from duetime.tenancy.rules import Kept, Rules
from duetime.tenancy.signing_secret import SigningSecret, group_since
from duetime.timer import DEFAULT_GROUP


async def forget_group(rules: Rules, group: Group) -> None:
    """Take away the secrets of a group that was deleted; not those of one that got its name."""
    since = group_since(group)
    await _take_away(
        rules,
        [
            kept
            for kept in rules.signing_secrets.all()
            if kept.document.owner == (group.tenant, group.name)
            and kept.document.group_since == since
        ],
    )


async def forget_orphans(rules: Rules, tenant: str) -> None:
    """Take away what is left in a tenant of groups whose node has died as it deleted them."""
    await _take_away(
        rules,
        [
            kept
            for kept in rules.signing_secrets.all()
            if kept.document.tenant == tenant and _is_orphan(rules, kept.document)
        ],
    )


def _is_orphan(rules: Rules, secret: SigningSecret) -> bool:
    """Tell whether the group of a secret is known to be gone; one may not be known yet."""
    if secret.group is None or secret.group == DEFAULT_GROUP or secret.group_since is None:
        return False
    group = rules.groups.find(name_of(secret.tenant, secret.group))
    if group is None or group.created_at < secret.group_since:
        return False
    return group.created_at > secret.group_since or group.deleted_at is not None


async def _take_away(rules: Rules, gone: list[Kept[SigningSecret]]) -> None:
    if gone:
        changes = [(kept.record.name, kept, None) for kept in gone]
        await rules.put_all(rules.signing_secrets, changes)
