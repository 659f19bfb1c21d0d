package oxkeeper.interop;

import java.util.Arrays;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;

/** Cases of sessions during lost connections, expiry and server restarts. */
final class SessionCases {
    private SessionCases() {}

    static void addTo(Suite suite) {
        suite.test("negotiated timeout", SessionCases::negotiatedTimeout);
        suite.test("reattach by id and password", SessionCases::reattach);
        suite.test("reattach with a wrong password", SessionCases::wrongPassword);
        suite.test("close of a shared session", SessionCases::closeOfSharedSession);
        suite.test("expiry removes ephemerals", SessionCases::expiry);
        suite.test("idle session lives by pings", SessionCases::idle);
        suite.test("reconnect catches up on watches", SessionCases::reconnectCatchesUp);
        suite.test("reconnect re-arms watches", SessionCases::reconnectRearms);
        suite.test("reconnect authenticates again", SessionCases::reconnectAuthenticates);
        suite.test("server restart", SessionCases::serverRestart);
        suite.test("netty client", SessionCases::nettyClient);
    }

    private static void negotiatedTimeout(Case test) throws Exception {
        Events events = new Events();
        ZooKeeper low = test.connected(new ZooKeeper(test.fixture.server(), 500, events), events);
        Check.equal(1000, low.getSessionTimeout());
        Events more = new Events();
        ZooKeeper high = test.connected(new ZooKeeper(test.fixture.server(), 3_600_000, more), more);
        Check.equal(60_000, high.getSessionTimeout());
    }

