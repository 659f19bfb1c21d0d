package oxkeeper.interop;

import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Cases of Curator's queues and counters. */
final class QueueRecipes {
    private QueueRecipes() {}

    static void addTo(Suite suite) {
        suite.test("curator simple queue", QueueRecipes::simpleQueue);
        suite.test("curator queue", QueueRecipes::queue);
        suite.test("curator queue with lock path", QueueRecipes::lockedQueue);
        suite.test("curator priority and delay queue", QueueRecipes::orderedQueues);
        suite.test("curator shared count", QueueRecipes::sharedCount);
        suite.test("curator atomic long", QueueRecipes::atomicLong);
    }

    private static void simpleQueue(Case test) throws Exception {
        SimpleDistributedQueue in = new SimpleDistributedQueue(test.curator(), test.path("queue"));
        SimpleDistributedQueue out = new SimpleDistributedQueue(test.curator(), test.path("queue"));
        Check.equal(null, out.poll(100, TimeUnit.MILLISECONDS));
        for (int i = 0; i < 20; i++) {
            in.offer(("item " + i).getBytes());
        }
        Check.bytes("item 0", out.peek());
        for (int i = 0; i < 20; i++) {
            Check.bytes("item " + i, out.take());
        }
        LockRecipes.together(2, index -> {
            if (index == 0) {
                Check.bytes("late", out.poll(10, TimeUnit.SECONDS));
            } else {
                Thread.sleep(100);
                in.offer("late".getBytes());
            }
        });
    }

    private static void queue(Case test) throws Exception {
        Received received = new Received();
        DistributedQueue<String> producer = test.closeLater(builder(test.curator(), null, test.path("queue")).buildQueue());
        DistributedQueue<String> consumer = test.closeLater(builder(test.curator(), received, test.path("queue")).buildQueue());
        producer.start();
        consumer.start();
        for (int i = 0; i < 20; i++) {
            producer.put("item " + i);
        }
        for (int i = 0; i < 20; i++) {
            received.expect("item " + i);
        }
        Check.isTrue(producer.flushPuts(5, TimeUnit.SECONDS), "all items are put");
    }

    private static void lockedQueue(Case test) throws Exception {
        Received received = new Received();
        DistributedQueue<String> queue = test.closeLater(
                builder(test.curator(), received, test.path("queue")).lockPath(test.path("locks")).buildQueue());
        queue.start();
        for (int i = 0; i < 10; i++) {
            queue.put("item " + i);
        }
        Set<String> items = new HashSet<>();
        for (int i = 0; i < 10; i++) {
            items.add(received.next());
        }
        Check.equal(10, items.size());
        Check.eventually("consumed items are gone", () -> test.zk.getChildren(test.path("queue"), false).isEmpty());
    }

    private static void orderedQueues(Case test) throws Exception {
        CuratorFramework curator = test.curator();
        DistributedPriorityQueue<String> filler =
                test.closeLater(builder(curator, null, test.path("priority")).buildPriorityQueue(0));
        filler.start();
        filler.put("low", 9);
        filler.put("high", 1);
        filler.put("middle", 5);
        Check.isTrue(filler.flushPuts(5, TimeUnit.SECONDS), "all items are put");
        Received received = new Received();
        DistributedPriorityQueue<String> reader =
                test.closeLater(builder(curator, received, test.path("priority")).buildPriorityQueue(0));
        reader.start();
        received.expect("high");
        received.expect("middle");
        received.expect("low");

        Received delayed = new Received();
        DistributedDelayQueue<String> delay =
                test.closeLater(builder(curator, delayed, test.path("delay")).buildDelayQueue());
        delay.start();
        long now = System.currentTimeMillis();
        delay.put("later", now + 600);
        delay.put("sooner", now + 200);
        delayed.expect("sooner");
        delayed.expect("later");
        Check.isTrue(now + 600 <= System.currentTimeMillis(), "the item is not taken before its time");
    }

    private static void sharedCount(Case test) throws Exception {
        SharedCount first = test.closeLater(new SharedCount(test.curator(), test.path("count"), 7));
        SharedCount second = test.closeLater(new SharedCount(test.curator(), test.path("count"), 7));
        BlockingQueue<Integer> seen = new LinkedBlockingQueue<>();
        second.addListener(new SharedCountListener() {
            @Override
            public void countHasChanged(SharedCountReader reader, int count) {
                seen.add(count);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        });
        first.start();
        second.start();
        Check.equal(7, first.getCount());
        first.setCount(8);
        Check.equal(8, seen.poll(10, TimeUnit.SECONDS));
        Check.isTrue(second.trySetCount(second.getVersionedValue(), 9), "a fresh version is accepted");
        Check.eventually("the first client sees the new count", () -> first.getCount() == 9);
    }

    private static void atomicLong(Case test) throws Exception {
        CuratorFramework curator = test.curator();
        LockRecipes.together(3, index -> {
            DistributedAtomicLong value = new DistributedAtomicLong(curator, test.path("long"), new RetryNTimes(200, 2));
            for (int i = 0; i < 20; i++) {
                AtomicValue<Long> result = value.increment();
                Check.isTrue(result.succeeded(), "the increment succeeds");
                Check.equal(result.preValue() + 1, result.postValue());
            }
        });
        DistributedAtomicLong value = new DistributedAtomicLong(curator, test.path("long"), new RetryNTimes(10, 10));
        Check.equal(60L, value.get().postValue());
        Check.isTrue(value.compareAndSet(60L, 1L).succeeded(), "compare and set");
        Check.isTrue(!value.compareAndSet(60L, 2L).succeeded(), "compare and set of an old value");
    }

    private static QueueBuilder<String> builder(CuratorFramework curator, QueueConsumer<String> consumer, String path) {
        return QueueBuilder.builder(curator, consumer, new Text(), path);
    }

    private static final class Text implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes();
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes);
        }
    }

    /** A consumer that queues the items that it receives. */
    private static final class Received implements QueueConsumer<String> {
        private final BlockingQueue<String> items = new LinkedBlockingQueue<>();

        @Override
        public void consumeMessage(String message) {
            items.add(message);
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}

        String next() throws InterruptedException {
            String item = items.poll(10, TimeUnit.SECONDS);
            Check.isTrue(item != null, "one more item");
            return item;
        }

        void expect(String item) throws InterruptedException {
            Check.equal(item, next());
        }
    }
}
