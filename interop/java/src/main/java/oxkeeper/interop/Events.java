package oxkeeper.interop;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;

/** A watcher that queues node events and session events separately. */
final class Events implements Watcher {
    /** Time to wait for an event that must not arrive. */
    private static final int QUIET_MS = 150;
    private static final int WAIT_S = 10;

    private final BlockingQueue<WatchedEvent> nodes = new LinkedBlockingQueue<>();
    private final BlockingQueue<Event.KeeperState> states = new LinkedBlockingQueue<>();

    @Override
    public void process(WatchedEvent event) {
        if (event.getType() == Event.EventType.None) {
            states.add(event.getState());
        } else {
            nodes.add(event);
        }
    }

    /** Checks the type and path of the next node event. */
    void expect(Event.EventType type, String path) throws InterruptedException {
        WatchedEvent event = nodes.poll(WAIT_S, TimeUnit.SECONDS);
        if (event == null) {
            throw new AssertionError("no event; expected " + type + " " + path);
        }
        Check.equal(type + " " + path, event.getType() + " " + event.getPath());
    }

    /** Checks that no node event arrives within a short time. */
    void expectNone() throws InterruptedException {
        WatchedEvent event = nodes.poll(QUIET_MS, TimeUnit.MILLISECONDS);
        if (event != null) {
            throw new AssertionError("unexpected event " + event);
        }
    }

    void awaitConnected() throws InterruptedException {
        awaitState(Event.KeeperState.SyncConnected);
    }

    /** Skips session events until the wanted state. */
    void awaitState(Event.KeeperState wanted) throws InterruptedException {
        while (true) {
            Event.KeeperState state = states.poll(WAIT_S, TimeUnit.SECONDS);
            if (state == null) {
                throw new AssertionError("session state " + wanted + " not reached");
            }
            if (state == wanted) {
                return;
            }
        }
    }
}
