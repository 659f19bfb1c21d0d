package oxkeeper.interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Quotas;
import org.apache.zookeeper.StatsTrack;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.cli.DelQuotaCommand;
import org.apache.zookeeper.cli.SetQuotaCommand;
import org.apache.zookeeper.data.Stat;

/** Cases that create, read, change and delete nodes of all kinds. */
final class NodeCases {
    private NodeCases() {}

    static void addTo(Suite suite) {
        suite.test("create and stat", NodeCases::createAndStat);
        suite.test("errors of writes", NodeCases::errorsOfWrites);
        suite.test("null empty and unicode", NodeCases::nullEmptyAndUnicode);
        suite.test("sequential", NodeCases::sequential);
        suite.test("ephemeral", NodeCases::ephemeral);
        suite.test("container", NodeCases::container);
        suite.test("ttl", NodeCases::ttl);
        suite.test("children with stat", NodeCases::childrenWithStat);
        suite.test("counts and ephemerals", NodeCases::countsAndEphemerals);
        suite.test("large data", NodeCases::largeData);
        suite.test("many children", NodeCases::manyChildren);
        suite.test("async in order", NodeCases::asyncInOrder);
        suite.test("sync", NodeCases::sync);
        suite.test("chroot", NodeCases::chroot);
        suite.test("quota", NodeCases::quota);
        suite.test("config", NodeCases::config);
    }

    private static void createAndStat(Case test) throws Exception {
        ZooKeeper zk = test.zk;
        Stat created = new Stat();
        String path = zk.create(test.path("a"), "one".getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, created);
        Check.equal(test.path("a"), path);
        Check.equal(0, created.getVersion());
        Check.equal(created.getCzxid(), created.getMzxid());
        Check.equal(created.getCzxid(), created.getPzxid());
        Check.equal(created.getCtime(), created.getMtime());
        Check.equal(3, created.getDataLength());
        Check.isTrue(Math.abs(System.currentTimeMillis() - created.getCtime()) < 60_000, "ctime is about now");

        Stat changed = zk.setData(path, "three".getBytes(), 0);
        Check.equal(1, changed.getVersion());
        Check.equal(created.getCzxid(), changed.getCzxid());
        Check.isTrue(created.getMzxid() < changed.getMzxid(), "mzxid grows");

        String child = test.node("a/b", "");
        Stat parent = new Stat();
        Check.bytes("three", zk.getData(path, false, parent));
        Check.equal(1, parent.getCversion());
        Check.equal(1, parent.getNumChildren());
        Check.equal(1, parent.getVersion());
        Check.equal(zk.exists(child, false).getCzxid(), parent.getPzxid());

        zk.delete(child, 0);
        Stat after = zk.exists(path, false);
        Check.equal(2, after.getCversion());
        Check.equal(0, after.getNumChildren());
        Check.isTrue(parent.getPzxid() < after.getPzxid(), "pzxid grows on delete");
        zk.delete(path, -1);
        Check.equal(null, zk.exists(path, false));
    }

    private static void errorsOfWrites(Case test) throws Exception {
        ZooKeeper zk = test.zk;
        String path = test.node("a", "");
        Check.fails(Code.NODEEXISTS, () -> test.node("a", ""));
        Check.fails(Code.NONODE, () -> test.node("missing/child", ""));
        Check.fails(Code.NONODE, () -> zk.getData(test.path("missing"), false, null));
        Check.fails(Code.NONODE, () -> zk.getChildren(test.path("missing"), false));
        Check.fails(Code.NONODE, () -> zk.setData(test.path("missing"), null, -1));
        Check.fails(Code.NONODE, () -> zk.delete(test.path("missing"), -1));
        Check.fails(Code.BADVERSION, () -> zk.setData(path, null, 7));
        Check.fails(Code.BADVERSION, () -> zk.delete(path, 7));
        test.node("a/b", "");
        Check.fails(Code.NOTEMPTY, () -> zk.delete(path, -1));
        Check.fails(Code.BADARGUMENTS, () -> zk.delete("/zookeeper", -1));
        Check.fails(Code.INVALIDACL, () -> zk.create(test.path("c"), null, List.of(), CreateMode.PERSISTENT));
        Check.equal(null, zk.exists(test.path("c"), false));
    }

