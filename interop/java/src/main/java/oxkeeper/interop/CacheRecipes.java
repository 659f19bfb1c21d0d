package oxkeeper.interop;

import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;

/** Cases of Curator's caches, persistent nodes, groups and service discovery. */
final class CacheRecipes {
    private CacheRecipes() {}

    static void addTo(Suite suite) {
        suite.test("curator cache", CacheRecipes::cache);
        suite.test("curator cache over a lost connection", CacheRecipes::cacheReconnects);
        suite.test("curator classic caches", CacheRecipes::classicCaches);
        suite.test("curator persistent watcher", CacheRecipes::persistentWatcher);
        suite.test("curator persistent node", CacheRecipes::persistentNode);
        suite.test("curator persistent ttl node", CacheRecipes::persistentTtlNode);
        suite.test("curator group member", CacheRecipes::groupMember);
        suite.test("curator service discovery", CacheRecipes::serviceDiscovery);
    }

    private static void cache(Case test) throws Exception {
        test.node("a", "1");
        test.node("a/b", "2");
        CuratorCache cache = test.closeLater(CuratorCache.build(test.curator(), test.root));
        CountDownLatch ready = new CountDownLatch(1);
        Set<String> events = ConcurrentHashMap.newKeySet();
        cache.listenable().addListener(CuratorCacheListener.builder()
                .forInitialized(ready::countDown)
                .forCreates(node -> events.add("create " + node.getPath()))
                .forChanges((old, node) -> events.add("change " + new String(old.getData()) + new String(node.getData())))
                .forDeletes(node -> events.add("delete " + node.getPath()))
                .build());
        cache.start();
        Check.isTrue(ready.await(10, TimeUnit.SECONDS), "the cache fills");
        Check.equal(3, cache.size());
        test.node("a/c", "3");
        test.zk.setData(test.path("a"), "9".getBytes(), -1);
        test.zk.delete(test.path("a/b"), -1);
        Check.eventually("all events", () -> events.containsAll(List.of(
                "create " + test.path("a/c"), "change 19", "delete " + test.path("a/b"))));
        Check.bytes("9", cache.get(test.path("a")).map(ChildData::getData).orElse(null));
        Check.isTrue(cache.get(test.path("a/b")).isEmpty(), "the deleted node is gone");
    }

    private static void cacheReconnects(Case test) throws Exception {
        test.node("a", "1");
        CuratorCache cache = test.closeLater(CuratorCache.build(test.curatorByProxy(Case.TIMEOUT_MS), test.root));
        cache.start();
        Check.eventually("the cache fills", () -> cache.get(test.path("a")).isPresent());
        test.command("block");
        test.zk.setData(test.path("a"), "2".getBytes(), -1);
        test.node("b", "");
        test.command("open");
        Check.eventually("the cache catches up", () -> cache.get(test.path("b")).isPresent()
                && new String(cache.get(test.path("a")).orElseThrow().getData()).equals("2"));
    }

