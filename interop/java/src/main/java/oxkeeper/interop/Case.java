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

/** One running case: a node of its own to work below, and clients that are closed when it ends. */
final class Case implements AutoCloseable {
    static final int TIMEOUT_MS = 10_000;
    /** Short enough to wait for its expiry, long enough for a busy machine. */
    static final int SHORT_TIMEOUT_MS = 2_000;

    final Fixture stage;
    final String root;
    /** A client straight to the server, authenticated as super, for preparing and looking; shared by the cases. */
    final ZooKeeper zk;
    private final Deque<AutoCloseable> open = new ArrayDeque<>();

    Case(Fixture stage, ZooKeeper zk, String name) throws Exception {
        this.stage = stage;
        this.zk = zk;
        this.root = "/java-" + name.replace(' ', '-');
        // The node may be left from an earlier run on the same server.
        if (zk.exists(root, false) != null) {
            ZKUtil.deleteRecursive(zk, root);
        }
        zk.create(root, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    /** A path below the case's own node. */
    String path(String rest) {
        return root + "/" + rest;
    }

    /** Creates a persistent node below the case's own one and returns its path. */
    String node(String rest, String data) throws KeeperException, InterruptedException {
        return zk.create(path(rest), data.getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    /** A connected client straight to the server. */
    ZooKeeper connect(Events events) throws Exception {
        return connected(new ZooKeeper(stage.server(), TIMEOUT_MS, events), events);
    }

    /** A connected client whose connection the control port can cut. */
    ZooKeeper connectByProxy(int timeoutMs, Events events) throws Exception {
        return connected(new ZooKeeper(stage.proxy(), timeoutMs, events), events);
    }

    /** Waits for the connection of a new client and closes it with the case. */
    ZooKeeper connected(ZooKeeper client, Events events) throws InterruptedException {
        closeLater(client);
        events.awaitConnected();
        return client;
    }

    /** A started Curator client straight to the server. */
    CuratorFramework curator() throws InterruptedException {
        return started(curatorTo(stage.server(), TIMEOUT_MS));
    }

    /** A started Curator client whose connection the control port can cut. */
    CuratorFramework curatorByProxy(int timeoutMs) throws InterruptedException {
        return started(curatorTo(stage.proxy(), timeoutMs));
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
        Check.yes(curator.blockUntilConnected(10, TimeUnit.SECONDS), "Curator connects");
        return curator;
    }

    /** Closes something when the case ends, the youngest first. */
    <T extends AutoCloseable> T closeLater(T resource) {
        open.push(resource);
        return resource;
    }

    /** Control commands, undone at the end of the case. */
    void command(String command) throws Exception {
        stage.command(command);
        if (command.equals("block")) {
            closeLater(() -> stage.command("open"));
        }
    }

    @Override
    public void close() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
    }
}
