"""Cases of nodes, transactions, watches, ACLs and four-letter commands."""

import os

from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import EventType
from kazoo.recipe.watchers import PatientChildrenWatch
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl, make_digest_acl
from suite import Events, Skip, equal, raises


def create_and_stat(case):
    zk = case.zk
    path, created = zk.create(case.path("a"), b"one", include_data=True)
    equal(case.path("a"), path)
    equal((0, 3, 0), (created.version, created.data_length, created.children_count))
    equal(created.czxid, created.last_modified_transaction_id)
    equal(1, zk.set(path, b"three", version=0).version)
    equal(case.path("a/b/c"), zk.create(case.path("a/b/c"), makepath=True))
    data, stat = zk.get(path)
    equal(b"three", data)
    equal((1, 1, 1), (stat.version, stat.cversion, stat.numChildren))
    children, parent = zk.get_children(path, include_data=True)
    equal((["b"], stat.czxid), (children, parent.czxid))
    zk.delete(path, recursive=True)
    equal(None, zk.exists(path))


def errors(case):
    zk = case.zk
    path = zk.create(case.path("a"))
    raises(NodeExistsError, zk.create, path)
    raises(NoNodeError, zk.create, case.path("missing/child"))
    raises(NoNodeError, zk.get, case.path("missing"))
    raises(NoNodeError, zk.set, case.path("missing"), b"")
    raises(BadVersionError, zk.set, path, b"", version=5)
    raises(BadVersionError, zk.delete, path, version=5)
    zk.create(path + "/b")
    raises(NotEmptyError, zk.delete, path)
    zk.create(case.path("e"), ephemeral=True)
    raises(NoChildrenForEphemeralsError, zk.create, case.path("e/child"))


def ephemeral_and_sequence(case):
    owner = case.connect()
    equal(case.path("n-0000000000"), owner.create(case.path("n-"), sequence=True))
    equal(case.path("n-0000000001"), owner.create(case.path("n-"), sequence=True, ephemeral=True))
    stat = case.zk.exists(case.path("n-0000000001"))
    equal(owner.client_id[0], stat.owner_session_id)
    owner.stop()
    equal(["n-0000000000"], case.zk.get_children(case.root))
    equal(case.path("n-0000000002"), case.zk.create(case.path("n-"), sequence=True))


def large_data(case):
    data = bytes(range(256)) * 4090
    client = case.connect()
    client.create(case.path("a"), data)
    equal(data, client.get(case.path("a"))[0])
    raises(ConnectionLoss, client.set, case.path("a"), bytes(1048576))
    equal(0, client.retry(client.exists, case.path("a")).version)


def async_calls(case):
    path = case.zk.create(case.path("a"))
    writes = [case.zk.set_async(path, b"%d" % i) for i in range(200)]
    read = case.zk.get_async(path)
    equal(list(range(1, 201)), [write.get(timeout=10).version for write in writes])
    equal(b"199", read.get(timeout=10)[0])
    raises(NoNodeError, case.zk.get_children_async(case.path("missing")).get, timeout=10)
    equal(case.root, case.zk.sync(case.root))


def transactions(case):
    zk = case.zk
    zk.create(case.path("old"))
    transaction = zk.transaction()
    transaction.check(case.path("old"), 0)
    transaction.create(case.path("a"), b"x")
    transaction.create(case.path("a/s-"), sequence=True, ephemeral=True)
    transaction.set_data(case.path("a"), b"y", version=0)
    transaction.delete(case.path("old"))
    results = transaction.commit()
    equal([True, case.path("a"), case.path("a/s-0000000000")], results[:3])
    equal(1, results[3].version)
    equal(True, results[4])
    equal(b"y", zk.get(case.path("a"))[0])

    transaction = zk.transaction()
    transaction.create(case.path("b"))
    transaction.create(case.path("a"))
    transaction.delete(case.path("missing"))
    kinds = [type(result) for result in transaction.commit()]
    equal([RolledBackError, NodeExistsError, RuntimeInconsistency], kinds)
    equal(None, zk.exists(case.path("b")))

    with zk.transaction() as transaction:
        transaction.create(case.path("c"))
    assert zk.exists(case.path("c"))


def watches(case):
    zk = case.zk
    exists, data, children, parent = Events(), Events(), Events(), Events()
    path = case.path("a")
    equal(None, zk.exists(path, watch=exists))
    zk.get_children(case.root, watch=parent)
    zk.create(path)
    equal((EventType.CREATED, path), exists.next()[0::2])
    equal((EventType.CHILD, case.root), parent.next()[0::2])
    zk.get(path, watch=data)
    zk.get_children(path, watch=children)
    zk.set(path, b"x")
    equal((EventType.CHANGED, path), data.next()[0::2])
    zk.create(path + "/b")
    equal((EventType.CHILD, path), children.next()[0::2])
    zk.get(path + "/b", watch=data)
    zk.get_children(path + "/b", watch=children)
    zk.delete(path + "/b")
    equal((EventType.DELETED, path + "/b"), data.next()[0::2])
    equal((EventType.DELETED, path + "/b"), children.next()[0::2])