    private static void reattach(Case test) throws Exception {
        Events events = new Events();
        ZooKeeper first = test.connectByProxy(Case.TIMEOUT_MS, events);
        String path = first.create(test.path("e"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Events again = new Events();
        ZooKeeper second = test.connected(new ZooKeeper(
                test.fixture.server(), Case.TIMEOUT_MS, again, first.getSessionId(), first.getSessionPasswd()), again);
        Check.equal(first.getSessionId(), second.getSessionId());
        Check.bytes(first.getSessionPasswd(), second.getSessionPasswd());
        // The second handshake takes over the session; the server closes the first connection.
        events.awaitState(KeeperState.Disconnected);
        test.command("block");
        Check.equal(second.getSessionId(), second.exists(path, false).getEphemeralOwner());
        second.delete(path, -1);
    }

    private static void wrongPassword(Case test) throws Exception {
        ZooKeeper first = test.connect(new Events());
        byte[] wrong = first.getSessionPasswd().clone();
        wrong[0] ^= 1;
        Events events = new Events();
        ZooKeeper second = new ZooKeeper(test.fixture.server(), Case.TIMEOUT_MS, events, first.getSessionId(), wrong);
        test.closeLater(second);
        events.awaitState(KeeperState.Expired);
        Check.fails(Code.SESSIONEXPIRED, () -> second.exists("/", false));
    }

    private static void closeOfSharedSession(Case test) throws Exception {
        Events events = new Events();
        ZooKeeper first = test.connectByProxy(Case.TIMEOUT_MS, events);
        String path = first.create(test.path("e"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Events again = new Events();
        ZooKeeper second = test.connected(new ZooKeeper(
                test.fixture.server(), Case.TIMEOUT_MS, again, first.getSessionId(), first.getSessionPasswd()), again);
        second.close();
        events.awaitState(KeeperState.Expired);
        Check.equal(null, test.zk.exists(path, false));
    }

    private static void expiry(Case test) throws Exception {
        Events events = new Events();
        ZooKeeper zk = test.connectByProxy(Case.SHORT_TIMEOUT_MS, events);
        String path = zk.create(test.path("e"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        zk.create(test.path("f"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Events deleted = new Events();
        Events children = new Events();
        test.zk.exists(path, deleted);
        test.zk.getChildren(test.root, children);
        long start = System.nanoTime();
        test.command("block");
        deleted.expect(EventType.NodeDeleted, path);
        long tookMs = (System.nanoTime() - start) / 1_000_000;
        // The last ping may be up to a third of the timeout old when the connection is lost.
        Check.isTrue(Case.SHORT_TIMEOUT_MS / 2 <= tookMs, "the session outlives its connection, it lasted " + tookMs + " ms");
        children.expect(EventType.NodeChildrenChanged, test.root);
        Check.equal(0, test.zk.exists(test.root, false).getNumChildren());
        test.command("open");
        events.awaitState(KeeperState.Expired);
        Check.fails(Code.SESSIONEXPIRED, () -> zk.exists("/", false));
    }

    private static void idle(Case test) throws Exception {
        Events events = new Events();
        ZooKeeper zk = test.connectByProxy(1000, events);
        String path = zk.create(test.path("e"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Thread.sleep(3000);
        Check.isTrue(test.zk.exists(path, false) != null, "pings keep the session alive");
        Check.equal(ZooKeeper.States.CONNECTED, zk.getState());
    }

    private static void reconnectCatchesUp(Case test) throws Exception {
        Events events = new Events();
        ZooKeeper zk = test.connectByProxy(Case.TIMEOUT_MS, events);
        String changed = test.node("changed", "");
        String deleted = test.node("deleted", "");
        String parent = test.node("parent", "");
        String same = test.node("same", "");
        String created = test.path("created");
        Events watcher = new Events();
        Events gone = new Events();
        Events child = new Events();
        Events exists = new Events();
        Events quiet = new Events();
        zk.getData(changed, watcher, null);
        zk.getData(deleted, gone, null);
        zk.getChildren(parent, child);
        zk.exists(created, exists);
        zk.getData(same, quiet, null);
        test.command("block");
        events.awaitState(KeeperState.Disconnected);
        test.zk.setData(changed, null, -1);
        test.zk.delete(deleted, -1);
        test.node("parent/child", "");
        test.node("created", "");
        test.command("open");
        events.awaitConnected();
        watcher.expect(EventType.NodeDataChanged, changed);
        gone.expect(EventType.NodeDeleted, deleted);
        child.expect(EventType.NodeChildrenChanged, parent);
        exists.expect(EventType.NodeCreated, created);
        test.zk.setData(same, null, -1);
        quiet.expect(EventType.NodeDataChanged, same);
    }

    private static void reconnectRearms(Case test) throws Exception {
        Events events = new Events();
        ZooKeeper zk = test.connectByProxy(Case.TIMEOUT_MS, events);
        String path = test.node("a", "");
        Events data = new Events();
        Events children = new Events();
        Events persistent = new Events();
        Events recursive = new Events();
        zk.getData(path, data, null);
        zk.getChildren(path, children);
        zk.addWatch(path, persistent, AddWatchMode.PERSISTENT);
        zk.addWatch(test.root, recursive, AddWatchMode.PERSISTENT_RECURSIVE);
        long session = zk.getSessionId();
        for (int round = 0; round < 2; round++) {
            test.command("drop");
            events.awaitState(KeeperState.Disconnected);
            events.awaitConnected();
        }
        Check.equal(session, zk.getSessionId());
        zk.exists("/", false);
        test.zk.setData(path, null, -1);
        data.expect(EventType.NodeDataChanged, path);
        persistent.expect(EventType.NodeDataChanged, path);
        recursive.expect(EventType.NodeDataChanged, path);
        test.node("a/b", "");
        children.expect(EventType.NodeChildrenChanged, path);
        persistent.expect(EventType.NodeChildrenChanged, path);
        recursive.expect(EventType.NodeCreated, path + "/b");
    }

    private static void reconnectAuthenticates(Case test) throws Exception {
        Events events = new Events();
        ZooKeeper zk = test.connectByProxy(Case.TIMEOUT_MS, events);
        zk.addAuthInfo("digest", "bob:pw".getBytes());
        String path = zk.create(test.path("a"), "x".getBytes(), Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        test.command("drop");
        events.awaitState(KeeperState.Disconnected);
        events.awaitConnected();
        Check.bytes("x", zk.getData(path, false, null));
    }

    private static void serverRestart(Case test) throws Exception {
        Events events = new Events();
        ZooKeeper zk = test.connectByProxy(Case.TIMEOUT_MS, events);
        String ephemeral = zk.create(test.path("e"), "mine".getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        String path = test.node("a", "before");
        Events data = new Events();
        Events recursive = new Events();
        zk.getData(path, data, null);
        zk.addWatch(test.root, recursive, AddWatchMode.PERSISTENT_RECURSIVE);
        long session = zk.getSessionId();
        byte[] password = zk.getSessionPasswd();
        if (!test.fixture.restart()) {
            throw new Suite.Skip("xtask did not start the server");
        }
        events.awaitState(KeeperState.Disconnected);
        events.awaitConnected();
        Check.equal(session, zk.getSessionId());
        Check.isTrue(Arrays.equals(password, zk.getSessionPasswd()), "the password stays");
        Check.bytes("mine", zk.getData(ephemeral, false, null));
        Check.bytes("before", zk.getData(path, false, null));
        zk.setData(path, "after".getBytes(), 0);
        data.expect(EventType.NodeDataChanged, path);
        recursive.expect(EventType.NodeDataChanged, path);
    }

    /** The Netty socket sends requests right after the handshake, without waiting for its reply. */
    private static void nettyClient(Case test) throws Exception {
        ZKClientConfig config = new ZKClientConfig();
        config.setProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, "org.apache.zookeeper.ClientCnxnSocketNetty");
        Events events = new Events();
        ZooKeeper zk = new ZooKeeper(test.fixture.proxy(), Case.TIMEOUT_MS, events, config);
        test.closeLater(zk);
        String path = zk.create(test.path("a"), "x".getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        events.awaitConnected();
        Events watcher = new Events();
        zk.getData(path, watcher, null);
        test.command("drop");
        events.awaitState(KeeperState.Disconnected);
        events.awaitConnected();
        test.zk.setData(path, null, -1);
        watcher.expect(EventType.NodeDataChanged, path);
    }
}
