package oxkeeper.interop;

import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZooKeeper;

/** Cases of all kinds of watches, without connection loss. */
final class WatchCases {
    private WatchCases() {}

    static void addTo(Suite suite) {
        suite.test("one-shot watches", WatchCases::oneShot);
        suite.test("watches on deletion", WatchCases::deletion);
        suite.test("watch of a missing node", WatchCases::missing);
        suite.test("persistent watch", WatchCases::persistent);
        suite.test("recursive watch", WatchCases::recursive);
        suite.test("watches together", WatchCases::together);
        suite.test("remove watches", WatchCases::remove);
        suite.test("event before reply", WatchCases::eventBeforeReply);
    }

    private static void oneShot(Case test) throws Exception {
        String path = test.node("a", "");
        Events exists = new Events();
        Events data = new Events();
        Events children = new Events();
        test.zk.exists(path, exists);
        test.zk.getData(path, data, null);
        test.zk.getChildren(path, children);
        test.zk.setData(path, null, -1);
        exists.expect(EventType.NodeDataChanged, path);
        data.expect(EventType.NodeDataChanged, path);
        test.node("a/b", "");
        children.expect(EventType.NodeChildrenChanged, path);
        test.zk.setData(path, null, -1);
        test.node("a/c", "");
        exists.expectNone();
        data.expectNone();
        children.expectNone();
    }

    private static void deletion(Case test) throws Exception {
        String path = test.node("a", "");
        Events data = new Events();
        Events children = new Events();
        Events parent = new Events();
        test.zk.getData(path, data, null);
        test.zk.getChildren(path, children);
        test.zk.getChildren(test.root, parent);
        test.zk.delete(path, -1);
        data.expect(EventType.NodeDeleted, path);
        children.expect(EventType.NodeDeleted, path);
        parent.expect(EventType.NodeChildrenChanged, test.root);
    }

    private static void missing(Case test) throws Exception {
        String path = test.path("a");
        Events exists = new Events();
        Events data = new Events();
        Check.equal(null, test.zk.exists(path, exists));
        Check.fails(Code.NONODE, () -> test.zk.getData(path, data, null));
        test.node("a", "");
        exists.expect(EventType.NodeCreated, path);
        data.expectNone();
    }

    private static void persistent(Case test) throws Exception {
        String path = test.path("a");
        Events events = new Events();
        test.zk.addWatch(path, events, AddWatchMode.PERSISTENT);
        for (int round = 0; round < 2; round++) {
            test.node("a", "");
            events.expect(EventType.NodeCreated, path);
            test.zk.setData(path, null, -1);
            events.expect(EventType.NodeDataChanged, path);
            test.node("a/b", "");
            events.expect(EventType.NodeChildrenChanged, path);
            test.zk.setData(path + "/b", null, -1);
            test.zk.delete(path + "/b", -1);
            events.expect(EventType.NodeChildrenChanged, path);
            test.zk.delete(path, -1);
            events.expect(EventType.NodeDeleted, path);
        }
        events.expectNone();
    }

    private static void recursive(Case test) throws Exception {
        String path = test.path("a");
        Events events = new Events();
        test.zk.addWatch(path, events, AddWatchMode.PERSISTENT_RECURSIVE);
        for (int round = 0; round < 2; round++) {
            test.node("a", "");
            events.expect(EventType.NodeCreated, path);
            test.node("a/b", "");
            events.expect(EventType.NodeCreated, path + "/b");
            test.node("a/b/c", "");
            events.expect(EventType.NodeCreated, path + "/b/c");
            test.zk.setData(path + "/b/c", null, -1);
            events.expect(EventType.NodeDataChanged, path + "/b/c");
            test.zk.delete(path + "/b/c", -1);
            events.expect(EventType.NodeDeleted, path + "/b/c");
            test.zk.delete(path + "/b", -1);
            events.expect(EventType.NodeDeleted, path + "/b");
            test.zk.delete(path, -1);
            events.expect(EventType.NodeDeleted, path);
        }
        test.node("ab", "");
        events.expectNone();
    }

