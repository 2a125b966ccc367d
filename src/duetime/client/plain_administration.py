"""The plain client's methods about more than one timer: tenants, groups, targets, actions."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Unpack

from duetime.client import (
    action_calls,
    audit_calls,
    credential_calls,
    secret_calls,
    target_calls,
    tenancy_calls,
)
from duetime.client.action_types import Action, ActionName, Actions, TimerFilter
from duetime.client.audit_types import AuditExportFilters, AuditFilters, AuditLine, AuditPage
from duetime.client.calls import AnswerT, Call
from duetime.client.credential_types import (
    Credential,
    CredentialChange,
    Credentials,
    NewCredential,
)
from duetime.client.secret_types import (
    MadeSigningSecret,
    NewSigningSecret,
    Resealed,
    SigningSecrets,
)
from duetime.client.target_types import Target, TargetChange, Targets
from duetime.client.tenancy_types import (
    Deleted,
    Group,
    GroupChange,
    Groups,
    Key,
    Keys,
    MadeKey,
    NewGroup,
    NewKey,
    NewTenant,
    Revoked,
    Tenant,
    TenantChange,
    Tenants,
    Usage,
    Whoami,
)
from duetime.client.types import TimerChange


class Administration(ABC):
    """What ``Client`` can do besides timers."""

    @abstractmethod
    def send(self, call: Call[AnswerT]) -> AnswerT:
        """Make a call."""

    @abstractmethod
    def lines(self, call: Call[bytes]) -> Iterator[bytes]:
        """Make a call whose answer is lines."""

    def create_tenant(self, **tenant: Unpack[NewTenant]) -> Tenant:
        return self.send(tenancy_calls.create_tenant(tenant))

    def tenants(self) -> Tenants:
        return self.send(tenancy_calls.tenants())

    def get_tenant(self, name: str) -> Tenant:
        return self.send(tenancy_calls.get_tenant(name))

    def update_tenant(self, name: str, **change: Unpack[TenantChange]) -> Tenant:
        """Change a tenant; what is not named stays as it is."""
        return self.send(tenancy_calls.update_tenant(name, change))

    def delete_tenant(self, name: str) -> Deleted:
        """Take a tenant away, with its keys and groups; refused while timers of it wait."""
        return self.send(tenancy_calls.delete_tenant(name))

    def create_key(self, tenant: str, **key: Unpack[NewKey]) -> MadeKey:
        """Make a key; its ``key`` is told in this answer, and never again."""
        return self.send(tenancy_calls.create_key(tenant, key))

    def keys(self, tenant: str) -> Keys:
        return self.send(tenancy_calls.keys(tenant))

    def get_key(self, tenant: str, id_: str) -> Key:
        return self.send(tenancy_calls.get_key(tenant, id_))

    def rotate_key(self, tenant: str, id_: str, *, valid_for: str | None = None) -> MadeKey:
        """Make another key for the same; the old one stays valid for so long (default: 24h)."""
        return self.send(tenancy_calls.rotate_key(tenant, id_, valid_for))

    def revoke_key(self, tenant: str, id_: str) -> Revoked:
        return self.send(tenancy_calls.revoke_key(tenant, id_))

    def create_signing_secret(self, **secret: Unpack[NewSigningSecret]) -> MadeSigningSecret:
        """Make a signing secret; its ``secret`` is told in this answer, and never again."""
        return self.send(secret_calls.create_signing_secret(secret))

    def signing_secrets(self, *, group: str | None = None) -> SigningSecrets:
        """All of the tenant and its groups, or those of one group."""
        return self.send(secret_calls.signing_secrets(group))

    def rotate_signing_secret(
        self, id_: str, *, valid_for: str | None = None, secret: str | None = None
    ) -> MadeSigningSecret:
        """Make another secret; callbacks are signed with the old one too for so long (24h)."""
        return self.send(secret_calls.rotate_signing_secret(id_, valid_for, secret))

    def revoke_signing_secret(self, id_: str) -> Revoked:
        return self.send(secret_calls.revoke_signing_secret(id_))

    def reseal_secrets(self) -> Resealed:
        """Seal all secrets of all tenants with the newest key; for the operator."""
        return self.send(secret_calls.reseal_secrets())

    def create_group(self, **group: Unpack[NewGroup]) -> Group:
        return self.send(tenancy_calls.create_group(group))

    def groups(self) -> Groups:
        return self.send(tenancy_calls.groups())

    def get_group(self, name: str) -> Group:
        return self.send(tenancy_calls.get_group(name))

    def put_group(self, name: str, **change: Unpack[GroupChange]) -> Group:
        """Create a group or change it; what is not named stays as it is."""
        return self.send(tenancy_calls.put_group(name, change))

    def delete_group(self, name: str, *, cancel: bool = False) -> Deleted:
        """Take a group away; refused while timers of it wait, unless they are to be canceled."""
        return self.send(tenancy_calls.delete_group(name, cancel=cancel))

    def pause_group(self, name: str) -> Group:
        """Start nothing of a group until it is resumed; waits until every node obeys.

        ``exchange`` also tells, by the status 202, if not all nodes have confirmed it in time.
        """
        return self.send(tenancy_calls.pause_group(name))

    def resume_group(self, name: str) -> Group:
        """Start timers of a group again; ``on_resume`` says what becomes of those it held back."""
        return self.send(tenancy_calls.resume_group(name))

    def create_credential(self, **credential: Unpack[NewCredential]) -> Credential:
        """Make a credential; its secret is never told again."""
        return self.send(credential_calls.create_credential(credential))

    def credentials(self) -> Credentials:
        return self.send(credential_calls.credentials())

    def get_credential(self, name: str) -> Credential:
        return self.send(credential_calls.get_credential(name))

    def put_credential(self, name: str, **change: Unpack[CredentialChange]) -> Credential:
        """Create a credential or change it, its secret too; what is not named stays as it is."""
        return self.send(credential_calls.put_credential(name, change))

    def delete_credential(self, name: str) -> Deleted:
        """Take a credential away; timers that name it fail from then on."""
        return self.send(credential_calls.delete_credential(name))

    def targets(self) -> Targets:
        """The receivers that there is something to tell of, by host and port."""
        return self.send(target_calls.targets())

    def get_target(self, name: str) -> Target:
        return self.send(target_calls.get_target(name))

    def put_target(self, name: str, **change: Unpack[TargetChange]) -> Target:
        """Limit a target; what is not named stays as it is."""
        return self.send(target_calls.put_target(name, change))

    def pause_target(
        self,
        name: str,
        *,
        until: str | None = None,
        for_: str | None = None,
        reason: str | None = None,
    ) -> Target:
        """Send nothing to a target, until a time, for a while, or until it is resumed.

        Waits until every node obeys; ``exchange`` also tells, by the status 202, if not all nodes
        have confirmed it in time.
        """
        return self.send(target_calls.pause_target(name, until=until, for_=for_, reason=reason))

    def resume_target(self, name: str) -> Target:
        """Send to a target again, be it paused or failing."""
        return self.send(target_calls.resume_target(name))

    def forget_target(self, name: str) -> Deleted:
        """Forget the limits of a target, and that it is paused."""
        return self.send(target_calls.forget_target(name))

    def whoami(self) -> Whoami:
        """What the key is good for, and which tenant it acts for."""
        return self.send(tenancy_calls.whoami())

    def usage(self) -> Usage:
        """How much the tenant has, and how much it may have."""
        return self.send(tenancy_calls.usage())

    def start_action(
        self,
        action: ActionName,
        which: TimerFilter,
        *,
        dry_run: bool = False,
        by: str | None = None,
        update: TimerChange | None = None,
        idempotency_key: str | None = None,
    ) -> Action:
        """Begin to do something to all timers that match; ``get_action`` tells how far it is.

        ``by`` belongs to "shift", ``update`` to "update". A dry run only counts. The same call
        again with the same ``idempotency_key`` answers with what the first one began.
        """
        return self.send(
            action_calls.start_action(
                action, which, idempotency_key, dry_run=dry_run, by=by, update=update
            )
        )

    def redrive_all(
        self, which: TimerFilter, *, dry_run: bool = False, idempotency_key: str | None = None
    ) -> Action:
        """Try all failed timers that match again; ``get_action`` tells how far it is."""
        return self.send(action_calls.redrive_all(which, idempotency_key, dry_run=dry_run))

    def actions(self) -> Actions:
        return self.send(action_calls.actions())

    def get_action(self, id_: str) -> Action:
        return self.send(action_calls.get_action(id_))

    def cancel_action(self, id_: str) -> Action:
        """Stop an action; what it has changed stays changed."""
        return self.send(action_calls.cancel_action(id_))

    def audit(self, **filters: Unpack[AuditFilters]) -> Iterator[AuditLine]:
        """All lines that match, page by page; ``limit`` is the size of a page."""
        following: AuditFilters | None = filters
        while following is not None:
            page = self.send(audit_calls.audit_page(following))
            yield from page["lines"]
            following = audit_calls.next_audit_page(following, page)

    def audit_page(self, **filters: Unpack[AuditFilters]) -> AuditPage:
        """One page of the audit, with the cursor of the next one."""
        return self.send(audit_calls.audit_page(filters))

    def export_audit(self, **filters: Unpack[AuditExportFilters]) -> Iterator[bytes]:
        """All lines that match in one answer, each as JSON as it arrives, without line ends."""
        return self.lines(audit_calls.export_audit(filters))
