package oxkeeper.curator;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * Who is inside, as the server sees it: one ephemeral node below {@code inside} each, and a count that everybody adds to while inside,
 * without any protection but the lock that is tested. The other program keeps the same book.
 */
final class CriticalSection {
    private static final AtomicInteger NEXT = new AtomicInteger();

    private final CuratorFramework curator;
    private final String root;

    CriticalSection(CuratorFramework curator, String root) {
        this.curator = curator;
        this.root = root;
    }

    /** Goes in alone, adds one to the count, and goes out. */
    void alone() throws Exception {
        String name = enter("w", names -> names.size() == 1);
        count(name);
        leave(name);
    }

    /** Goes in with others of whom all must be as told, and out. */
    void among(String kind, Predicate<List<String>> may) throws Exception {
        String name = enter(kind, may);
        Thread.sleep(2);
        leave(name);
    }

    String enter(String kind, Predicate<List<String>> may) throws Exception {
        String name = kind + "-curator-" + NEXT.getAndIncrement();
        try {
            curator.create().withMode(CreateMode.EPHEMERAL).forPath(inside(name), new byte[0]);
        } catch (KeeperException.NodeExistsException e) {
            // The answer to an earlier try was lost.
        }
        List<String> names = curator.getChildren().forPath(root + "/inside");
        if (!names.contains(name) || !may.test(names)) {
            throw new AssertionError(names + " at the same time");
        }
        return name;
    }

    void leave(String name) throws Exception {
        try {
            curator.delete().forPath(inside(name));
        } catch (KeeperException.NoNodeException e) {
            // The answer to an earlier try was lost.
        }
    }

    private void count(String name) throws Exception {
        Stat stat = new Stat();
        String before = text(curator.getData().storingStatIn(stat).forPath(root + "/count"));
        String after = Long.parseLong(before.split(" ")[0]) + 1 + " " + name;
        try {
            curator.setData().withVersion(stat.getVersion()).forPath(root + "/count", after.getBytes(StandardCharsets.UTF_8));
        } catch (KeeperException.BadVersionException e) {
            String found = text(curator.getData().forPath(root + "/count"));
            if (!found.equals(after)) {
                throw new AssertionError(found + " instead of " + after);
            }
        }
    }

    private String inside(String name) {
        return root + "/inside/" + name;
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
