package oxkeeper.interop;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZKUtil;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** A running case with a separate root node, and with clients that are closed at its end. */
final class Case implements AutoCloseable {
    static final int TIMEOUT_MS = 10_000;
    /** For sessions whose expiry a case waits for; long enough for a busy machine. */
    static final int SHORT_TIMEOUT_MS = 2_000;

    final Fixture fixture;
    final String root;
    /** A client without the proxy, authenticated as super, to prepare and inspect nodes. Shared by the cases. */
    final ZooKeeper zk;
    private final Deque<AutoCloseable> open = new ArrayDeque<>();

    Case(Fixture fixture, ZooKeeper zk, String name) throws Exception {
        this.fixture = fixture;
        this.zk = zk;
        this.root = "/java-" + name.replace(' ', '-');
        // An earlier run on the same server may have left the node.
        if (zk.exists(root, false) != null) {
            ZKUtil.deleteRecursive(zk, root);
        }
        zk.create(root, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    /** A path below the root node of the case. */
    String path(String rest) {
        return root + "/" + rest;
    }

    /** Creates a persistent node below the root node and returns its path. */
    String node(String rest, String data) throws KeeperException, InterruptedException {
        return zk.create(path(rest), data.getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    /** A connected client without the proxy. */
    ZooKeeper connect(Events events) throws Exception {
        return connected(new ZooKeeper(fixture.server(), TIMEOUT_MS, events), events);
    }

    /** A connected client whose connection goes through the proxy. */
    ZooKeeper connectByProxy(int timeoutMs, Events events) throws Exception {
        return connected(new ZooKeeper(fixture.proxy(), timeoutMs, events), events);
    }

    /** Waits until a new client is connected. The case closes it. */
    ZooKeeper connected(ZooKeeper client, Events events) throws InterruptedException {
        closeLater(client);
        events.awaitConnected();
        return client;
    }

    /** A started Curator client without the proxy. */
    CuratorFramework curator() throws InterruptedException {
        return started(curatorTo(fixture.server(), TIMEOUT_MS));
    }

    /** A started Curator client whose connection goes through the proxy. */
    CuratorFramework curatorByProxy(int timeoutMs) throws InterruptedException {
        return started(curatorTo(fixture.proxy(), timeoutMs));
    }

    private static CuratorFramework curatorTo(String address, int timeoutMs) {
        return CuratorFrameworkFactory.builder()
                .connectString(address)
                .sessionTimeoutMs(timeoutMs)
                .connectionTimeoutMs(timeoutMs)
                .retryPolicy(new RetryNTimes(50, 100))
                .build();
    }

    private CuratorFramework started(CuratorFramework curator) throws InterruptedException {
        closeLater(curator);
        curator.start();
        Check.isTrue(curator.blockUntilConnected(10, TimeUnit.SECONDS), "Curator connects");
        return curator;
    }

    /** Closes a resource at the end of the case, the newest first. */
    <T extends AutoCloseable> T closeLater(T resource) {
        open.push(resource);
        return resource;
    }

    /** Sends a control command. The end of the case undoes {@code block}. */
    void command(String command) throws Exception {
        fixture.command(command);
        if (command.equals("block")) {
            closeLater(() -> fixture.command("open"));
        }
    }

    @Override
    public void close() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }
}
