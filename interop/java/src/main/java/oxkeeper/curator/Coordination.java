package oxkeeper.curator;

import java.util.Collection;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;

/** Tasks with Curator's counters, barriers, groups and service discovery. */
final class Coordination {
    private Coordination() {}

    static void addTo(Map<String, CuratorWorker.Task> tasks) {
        tasks.put("shared-count", Coordination::sharedCount);
        tasks.put("atomic-long", Coordination::atomicLong);
        tasks.put("barrier-close", (curator, root, none) -> {
            new DistributedBarrier(curator, root + "/barrier").setBarrier();
            return "";
        });
        tasks.put("barrier-open", (curator, root, none) -> {
            new DistributedBarrier(curator, root + "/barrier").removeBarrier();
            return "";
        });
        tasks.put("barrier-wait", (curator, root, none) -> {
            new DistributedBarrier(curator, root + "/barrier").waitOnBarrier();
            return "";
        });
        tasks.put("double-barrier", Coordination::doubleBarrier);
        tasks.put("group", Coordination::group);
        tasks.put("discovery", Coordination::discovery);
    }

    private static String sharedCount(CuratorFramework curator, String root, String[] rounds) throws Exception {
        try (SharedCount count = new SharedCount(curator, root + "/count", 0)) {
            count.start();
            for (int done = 0; done < Locks.number(rounds[0]); ) {
                VersionedValue<Integer> seen = count.getVersionedValue();
                if (count.trySetCount(seen, seen.getValue() + 1)) {
                    done++;
                }
            }
        }
        return "";
    }

    /** Increments the counter repeatedly and returns the sums, which must be unique over all clients. */
    private static String atomicLong(CuratorFramework curator, String root, String[] rounds) throws Exception {
        DistributedAtomicLong total = new DistributedAtomicLong(curator, root + "/total", new RetryNTimes(0, 0));
        StringBuilder sums = new StringBuilder();
        for (int done = 0; done < Locks.number(rounds[0]); ) {
            AtomicValue<Long> added = total.increment();
            if (added.succeeded()) {
                done++;
                sums.append(added.postValue()).append(' ');
            }
        }
        return sums.toString().trim();
    }

    private static String doubleBarrier(CuratorFramework curator, String root, String[] count) throws Exception {
        int clients = Locks.number(count[0]);
        DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(curator, root + "/barrier", clients);
        register(curator, root + "/entering");
        barrier.enter();
        checkAll(curator, root + "/entering", clients);
        register(curator, root + "/leaving");
        barrier.leave();
        checkAll(curator, root + "/leaving", clients);
        return "";
    }

    private static void register(CuratorFramework curator, String list) throws Exception {
        curator.create().forPath(list + "/curator-" + System.nanoTime());
    }

    private static void checkAll(CuratorFramework curator, String list, int count) throws Exception {
        int found = curator.getChildren().forPath(list).size();
        if (found != count) {
            throw new AssertionError(found + " of " + count + " clients in " + list);
        }
    }

    /** Is a member until the node {@code stop} exists. Returns the data of the other member. */
    private static String group(CuratorFramework curator, String root, String[] names) throws Exception {
        try (GroupMember member = new GroupMember(curator, root + "/group", names[0], "from curator".getBytes())) {
            member.start();
            String other = eventually(() -> {
                byte[] data = member.getCurrentMembers().get(names[1]);
                return data == null ? null : new String(data);
            });
            eventually(() -> curator.checkExists().forPath(root + "/stop"));
            return other;
        }
    }

    /** Registers an instance until the node {@code stop} exists. Returns the instances that it sees. */
    private static String discovery(CuratorFramework curator, String root, String[] none) throws Exception {
        ServiceInstance<String> own = ServiceInstance.<String>builder()
                .name("mail").address("10.0.0.2").port(25).payload("curator").build();
        try (ServiceDiscovery<String> discovery = ServiceDiscoveryBuilder.builder(String.class)
                .client(curator).basePath(root + "/services").thisInstance(own).build()) {
            discovery.start();
            Collection<ServiceInstance<String>> both = eventually(() -> {
                Collection<ServiceInstance<String>> found = discovery.queryForInstances("mail");
                return found.size() < 2 ? null : found;
            });
            TreeSet<String> instances = new TreeSet<>();
            both.forEach(instance ->
                    instances.add(instance.getAddress() + ":" + instance.getPort() + "=" + instance.getPayload() + "," + instance.isEnabled()));
            eventually(() -> curator.checkExists().forPath(root + "/stop"));
            return String.join(" ", instances);
        }
    }

    /** Waits until the call returns a value other than null. */
    private static <T> T eventually(Callable<T> call) throws Exception {
        for (T found = call.call(); ; found = call.call()) {
            if (found != null) {
                return found;
            }
            Thread.sleep(20);
        }
    }
}
