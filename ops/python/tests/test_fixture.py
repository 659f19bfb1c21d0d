"""What another project does with the installed wheel. Run by `cargo xtask dist --only wheel --check`."""

import pathlib
import threading

import pytest
from kazoo.client import KazooClient, KazooState

import oxkeeper


@pytest.fixture
def client(oxkeeper_server):
    client = KazooClient(hosts=oxkeeper_server.hosts, timeout=20)
    client.start(timeout=60)
    yield client
    client.stop()
    client.close()


def test_server_of_the_fixture_keeps_nodes_and_port_over_a_restart(oxkeeper_server, client):
    client.create("/app/config", b"1", makepath=True)
    port = oxkeeper_server.port
    suspended, connected = threading.Event(), threading.Event()

    def listen(state):
        (connected if state == KazooState.CONNECTED else suspended).set()

    client.add_listener(listen)
    oxkeeper_server.restart()
    assert suspended.wait(60) and connected.wait(60)
    assert oxkeeper_server.port == port
    assert client.get("/app/config")[0] == b"1"


def test_each_test_has_an_empty_server(client):
    assert client.get_children("/") == ["zookeeper"]


def test_several_servers_have_ports_of_their_own(oxkeeper_server_factory):
    first, second = oxkeeper_server_factory(), oxkeeper_server_factory()
    assert first.port != second.port and first.is_running and second.is_running


def test_bad_setting_is_reported_with_the_log():
    with pytest.raises(oxkeeper.ServerError, match="tickTime"):
        oxkeeper.Server(settings={"tickTime": "soon"}).start()


def test_closed_server_leaves_no_files():
    server = oxkeeper.Server().start()
    directory = pathlib.Path(server.directory)
    assert (directory / "zoo.cfg").is_file()
    server.close()
    assert not server.is_running and not directory.exists()