    private static void nullEmptyAndUnicode(Case test) throws Exception {
        ZooKeeper zk = test.zk;
        zk.create(test.path("null"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Check.equal(null, zk.getData(test.path("null"), false, null));
        zk.create(test.path("empty"), new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Check.bytes("", zk.getData(test.path("empty"), false, null));
        zk.setData(test.path("empty"), null, -1);
        Check.equal(null, zk.getData(test.path("empty"), false, null));
        String name = "żółw 亀 with blanks";
        test.node(name, "data");
        Check.bytes("data", zk.getData(test.path(name), false, null));
        Check.sameSet(List.of("null", "empty", name), zk.getChildren(test.root, false));
    }

    private static void sequential(Case test) throws Exception {
        ZooKeeper zk = test.zk;
        String prefix = test.path("n-");
        Check.equal(prefix + "0000000000", sequentialNode(zk, prefix, CreateMode.PERSISTENT_SEQUENTIAL));
        Check.equal(prefix + "0000000001", sequentialNode(zk, prefix, CreateMode.EPHEMERAL_SEQUENTIAL));
        zk.delete(prefix + "0000000001", -1);
        test.node("other", "");
        Check.equal(prefix + "0000000003", sequentialNode(zk, prefix, CreateMode.PERSISTENT_SEQUENTIAL));
        Check.equal(test.root + "/0000000004", sequentialNode(zk, test.root + "/", CreateMode.PERSISTENT_SEQUENTIAL));
    }

    private static String sequentialNode(ZooKeeper zk, String prefix, CreateMode mode) throws Exception {
        return zk.create(prefix, null, Ids.OPEN_ACL_UNSAFE, mode);
    }

    private static void ephemeral(Case test) throws Exception {
        ZooKeeper owner = test.connect(new Events());
        String path = owner.create(test.path("e"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Check.equal(owner.getSessionId(), test.zk.exists(path, false).getEphemeralOwner());
        Check.fails(Code.NOCHILDRENFOREPHEMERALS, () -> test.node("e/child", ""));
        owner.close();
        Check.equal(null, test.zk.exists(path, false));
    }

    private static void container(Case test) throws Exception {
        ZooKeeper zk = test.zk;
        String path = zk.create(test.path("c"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER);
        String child = test.node("c/child", "");
        Check.fails(Code.NOTEMPTY, () -> zk.delete(path, -1));
        Events events = new Events();
        zk.exists(path, events);
        zk.delete(child, -1);
        events.expect(EventType.NodeDeleted, path);
        Check.equal(null, zk.exists(path, false));
    }

    private static void ttl(Case test) throws Exception {
        ZooKeeper zk = test.zk;
        Stat stat = new Stat();
        String path = zk.create(test.path("t"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, stat, 300);
        String kept = zk.create(test.path("k"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, stat, 600_000);
        String sequential = zk.create(
                test.path("s-"), null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, stat, 300);
        Check.equal(test.path("s-0000000002"), sequential);
        Check.eventually("nodes past their TTL are removed",
                () -> zk.exists(path, false) == null && zk.exists(sequential, false) == null);
        Check.isTrue(zk.exists(kept, false) != null, "a node within its TTL stays");
    }

    private static void childrenWithStat(Case test) throws Exception {
        for (String name : List.of("x", "y", "z")) {
            test.node(name, name);
        }
        Stat stat = new Stat();
        List<String> names = test.zk.getChildren(test.root, false, stat);
        Check.sameSet(List.of("x", "y", "z"), names);
        Check.equal(3, stat.getNumChildren());
        Check.equal(3, stat.getCversion());
        Check.equal(test.zk.exists(test.root, false), stat);
        Check.equal(List.of(), test.zk.getChildren(test.path("x"), false));
    }

    private static void countsAndEphemerals(Case test) throws Exception {
        ZooKeeper zk = test.connect(new Events());
        test.node("a", "");
        test.node("a/b", "");
        test.node("a/b/c", "");
        Check.equal(3, zk.getAllChildrenNumber(test.root));
        Check.equal(0, zk.getAllChildrenNumber(test.path("a/b/c")));
        Check.fails(Code.NONODE, () -> zk.getAllChildrenNumber(test.path("missing")));
        List<String> paths = new ArrayList<>();
        for (String name : List.of("a/e1", "a/e2", "f")) {
            paths.add(zk.create(test.path(name), null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL));
        }
        Check.sameSet(paths, zk.getEphemerals());
        Check.sameSet(paths.subList(0, 2), zk.getEphemerals(test.path("a/e")));
        Check.equal(List.of(), zk.getEphemerals(test.path("nothing")));
        Check.equal(List.of(), test.zk.getEphemerals());
    }

    private static void largeData(Case test) throws Exception {
        byte[] data = new byte[1_048_000];
        new Random(1).nextBytes(data);
        String path = test.path("large");
        Events events = new Events();
        ZooKeeper zk = test.connect(events);
        zk.create(path, data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Check.bytes(data, zk.getData(path, false, null));
        new Random(2).nextBytes(data);
        zk.setData(path, data, 0);
        Check.bytes(data, zk.getData(path, false, null));
        // For a request above jute.maxbuffer the server closes the connection; the session continues.
        long session = zk.getSessionId();
        Check.fails(Code.CONNECTIONLOSS, () -> zk.setData(path, new byte[1_048_576], -1));
        events.awaitConnected();
        Check.equal(session, zk.getSessionId());
        Check.equal(1, zk.exists(path, false).getVersion());
    }

    private static void manyChildren(Case test) throws Exception {
        int count = 2000;
        String name = "a-rather-long-name-to-fill-the-reply-".repeat(3);
        CountDownLatch done = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            test.zk.create(test.path(name + i), null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT,
                    (code, path, context, created) -> done.countDown(), null);
        }
        Check.isTrue(done.await(20, TimeUnit.SECONDS), "all creates have a reply");
        Check.equal(count, test.zk.getChildren(test.root, false).size());
        Check.equal(count, test.zk.exists(test.root, false).getCversion());
    }

    /** Replies arrive in the order of the requests, and a read sees the write sent just before it. */
    private static void asyncInOrder(Case test) throws Exception {
        String path = test.node("a", "start");
        int rounds = 500;
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CompletableFuture<Void> done = new CompletableFuture<>();
        for (int i = 0; i < rounds; i++) {
            test.zk.setData(path, ("v" + i).getBytes(), i, (code, p, context, stat) -> seen.add("set " + stat.getVersion()), null);
            test.zk.getData(path, false, (code, p, context, data, stat) -> {
                seen.add("get " + new String(data));
                if (seen.size() == 2 * rounds) {
                    done.complete(null);
                }
            }, null);
        }
        done.get(20, TimeUnit.SECONDS);
        for (int i = 0; i < rounds; i++) {
            Check.equal("set " + (i + 1), seen.get(2 * i));
            Check.equal("get v" + i, seen.get(2 * i + 1));
        }
    }

    private static void sync(Case test) throws Exception {
        CompletableFuture<String> path = new CompletableFuture<>();
        test.zk.sync(test.root, (code, p, context) -> path.complete(code + " " + p), null);
        Check.equal("0 " + test.root, path.get(10, TimeUnit.SECONDS));
        CompletableFuture<Integer> missing = new CompletableFuture<>();
        test.zk.sync(test.path("missing"), (code, p, context) -> missing.complete(code), null);
        Check.equal(0, missing.get(10, TimeUnit.SECONDS));
    }

    private static void chroot(Case test) throws Exception {
        Events events = new Events();
        ZooKeeper zk = test.connected(new ZooKeeper(test.fixture.server() + test.root, Case.TIMEOUT_MS, events), events);
        Check.equal("/a", zk.create("/a", "x".getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        Check.bytes("x", test.zk.getData(test.path("a"), false, null));
        Events watcher = new Events();
        zk.getData("/a", watcher, null);
        test.zk.setData(test.path("a"), null, -1);
        watcher.expect(EventType.NodeDataChanged, "/a");
        Check.equal(List.of("a"), zk.getChildren("/", false));
    }

    private static void quota(Case test) throws Exception {
        ZooKeeper zk = test.zk;
        String path = test.node("q", "12345");
        test.node("q/one", "123");
        StatsTrack limits = new StatsTrack();
        limits.setCount(10);
        limits.setBytes(1000);
        Check.isTrue(SetQuotaCommand.createQuota(zk, path, limits), "quota is set");
        test.node("q/two", "1234567890");
        StatsTrack usage = new StatsTrack(zk.getData(Quotas.statPath(path), false, null));
        Check.equal(3L, usage.getCount());
        Check.equal(18L, usage.getBytes());
        zk.setData(path, new byte[0], -1);
        zk.delete(test.path("q/one"), -1);
        usage = new StatsTrack(zk.getData(Quotas.statPath(path), false, null));
        Check.equal(2L, usage.getCount());
        Check.equal(10L, usage.getBytes());
        StatsTrack stored = new StatsTrack(zk.getData(Quotas.limitPath(path), false, null));
        Check.equal(10L, stored.getCount());
        StatsTrack both = new StatsTrack();
        both.setCount(1);
        both.setBytes(1);
        Check.isTrue(DelQuotaCommand.delQuota(zk, path, both), "limits are taken back");
        Check.equal(-1L, new StatsTrack(zk.getData(Quotas.limitPath(path), false, null)).getCount());
        Check.isTrue(DelQuotaCommand.delQuota(zk, path, null), "quota is deleted");
        Check.equal(null, zk.exists(Quotas.limitPath(path), false));
    }

    private static void config(Case test) throws Exception {
        Stat stat = new Stat();
        test.zk.getConfig(false, stat);
        Check.equal(0, stat.getNumChildren());
        Events events = new Events();
        ZooKeeperAdmin admin = new ZooKeeperAdmin(test.fixture.server(), Case.TIMEOUT_MS, events);
        test.connected(admin, events);
        Check.fails(Code.RECONFIGDISABLED, () -> admin.reconfigure("server.9=localhost:1:2", null, null, -1, null));
    }
}