    @SuppressWarnings("deprecation")
    private static void classicCaches(Case test) throws Exception {
        CuratorFramework curator = test.curator();
        var children = test.closeLater(
                new org.apache.curator.framework.recipes.cache.PathChildrenCache(curator, test.root, true));
        children.start(org.apache.curator.framework.recipes.cache.PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        var tree = test.closeLater(new org.apache.curator.framework.recipes.cache.TreeCache(curator, test.root));
        tree.start();
        var node = test.closeLater(new org.apache.curator.framework.recipes.cache.NodeCache(curator, test.path("a")));
        node.start(true);
        Check.equal(null, node.getCurrentData());
        test.node("a", "x");
        test.node("a/b", "y");
        Check.eventually("children cache", () -> children.getCurrentData().size() == 1);
        Check.eventually("tree cache", () -> tree.getCurrentData(test.path("a/b")) != null);
        Check.eventually("node cache", () -> node.getCurrentData() != null);
    }

    private static void persistentWatcher(Case test) throws Exception {
        Events events = new Events();
        PersistentWatcher watcher = test.closeLater(new PersistentWatcher(test.curatorByProxy(Case.TIMEOUT_MS), test.root, true));
        CountDownLatch set = new CountDownLatch(1);
        watcher.getResetListenable().addListener(set::countDown);
        watcher.getListenable().addListener((WatchedEvent event) -> events.process(event));
        watcher.start();
        Check.isTrue(set.await(10, TimeUnit.SECONDS), "the watch is set");
        test.node("a", "");
        events.expect(EventType.NodeCreated, test.path("a"));
        test.command("drop");
        Check.eventually("the watch works again", () -> {
            test.zk.setData(test.path("a"), null, -1);
            try {
                events.expectNone();
                return false;
            } catch (AssertionError e) {
                return true;
            }
        });
    }

    private static void persistentNode(Case test) throws Exception {
        PersistentNode node = test.closeLater(new PersistentNode(
                test.curatorByProxy(Case.SHORT_TIMEOUT_MS), CreateMode.EPHEMERAL, false, test.path("node"), "x".getBytes()));
        node.start();
        Check.isTrue(node.waitForInitialCreate(10, TimeUnit.SECONDS), "the node is created");
        test.zk.delete(test.path("node"), -1);
        Check.eventually("it is created again after a delete", () -> test.zk.exists(test.path("node"), false) != null);
        long owner = test.zk.exists(test.path("node"), false).getEphemeralOwner();
        test.command("block");
        Check.eventually("it is deleted with its session", () -> test.zk.exists(test.path("node"), false) == null);
        test.command("open");
        Check.eventually("it is created again by a new session", () -> {
            var stat = test.zk.exists(test.path("node"), false);
            return stat != null && stat.getEphemeralOwner() != owner;
        });
    }

    private static void persistentTtlNode(Case test) throws Exception {
        PersistentTtlNode node = new PersistentTtlNode(test.curator(), test.path("node"), 600, "x".getBytes());
        node.start();
        Check.isTrue(node.waitForInitialCreate(10, TimeUnit.SECONDS), "the node is created");
        Thread.sleep(1500);
        Check.isTrue(test.zk.exists(test.path("node"), false) != null, "it is touched within its TTL");
        node.close();
        Check.eventually("it is deleted after its TTL", () -> test.zk.exists(test.path("node"), false) == null);
    }

    private static void groupMember(Case test) throws Exception {
        GroupMember first = test.closeLater(new GroupMember(test.curator(), test.path("group"), "one", "1".getBytes()));
        GroupMember second = new GroupMember(test.curator(), test.path("group"), "two", "2".getBytes());
        first.start();
        second.start();
        Check.eventually("both are members", () -> first.getCurrentMembers().keySet().equals(Set.of("one", "two")));
        second.close();
        Check.eventually("one member has left", () -> first.getCurrentMembers().keySet().equals(Set.of("one")));
    }

    private static void serviceDiscovery(Case test) throws Exception {
        ServiceDiscovery<Void> discovery = discovery(test);
        ServiceDiscovery<Void> other = discovery(test);
        ServiceInstance<Void> instance = ServiceInstance.<Void>builder().name("web").address("10.0.0.1").port(80).build();
        ServiceInstance<Void> second = ServiceInstance.<Void>builder().name("web").address("10.0.0.2").port(80).build();
        discovery.registerService(instance);
        ServiceCache<Void> cache = test.closeLater(other.serviceCacheBuilder().name("web").build());
        cache.start();
        ServiceProvider<Void> provider = test.closeLater(other.serviceProviderBuilder().serviceName("web").build());
        provider.start();
        Check.eventually("the instance is found", () -> provider.getInstance() != null);
        Check.equal("10.0.0.1", provider.getInstance().getAddress());
        discovery.registerService(second);
        Check.eventually("both instances are found", () -> cache.getInstances().size() == 2);
        Check.equal(2, other.queryForInstances("web").size());
        Check.equal(List.of("web"), List.copyOf(other.queryForNames()));
        discovery.unregisterService(instance);
        Check.eventually("one instance is left", () -> cache.getInstances().size() == 1);
    }

    private static ServiceDiscovery<Void> discovery(Case test) throws Exception {
        ServiceDiscovery<Void> discovery = test.closeLater(ServiceDiscoveryBuilder.builder(Void.class)
                .client(test.curator())
                .basePath(test.path("services"))
                .build());
        discovery.start();
        return discovery;
    }
}
