"""Runs the tests that kazoo installs with itself on one running server.

kazoo's harness starts an ensemble of Apache servers. Here its cluster is replaced by one of a single server that
somebody else runs; stopping and starting it goes through the control port. What needs three servers, TLS, SASL or
read-only mode is left out, and so is what never talks to a server.
"""

import os
import sys
import types

import pytest

from fixture import NotOurs, Stage

# Importing kazoo's harness needs two libraries for certificates that these tests never make.
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

# Part of a test's id, and why it cannot run here.
LEFT_OUT = {
    "TestReadOnlyMode": "needs an ensemble",
    "TestReconfig": "needs an ensemble",
    "TestSSL": "needs TLS",
    "test_update_host_list": "needs an ensemble",
    # Together they take 27 s, nearly all of it asleep.
    "test_child_watcher_remove_session_watcher": "waits for the client's own timers",
    "test_race_condition_new_partitioner": "waits for the client's own timers",
}


class OneServer:
    """Looks like kazoo's ManagedZooKeeper."""

    def __init__(self, stage):
        self.stage = stage
        # Through the proxy, which lets nobody in before a started server is ready: Apache leaves such connections open
        # and silent, and these tests are short of patience.
        self.address = stage.proxy
        self.running = True

    def run(self):
        if not self.running:
            self.stage.command("start")
            self.running = True

    def stop(self):
        if self.running:
            try:
                self.stage.command("stop")
            except NotOurs:
                pytest.skip("the server is not ours to restart")
            self.running = False


class OneServerCluster(list):
    """Looks like kazoo's ZookeeperCluster."""

    def start(self):
        for server in self:
            server.run()

    def terminate(self):
        """The server belongs to xtask and outlives each test class."""

    def get_logs(self):
        return []


class Reporter:
    """Prints one line per test."""

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
            say("skip %s %s" % (name, why))
        elif report.failed:
            self.failed += 1
            print(report.longreprtext, file=sys.stderr)
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash else report.longreprtext
            say("fail %s %s: %s" % (name, report.when, message.replace("\n", " ")[:300]))
        elif report.when == "call":
            self.passed += 1
            say("ok   %s %d" % (name, report.duration * 1000))


def say(line):
    print(line, file=sys.__stdout__, flush=True)


def main():
    stage = Stage(sys.argv[1:])
    cluster = OneServerCluster([OneServer(stage)])
    kazoo.testing.harness.get_global_cluster = lambda: cluster
    folder = os.path.dirname(kazoo.tests.__file__)
    reporter = Reporter()
    arguments = ["-p", "no:terminal", "-p", "no:cacheprovider", "--timeout=60", "--rootdir", folder]
    arguments += sys.argv[4:] or [os.path.join(folder, name) for name in FILES]
    pytest.main(arguments, plugins=[reporter])
    say("kazoo-bundled: %d passed, %d failed, %d skipped" % (reporter.passed, reporter.failed, reporter.skipped))
    return 1 if reporter.failed or not reporter.passed else 0


if __name__ == "__main__":
    sys.exit(main())
