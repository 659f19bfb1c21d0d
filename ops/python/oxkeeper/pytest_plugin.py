"""The fixtures of pytest."""

import pytest

from oxkeeper import Server


@pytest.fixture
def oxkeeper_server():
    """A server with no data, for one test."""
    with Server() as server:
        yield server


@pytest.fixture
def oxkeeper_server_factory():
    """A function that starts servers with the arguments of ``oxkeeper.Server``; they end with the test."""
    servers = []

    def start(**arguments):
        server = Server(**arguments)
        servers.append(server)
        return server.start()

    yield start
    for server in servers:
        server.close()