    private static void together(Case test) throws Exception {
        String path = test.node("p", "");
        ZooKeeper watching = test.connect(new Events());
        Events data = new Events();
        Events children = new Events();
        Events persistent = new Events();
        Events recursive = new Events();
        watching.getData(path, data, null);
        watching.getChildren(path, children);
        watching.addWatch(path, persistent, AddWatchMode.PERSISTENT);
        watching.addWatch(test.root, recursive, AddWatchMode.PERSISTENT_RECURSIVE);
        test.zk.setData(path, null, -1);
        data.expect(EventType.NodeDataChanged, path);
        persistent.expect(EventType.NodeDataChanged, path);
        recursive.expect(EventType.NodeDataChanged, path);
        test.node("p/c", "");
        children.expect(EventType.NodeChildrenChanged, path);
        persistent.expect(EventType.NodeChildrenChanged, path);
        recursive.expect(EventType.NodeCreated, path + "/c");
        test.zk.delete(path + "/c", -1);
        persistent.expect(EventType.NodeChildrenChanged, path);
        recursive.expect(EventType.NodeDeleted, path + "/c");
        test.zk.delete(path, -1);
        persistent.expect(EventType.NodeDeleted, path);
        recursive.expect(EventType.NodeDeleted, path);
        data.expectNone();
        children.expectNone();
    }

    private static void remove(Case test) throws Exception {
        String path = test.node("a", "");
        ZooKeeper zk = test.connect(new Events());
        Events data = new Events();
        Events children = new Events();
        Events persistent = new Events();
        Events recursive = new Events();
        zk.getData(path, data, null);
        zk.getChildren(path, children);
        zk.addWatch(path, persistent, AddWatchMode.PERSISTENT);
        zk.addWatch(path, recursive, AddWatchMode.PERSISTENT_RECURSIVE);
        zk.removeWatches(path, data, WatcherType.Data, false);
        data.expect(EventType.DataWatchRemoved, path);
        zk.removeAllWatches(path, WatcherType.Persistent, false);
        persistent.expect(EventType.PersistentWatchRemoved, path);
        test.zk.setData(path, null, -1);
        recursive.expect(EventType.NodeDataChanged, path);
        zk.removeWatches(path, recursive, WatcherType.PersistentRecursive, false);
        recursive.expect(EventType.PersistentWatchRemoved, path);
        test.node("a/b", "");
        children.expect(EventType.NodeChildrenChanged, path);
        data.expectNone();
        persistent.expectNone();
        recursive.expectNone();
        Check.fails(Code.NOWATCHER, () -> zk.removeAllWatches(path, WatcherType.Any, false));
        Check.fails(Code.NOWATCHER, () -> zk.removeWatches(path, data, WatcherType.Data, false));
        Events shared = new Events();
        zk.getData(path, shared, null);
        zk.getData(path, data, null);
        zk.removeWatches(path, data, WatcherType.Data, false);
        data.expect(EventType.DataWatchRemoved, path);
        test.zk.setData(path, null, -1);
        shared.expect(EventType.NodeDataChanged, path);
        data.expectNone();
    }

    /** A client receives the event of a change before it can read the change. */
    private static void eventBeforeReply(Case test) throws Exception {
        String path = test.node("a", "0");
        ZooKeeper watching = test.connect(new Events());
        for (int i = 1; i <= 100; i++) {
            Events events = new Events();
            byte[] before = watching.getData(path, events, null);
            test.zk.setData(path, Integer.toString(i).getBytes(), -1);
            byte[] now = watching.getData(path, false, null);
            Check.bytes(Integer.toString(i - 1), before);
            // On a standalone server the write of the other client is visible immediately, and so must be its event.
            Check.bytes(Integer.toString(i), now);
            events.expect(EventType.NodeDataChanged, path);
        }
    }
}
