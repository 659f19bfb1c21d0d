"""Runs the tests that are bundled with kazoo on one running server.

kazoo's harness starts an ensemble of Apache servers. Here its cluster is replaced by the server under test, which the
control port stops and starts. Tests that need three servers, TLS, SASL or read-only mode are left out, and so are tests
without a server.
"""

import os
import sys
import types

import pytest

from fixture import ExternalServer, Fixture

# kazoo's harness imports two libraries for certificates, which these tests do not use.
for missing in ("OpenSSL", "jks"):
    sys.modules.setdefault(missing, types.ModuleType(missing))
os.environ.setdefault("ZOOKEEPER_VERSION", "3.9.3")

import kazoo.testing.harness  # noqa: E402
import kazoo.tests  # noqa: E402

FILES = [
    "test_barrier.py",
    "test_cache.py",
    "test_client.py",
    "test_connection.py",
    "test_counter.py",
    "test_election.py",
    "test_interrupt.py",
    "test_lease.py",
    "test_lock.py",
    "test_partitioner.py",
    "test_party.py",
    "test_queue.py",
    "test_watchers.py",
]

# Part of the id of a test, and the reason for leaving it out.
LEFT_OUT = {
    "TestReadOnlyMode": "needs an ensemble",
    "TestReconfig": "needs an ensemble",
    "TestSSL": "needs TLS",
    "test_update_host_list": "needs an ensemble",
    # These two take 27 s, nearly all of it in sleeps.
    "test_child_watcher_remove_session_watcher": "waits for the client's own timers",
    "test_race_condition_new_partitioner": "waits for the client's own timers",
}


class OneServer:
    """Has the interface of kazoo's ManagedZooKeeper."""

    def __init__(self, fixture):
        self.fixture = fixture
        # The proxy refuses connections until a started server is ready. Apache would accept them and never reply, which
        # takes longer than the timeouts of these tests.
        self.address = fixture.proxy
        self.running = True

    def run(self):
        if not self.running:
            self.fixture.command("start")
            self.running = True

    def stop(self):
        if self.running:
            try:
                self.fixture.command("stop")
            except ExternalServer:
                pytest.skip("xtask did not start the server")
            self.running = False


class OneServerCluster(list):
    """Has the interface of kazoo's ZookeeperCluster."""

    def start(self):
        for server in self:
            server.run()

    def terminate(self):
        """Does nothing: the server runs until the end of the suite."""

    def get_logs(self):
        return []


class Reporter:
    """A pytest plugin that prints one line per test."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def pytest_collection_modifyitems(self, items):
        for item in items:
            for part, why in LEFT_OUT.items():
                if part in item.nodeid:
                    item.add_marker(pytest.mark.skip(reason=why))

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("/")[-1].replace(" ", "_")
        if report.skipped:
            self.skipped += 1
            why = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else "expected to fail"
            print_line("skip %s %s" % (name, why))
        elif report.failed:
            self.failed += 1
            print(report.longreprtext, file=sys.stderr)
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash else report.longreprtext
            print_line("fail %s %s: %s" % (name, report.when, message.replace("\n", " ")[:300]))
        elif report.when == "call":
            self.passed += 1
            print_line("ok   %s %d" % (name, report.duration * 1000))


def print_line(line):
    print(line, file=sys.__stdout__, flush=True)


def main():
    fixture = Fixture(sys.argv[1:])
    cluster = OneServerCluster([OneServer(fixture)])
    kazoo.testing.harness.get_global_cluster = lambda: cluster
    directory = os.path.dirname(kazoo.tests.__file__)
    reporter = Reporter()
    arguments = ["-p", "no:terminal", "-p", "no:cacheprovider", "--timeout=60", "--rootdir", directory]
    arguments += sys.argv[4:] or [os.path.join(directory, name) for name in FILES]
    pytest.main(arguments, plugins=[reporter])
    print_line("kazoo-bundled: %d passed, %d failed, %d skipped" % (reporter.passed, reporter.failed, reporter.skipped))
    return 1 if reporter.failed or not reporter.passed else 0


if __name__ == "__main__":
    sys.exit(main())
