package oxkeeper.curator;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBase;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.CreateMode;

/** Tasks with Curator's queues, whose items are locked while a consumer processes them. */
final class Queues {
    private Queues() {}

    static void addTo(Map<String, CuratorWorker.Task> tasks) {
        tasks.put("put", Queues::put);
        tasks.put("put-by-priority", Queues::putByPriority);
        tasks.put("put-due", Queues::putDue);
        tasks.put("take", (curator, root, total) ->
                take(curator, root, total, builder(curator, root, new TakenItems(curator, root)).buildQueue()));
        tasks.put("take-by-priority", (curator, root, total) ->
                take(curator, root, total, builder(curator, root, new TakenItems(curator, root)).buildPriorityQueue(0)));
        tasks.put("take-due", (curator, root, total) ->
                take(curator, root, total, builder(curator, root, new TakenItems(curator, root)).buildDelayQueue()));
    }

    /** A consumer that appends each item to the sequential nodes below {@code taken}. */
    private record TakenItems(CuratorFramework curator, String root) implements QueueConsumer<String> {
        @Override
        public void consumeMessage(String message) throws Exception {
            curator.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL)
                    .forPath(root + "/taken/n-", message.getBytes(StandardCharsets.UTF_8));
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}
    }

    private static final class Text implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }

    private static QueueBuilder<String> builder(CuratorFramework curator, String root, QueueConsumer<String> consumer) {
        return QueueBuilder.builder(curator, consumer, new Text(), root + "/queue").lockPath(root + "/queue-locks");
    }

    private static String put(CuratorFramework curator, String root, String[] items) throws Exception {
        try (DistributedQueue<String> queue = builder(curator, root, null).buildQueue()) {
            queue.start();
            for (String item : items) {
                queue.put(item);
            }
            return flushed(queue);
        }
    }

    /** The form of an item is {@code text=priority}. */
    private static String putByPriority(CuratorFramework curator, String root, String[] items) throws Exception {
        try (DistributedPriorityQueue<String> queue = builder(curator, root, null).buildPriorityQueue(0)) {
            queue.start();
            for (String item : items) {
                queue.put(item, Integer.parseInt(item.split("=")[1]));
            }
            return flushed(queue);
        }
    }

    /** The form of an item is {@code text=milliseconds since 1970}. */
    private static String putDue(CuratorFramework curator, String root, String[] items) throws Exception {
        try (DistributedDelayQueue<String> queue = builder(curator, root, null).buildDelayQueue()) {
            queue.start();
            for (String item : items) {
                queue.put(item, Long.parseLong(item.split("=")[1]));
            }
            return flushed(queue);
        }
    }

    private static String flushed(QueueBase<String> queue) throws InterruptedException {
        if (!queue.flushPuts(30, TimeUnit.SECONDS)) {
            throw new AssertionError("items are not put within 30 s");
        }
        return "";
    }

    /** Takes items until all clients together have taken the given number. */
    private static String take(CuratorFramework curator, String root, String[] total, QueueBase<String> queue) throws Exception {
        try (queue) {
            queue.start();
            while (curator.getChildren().forPath(root + "/taken").size() < Locks.number(total[0])
                    || !curator.getChildren().forPath(root + "/queue").isEmpty()) {
                Thread.sleep(20);
            }
        }
        return "";
    }
}
