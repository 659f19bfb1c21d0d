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
 * The critical section that a lock protects: one ephemeral node below {@code inside} for each client inside, and a
 * count of entries that only the tested lock protects. The Rust side ({@code critical_section.rs}) writes the same nodes.
 */
final class CriticalSection {
    private static final AtomicInteger NEXT_ID = new AtomicInteger();

    private final CuratorFramework curator;
    private final String root;

    CriticalSection(CuratorFramework curator, String root) {
        this.curator = curator;
        this.root = root;
    }

    /** Enters, checks that no other client is inside, increments the count and leaves. */
    void enterExclusively() throws Exception {
        String name = enter("w", names -> names.size() == 1);
        count(name);
        leave(name);
    }

    /** Enters together with others and leaves. {@code isAllowed} checks the names of all clients inside. */
    void enterShared(Predicate<List<String>> isAllowed) throws Exception {
        String name = enter("r", isAllowed);
        Thread.sleep(2);
        leave(name);
    }

    private String enter(String kind, Predicate<List<String>> isAllowed) throws Exception {
        String name = kind + "-curator-" + NEXT_ID.getAndIncrement();
        try {
            curator.create().withMode(CreateMode.EPHEMERAL).forPath(inside(name), new byte[0]);
        } catch (KeeperException.NodeExistsException e) {
            // An earlier attempt succeeded, but its reply was lost.
        }
        List<String> names = curator.getChildren().forPath(root + "/inside");
        if (!names.contains(name) || !isAllowed.test(names)) {
            throw new AssertionError(names + " are in the critical section");
        }
        return name;
    }

    private void leave(String name) throws Exception {
        try {
            curator.delete().forPath(inside(name));
        } catch (KeeperException.NoNodeException e) {
            // An earlier attempt succeeded, but its reply was lost.
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
                throw new AssertionError("the count is " + found + " instead of " + after);
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