def data_watch(case):
    seen = Events()
    case.zk.DataWatch(case.path("a"), lambda data, stat, event: seen((data, event and event.type)))
    equal((None, None), seen.next())
    case.zk.create(case.path("a"), b"1")
    equal((b"1", EventType.CREATED), seen.next())
    case.zk.set(case.path("a"), b"2")
    equal((b"2", EventType.CHANGED), seen.next())
    case.zk.delete(case.path("a"))
    equal((None, EventType.DELETED), seen.next())


def children_watch(case):
    seen = Events()
    case.zk.ChildrenWatch(case.root, lambda children: seen(sorted(children)))
    equal([], seen.next())
    case.zk.create(case.path("a"))
    equal(["a"], seen.next())
    case.zk.create(case.path("b"))
    equal(["a", "b"], seen.next())
    settled = PatientChildrenWatch(case.zk, case.root, time_boundary=0.1)
    children, changed = settled.start().get(timeout=10)
    equal(["a", "b"], sorted(children))
    case.zk.delete(case.path("a"))
    equal(["b"], seen.next())
    changed.get(timeout=10)


def acls(case):
    bob = case.connect(auth_data=[("digest", "bob:pw")])
    mine = make_digest_acl("bob", "pw", all=True)
    path = bob.create(case.path("a"), b"secret", acl=[mine])
    equal(b"secret", bob.get(path)[0])
    equal([mine], bob.get_acls(path)[0])
    anonymous = case.connect()
    raises(NoAuthError, anonymous.get, path)
    raises(NoAuthError, anonymous.set, path, b"")
    raises(NoAuthError, anonymous.set_acls, path, OPEN_ACL_UNSAFE)
    anonymous.add_auth("digest", "bob:pw")
    equal(b"secret", anonymous.get(path)[0])
    bob.set_acls(path, [mine] + READ_ACL_UNSAFE, version=0)
    reader = case.connect()
    equal("bob:x", reader.get_acls(path)[0][0].id.id)
    # kazoo sends the empty id of this scheme as null.
    bob.create(case.path("auth"), acl=[make_acl("auth", "", all=True)])
    equal([mine], bob.get_acls(case.path("auth"))[0])
    raises(InvalidACLError, reader.create, case.path("b"), acl=[make_acl("auth", "", all=True)])
    raises(InvalidACLError, reader.create, case.path("b"), acl=[make_acl("nonsense", "x", all=True)])
    reader.create(case.path("ip"), acl=[make_acl("ip", "127.0.0.0/8", all=True)])
    reader.create(case.path("elsewhere"), acl=[make_acl("ip", "10.0.0.1", all=True)])
    raises(NoAuthError, reader.get, case.path("elsewhere"))
    equal(b"", case.zk.get(case.path("elsewhere"))[0])


def default_acl(case):
    mine = make_digest_acl("eve", "1", all=True)
    client = case.connect(default_acl=[mine], auth_data=[("digest", "eve:1")])
    client.ensure_path(case.path("a/b"))
    equal([mine], client.get_acls(case.path("a"))[0])
    raises(NoAuthError, case.connect().get, case.path("a/b"))


def chroot(case):
    client = case.connect()
    client.chroot = case.root
    equal("/a", client.create("/a", b"x"))
    equal(b"x", case.zk.get(case.path("a"))[0])
    equal(["a"], client.get_children("/"))


def four_letter_commands(case):
    if "INTEROP_TLS_CA" in os.environ:
        raise Skip("kazoo cannot read the replies over TLS")
    equal("imok", case.zk.command(b"ruok"))
    assert "Mode: standalone" in case.zk.command(b"srvr")
    assert case.zk.command(b"mntr").startswith("zk_version\t")
    assert "clientPort=" in case.zk.command(b"conf")
    assert 2 <= case.zk.server_version()[1]
    for command in (b"stat", b"cons", b"dump", b"envi", b"wchs", b"wchc", b"wchp", b"dirs", b"isro", b"hash", b"gtmk"):
        assert case.zk.command(command), command


CASES = [
    create_and_stat,
    errors,
    ephemeral_and_sequence,
    large_data,
    async_calls,
    transactions,
    watches,
    data_watch,
    children_watch,
    acls,
    default_acl,
    chroot,
    four_letter_commands,
]
