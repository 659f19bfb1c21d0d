package oxkeeper.interop;

import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.api.transaction.OperationType;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.data.Stat;

/** Cases of the Curator framework, without recipes. */
final class CuratorCases {
    private CuratorCases() {}

    static void addTo(Suite suite) {
        suite.test("curator create and delete", CuratorCases::createAndDelete);
        suite.test("curator protected create", CuratorCases::protectedCreate);
        suite.test("curator transaction", CuratorCases::transaction);
        suite.test("curator background", CuratorCases::background);
        suite.test("curator watches", CuratorCases::watches);
        suite.test("curator namespace", CuratorCases::namespace);
        suite.test("curator connection states", CuratorCases::connectionStates);
    }

    private static void createAndDelete(Case test) throws Exception {
        CuratorFramework curator = test.curator();
        Stat stat = new Stat();
        curator.create().storingStatIn(stat).creatingParentsIfNeeded().forPath(test.path("a/b/c"), "x".getBytes());
        Check.equal(0, stat.getVersion());
        Check.equal(test.path("a/b/c"), curator.create().orSetData().forPath(test.path("a/b/c"), "y".getBytes()));
        Check.bytes("y", curator.getData().forPath(test.path("a/b/c")));
        curator.setData().withVersion(1).forPath(test.path("a/b/c"), "z".getBytes());
        curator.delete().guaranteed().deletingChildrenIfNeeded().forPath(test.path("a"));
        curator.delete().quietly().forPath(test.path("a"));
        curator.create().creatingParentContainersIfNeeded().withMode(CreateMode.EPHEMERAL).forPath(test.path("k/e"));
        curator.delete().forPath(test.path("k/e"));
        Check.eventually("the empty container is removed", () -> curator.checkExists().forPath(test.path("k")) == null);
        curator.create().withTtl(300).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath(test.path("t"));
        Check.eventually("the TTL node is removed", () -> curator.checkExists().forPath(test.path("t")) == null);
        curator.createContainers(test.path("made/by/curator"));
        Check.isTrue(curator.checkExists().forPath(test.path("made/by")) != null, "containers are created");
    }

    private static void protectedCreate(Case test) throws Exception {
        CuratorFramework curator = test.curator();
        String path = curator.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(test.path("p-"));
        Check.isTrue(path.startsWith(test.path("_c_")) && path.endsWith("-p-0000000000"), "a protected name: " + path);
        String idempotent = test.path("once");
        curator.create().idempotent().forPath(idempotent, "x".getBytes());
        curator.create().idempotent().forPath(idempotent, "x".getBytes());
        curator.delete().idempotent().forPath(idempotent);
        curator.delete().idempotent().forPath(idempotent);
    }

    private static void transaction(Case test) throws Exception {
        CuratorFramework curator = test.curator();
        List<CuratorTransactionResult> results = curator.transaction().forOperations(
                curator.transactionOp().create().withMode(CreateMode.PERSISTENT).forPath(test.path("a"), "1".getBytes()),
                curator.transactionOp().create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(test.path("a/s-")),
                curator.transactionOp().setData().withVersion(0).forPath(test.path("a"), "2".getBytes()),
                curator.transactionOp().check().withVersion(1).forPath(test.path("a")));
        Check.equal(4, results.size());
        Check.equal(OperationType.CREATE, results.get(0).getType());
        Check.equal(test.path("a/s-0000000000"), results.get(1).getResultPath());
        Check.equal(1, results.get(2).getResultStat().getVersion());
        Check.fails(Code.NODEEXISTS, () -> curator.transaction().forOperations(
                curator.transactionOp().delete().forPath(test.path("a/s-0000000000")),
                curator.transactionOp().create().forPath(test.path("a"))));
        Check.isTrue(curator.checkExists().forPath(test.path("a/s-0000000000")) != null, "the failed transaction has no effect");
    }

    private static void background(Case test) throws Exception {
        CuratorFramework curator = test.curator();
        CompletableFuture<CuratorEvent> created = new CompletableFuture<>();
        curator.create().inBackground((client, event) -> created.complete(event)).forPath(test.path("a"), "x".getBytes());
        Check.equal(0, created.get(10, TimeUnit.SECONDS).getResultCode());
        CompletableFuture<CuratorEvent> read = new CompletableFuture<>();
        curator.getData().inBackground((client, event) -> read.complete(event)).forPath(test.path("a"));
        Check.bytes("x", read.get(10, TimeUnit.SECONDS).getData());
        CompletableFuture<CuratorEvent> missing = new CompletableFuture<>();
        curator.getChildren().inBackground((client, event) -> missing.complete(event)).forPath(test.path("missing"));
        Check.equal(Code.NONODE.intValue(), missing.get(10, TimeUnit.SECONDS).getResultCode());
        CompletableFuture<CuratorEvent> synced = new CompletableFuture<>();
        curator.sync().inBackground((client, event) -> synced.complete(event)).forPath(test.root);
        Check.equal(0, synced.get(10, TimeUnit.SECONDS).getResultCode());
    }

    private static void watches(Case test) throws Exception {
        CuratorFramework curator = test.curator();
        Events once = new Events();
        Events always = new Events();
        curator.checkExists().usingWatcher(once).forPath(test.path("a"));
        curator.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE).usingWatcher(always).forPath(test.root);
        test.node("a", "");
        once.expect(EventType.NodeCreated, test.path("a"));
        always.expect(EventType.NodeCreated, test.path("a"));
        curator.watchers().remove(always).forPath(test.root);
        always.expect(EventType.PersistentWatchRemoved, test.root);
        test.node("b", "");
        always.expectNone();
    }

    private static void namespace(Case test) throws Exception {
        CuratorFramework inside = test.curator().usingNamespace(test.root.substring(1) + "/space");
        inside.create().forPath("/a", "x".getBytes());
        Check.bytes("x", test.zk.getData(test.path("space/a"), false, null));
        Check.equal(List.of("a"), inside.getChildren().forPath("/"));
    }

    private static void connectionStates(Case test) throws Exception {
        CuratorFramework curator = test.curatorByProxy(Case.SHORT_TIMEOUT_MS);
        BlockingQueue<ConnectionState> states = new LinkedBlockingQueue<>();
        curator.getConnectionStateListenable().addListener((client, state) -> {
            // Curator may report the first connection only now, from another thread.
            if (state != ConnectionState.CONNECTED) {
                states.add(state);
            }
        });
        test.command("drop");
        Check.equal(ConnectionState.SUSPENDED, states.poll(10, TimeUnit.SECONDS));
        Check.equal(ConnectionState.RECONNECTED, states.poll(10, TimeUnit.SECONDS));
        test.command("block");
        Check.equal(ConnectionState.SUSPENDED, states.poll(10, TimeUnit.SECONDS));
        Check.equal(ConnectionState.LOST, states.poll(10, TimeUnit.SECONDS));
        test.command("open");
        Check.equal(ConnectionState.RECONNECTED, states.poll(15, TimeUnit.SECONDS));
    }
}
