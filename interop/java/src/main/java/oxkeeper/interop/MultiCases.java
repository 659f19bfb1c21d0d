package oxkeeper.interop;

import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** Cases of multi and of the transaction builder. */
final class MultiCases {
    private MultiCases() {}

    static void addTo(Suite suite) {
        suite.test("multi", MultiCases::everything);
        suite.test("multi that fails", MultiCases::failing);
        suite.test("multi of all create modes", MultiCases::createModes);
        suite.test("multi read", MultiCases::reads);
        suite.test("multi fires watches", MultiCases::watches);
        suite.test("transaction builder", MultiCases::builder);
    }

    private static Op create(String path, CreateMode mode) {
        return Op.create(path, new byte[0], Ids.OPEN_ACL_UNSAFE, mode);
    }

    private static void everything(Case test) throws Exception {
        ZooKeeper zk = test.zk;
        test.node("old", "");
        List<OpResult> results = zk.multi(List.of(
                Op.check(test.path("old"), 0),
                create(test.path("a"), CreateMode.PERSISTENT),
                create(test.path("a/s-"), CreateMode.PERSISTENT_SEQUENTIAL),
                Op.setData(test.path("a"), "data".getBytes(), 0),
                Op.delete(test.path("old"), 0)));
        Check.equal(5, results.size());
        Check.isTrue(results.get(0) instanceof OpResult.CheckResult, "first result is of a check");
        Check.equal(test.path("a"), ((OpResult.CreateResult) results.get(1)).getPath());
        Check.equal(test.path("a/s-0000000000"), ((OpResult.CreateResult) results.get(2)).getPath());
        Check.equal(1, ((OpResult.SetDataResult) results.get(3)).getStat().getVersion());
        Check.isTrue(results.get(4) instanceof OpResult.DeleteResult, "last result is of a delete");
        Check.equal(null, zk.exists(test.path("old"), false));
        // All operations of a multi share one zxid.
        Check.equal(zk.exists(test.path("a"), false).getCzxid(), zk.exists(test.path("a/s-0000000000"), false).getCzxid());
        Check.equal(List.of(), zk.multi(List.of()));
    }

    private static void failing(Case test) throws Exception {
        test.node("existing", "");
        try {
            test.zk.multi(List.of(
                    create(test.path("a"), CreateMode.PERSISTENT),
                    create(test.path("existing"), CreateMode.PERSISTENT),
                    Op.delete(test.path("missing"), -1)));
            throw new AssertionError("expected the transaction to fail");
        } catch (KeeperException e) {
            Check.equal(Code.NODEEXISTS, e.code());
            List<OpResult> results = e.getResults();
            Check.equal(3, results.size());
            Check.equal(Code.OK.intValue(), ((OpResult.ErrorResult) results.get(0)).getErr());
            Check.equal(Code.NODEEXISTS.intValue(), ((OpResult.ErrorResult) results.get(1)).getErr());
            Check.equal(Code.RUNTIMEINCONSISTENCY.intValue(), ((OpResult.ErrorResult) results.get(2)).getErr());
        }
        Check.equal(null, test.zk.exists(test.path("a"), false));
        Check.fails(Code.BADVERSION, () -> test.zk.multi(List.of(Op.check(test.path("existing"), 4))));
        Check.fails(Code.NONODE, () -> test.zk.multi(List.of(Op.check(test.path("missing"), -1))));
    }

    private static void createModes(Case test) throws Exception {
        ZooKeeper zk = test.connect(new Events());
        List<OpResult> results = zk.multi(List.of(
                create(test.path("e"), CreateMode.EPHEMERAL),
                create(test.path("es-"), CreateMode.EPHEMERAL_SEQUENTIAL),
                create(test.path("c"), CreateMode.CONTAINER),
                Op.create(test.path("t"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, 600_000),
                Op.create(test.path("ts-"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, 600_000)));
        Check.equal(test.path("es-0000000001"), ((OpResult.CreateResult) results.get(1)).getPath());
        Check.equal(test.path("c"), ((OpResult.CreateResult) results.get(2)).getPath());
        Check.equal(test.path("ts-0000000004"), ((OpResult.CreateResult) results.get(4)).getPath());
        Check.equal(zk.getSessionId(), test.zk.exists(test.path("e"), false).getEphemeralOwner());
        Check.isTrue(((OpResult.CreateResult) results.get(3)).getStat() != null, "TTL results carry a stat");
        zk.close();
        Check.sameSet(List.of("c", "t", "ts-0000000004"), test.zk.getChildren(test.root, false));
    }

    private static void reads(Case test) throws Exception {
        test.node("a", "data");
        test.node("a/b", "");
        List<OpResult> results = test.zk.multi(List.of(
                Op.getData(test.path("a")), Op.getData(test.path("missing")), Op.getChildren(test.path("a"))));
        Check.bytes("data", ((OpResult.GetDataResult) results.get(0)).getData());
        Check.equal(Code.NONODE.intValue(), ((OpResult.ErrorResult) results.get(1)).getErr());
        Check.equal(List.of("b"), ((OpResult.GetChildrenResult) results.get(2)).getChildren());
    }

    private static void watches(Case test) throws Exception {
        String path = test.node("a", "");
        Events data = new Events();
        Events children = new Events();
        test.zk.getData(path, data, null);
        test.zk.getChildren(test.root, children);
        Check.fails(Code.NONODE, () -> test.zk.multi(List.of(
                Op.setData(path, null, -1), Op.delete(test.path("missing"), -1))));
        test.zk.multi(List.of(create(test.path("b"), CreateMode.PERSISTENT), Op.setData(path, null, -1)));
        data.expect(EventType.NodeDataChanged, path);
        children.expect(EventType.NodeChildrenChanged, test.root);
        data.expectNone();
    }

    private static void builder(Case test) throws Exception {
        List<OpResult> results = test.zk.transaction()
                .create(test.path("a"), "1".getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT)
                .check(test.path("a"), 0)
                .setData(test.path("a"), "2".getBytes(), 0)
                .commit();
        Check.equal(3, results.size());
        Check.bytes("2", test.zk.getData(test.path("a"), false, null));
    }
}
