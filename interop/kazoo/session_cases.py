"""Cases of sessions during lost connections, expiry and server restarts."""

from kazoo.exceptions import SessionExpiredError
from kazoo.protocol.states import KazooState
from fixture import ExternalServer
from suite import Events, Skip, equal, eventually, raises

SHORT_TIMEOUT_S = 2.0


def session_restart(case):
    client = case.connect()
    first = client.client_id
    client.create(case.path("e"), ephemeral=True)
    client.restart()
    assert client.client_id != first, "a new session"
    equal(None, client.exists(case.path("e")))


def reattach(case):
    first = case.connect_by_proxy()
    first.create(case.path("e"), b"mine", ephemeral=True)
    session = first.client_id
    case.command("block")
    second = case.connect(client_id=session)
    equal(session, second.client_id)
    equal(b"mine", second.get(case.path("e"))[0])
    second.delete(case.path("e"))


def lost_connection(case):
    client = case.connect_by_proxy()
    states = Events()
    client.add_listener(states)
    seen = Events()
    client.create(case.path("a"), b"1")
    client.DataWatch(case.path("a"), lambda data, stat: seen(data))
    equal(b"1", seen.next())
    session = client.client_id
    case.command("block")
    equal(KazooState.SUSPENDED, states.next())
    case.zk.set(case.path("a"), b"2")
    case.command("open")
    equal(KazooState.CONNECTED, states.next())
    equal(session, client.client_id)
    equal(b"2", seen.next())
    case.zk.set(case.path("a"), b"3")
    equal(b"3", seen.next())


def expiry(case):
    client = case.connect_by_proxy(timeout=SHORT_TIMEOUT_S)
    states = Events()
    client.add_listener(states)
    session = client.client_id
    client.create(case.path("e"), ephemeral=True)
    gone = Events()
    case.zk.exists(case.path("e"), watch=gone)
    case.command("block")
    equal(KazooState.SUSPENDED, states.next())
    equal(case.path("e"), gone.next().path)
    case.command("open")
    equal(KazooState.LOST, states.next())
    equal(KazooState.CONNECTED, states.next())
    assert client.client_id != session, "a new session"


def wrong_password(case):
    owner = case.connect()
    number, password = owner.client_id
    other = case.connect(client_id=(number, bytes(16)))
    # The server refuses the session, and kazoo opens a new one.
    assert other.client_id[0] != number, "the session is refused"


def request_after_stop(case):
    client = case.connect()
    client.stop()
    raises(SessionExpiredError, client.get_async(case.root).get, timeout=5)


def server_restart(case):
    client = case.connect_by_proxy()
    session = client.client_id
    client.create(case.path("e"), b"mine", ephemeral=True)
    client.create(case.path("a"), b"1")
    seen = Events()
    client.DataWatch(case.path("a"), lambda data, stat: seen(data))
    equal(b"1", seen.next())
    try:
        case.command("restart")
    except ExternalServer as why:
        raise Skip(why)
    equal(b"mine", client.retry(client.get, case.path("e"))[0])
    equal(session, client.client_id)
    eventually("the other client is connected again", lambda: case.zk.connected)
    case.zk.retry(case.zk.set, case.path("a"), b"2")
    seen.wait_for("the new data", lambda all_seen: b"2" in all_seen)


CASES = [
    session_restart,
    reattach,
    lost_connection,
    expiry,
    wrong_password,
    request_after_stop,
    server_restart,
]
