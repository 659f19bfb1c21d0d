//! Recipes while servers of the ensemble are killed and restarted: their guarantees hold, and the work continues.
//!
//! No session expires here, so guarantees "while the session lasts" hold without exception.

use crate::clients::{Progress, connect, kill_servers, number, servers, soon};
use crate::members;
use ox_client::{Client, RequestOutcome, Version, Zxid};
use ox_recipes::RecipeError;
use ox_recipes::barrier::{Barrier, DoubleBarrier};
use ox_recipes::config::SharedConfig;
use ox_recipes::counter::{AtomicLong, UniqueIds};
use ox_recipes::discovery::{ProviderStrategy, ServiceInstance, ServiceProvider, register};
use ox_recipes::leader::LeaderLatch;
use ox_recipes::presence::{GroupMember, members};
use ox_recipes::queue::Queue;
use ox_recipes::semaphore::Semaphore;
use ox_recipes::tasks::{TaskList, TaskWorker};
use ox_testkit::{LinkState, Network, TestEnsemble, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Number of participants in a recipe.
const WORKERS: usize = 3;

/// An ensemble, and the clients that work on it.
struct Run {
    ensemble: TestEnsemble,
    runtime: Runtime,
    progress: Progress,
    work: Vec<JoinHandle<()>>,
}

impl Run {
    fn start() -> Self {
        let ensemble = members::start(3, 0, "");
        Self { ensemble, runtime: Runtime::new().unwrap(), progress: Progress::default(), work: Vec::new() }
    }

    /// Starts the workers, each with its own session, which must not expire.
    fn spawn<F>(&mut self, work: impl Fn(usize, Client, Progress) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        for worker in 0..WORKERS {
            let client = self.connect();
            let done = work(worker, client.clone(), self.progress.clone());
            self.work.push(self.runtime.spawn(async move {
                let session = client.session().unwrap().id;
                done.await;
                assert_eq!(client.session().unwrap().id, session, "the session is the same");
            }));
        }
    }

    fn connect(&self) -> Client {
        self.runtime.block_on(connect(&servers(&self.ensemble)))
    }

    /// Kills servers during the work, lets it end, and checks what is left.
    fn finish(mut self, look: impl AsyncFnOnce(Client)) {
        let work = std::mem::take(&mut self.work);
        kill_servers(&mut self.ensemble, &self.runtime, &self.progress, work);
        let client = self.connect();
        self.runtime.block_on(soon(async {
            client.sync("/").await.unwrap();
            look(client).await;
        }));
    }
}

/// The result, if the operation certainly took effect: a lost reply leaves that open.
fn is_certain<T>(done: Result<T, RecipeError>) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(RecipeError::Client(error)) if error.outcome() == RequestOutcome::Unknown => None,
        Err(error) => panic!("{error}"),
    }
}

/// What happened to the items of a queue.
#[derive(Default)]
struct Items {
    put: BTreeSet<String>,
    perhaps: BTreeSet<String>,
    in_work: BTreeSet<String>,
    done: BTreeMap<String, String>,
}

impl Items {
    fn note_put(&mut self, text: String, is_certain: bool) {
        let items = if is_certain { &mut self.put } else { &mut self.perhaps };
        items.insert(text);
    }
}

async fn put_and_take(worker: usize, client: Client, progress: Progress, items: Arc<Mutex<Items>>) {
    let queue = Queue::new(&client, "/queue");
    for round in 1.. {
        let text = format!("{worker}-{round}");
        let is_put = is_certain(queue.put(&text).await).is_some();
        items.lock().unwrap().note_put(text, is_put);
        // The queue may be empty: the last item need not have been added.
        if let Some(item) = queue.take_within(Duration::from_secs(1)).await.unwrap() {
            let (path, data) = (item.path().to_owned(), String::from_utf8(item.data().to_vec()).unwrap());
            assert!(items.lock().unwrap().in_work.insert(path.clone()), "{path} has two consumers");
            let comes_back = round % 4 == 0;
            tokio::task::yield_now().await;
            if comes_back {
                assert!(items.lock().unwrap().in_work.remove(&path));
                drop(item);
            } else {
                // The item is done and will not be delivered again.
                item.done().await.unwrap();
                let twice = items.lock().unwrap().done.insert(path, data);
                assert_eq!(twice, None, "an item is done once");
            }
        }
        progress.step();
        if !progress.goes_on() {
            return;
        }
    }
}

#[test]
fn queues_deliver_every_item_once_while_servers_are_killed() {
    let mut run = Run::start();
    let items = Arc::<Mutex<Items>>::default();
    run.spawn(|worker, client, progress| put_and_take(worker, client, progress, Arc::clone(&items)));
    run.finish(async |client| {
        let queue = Queue::new(&client, "/queue");
        let mut done: Vec<String> = items.lock().unwrap().done.values().cloned().collect();
        while 0 < queue.count().await.unwrap() {
            let item = queue.take().await.unwrap();
            done.push(String::from_utf8(item.data().to_vec()).unwrap());
            item.done().await.unwrap();
        }
        let all: BTreeSet<String> = done.iter().cloned().collect();
        assert_eq!(all.len(), done.len(), "nothing was delivered twice");
        let Items { put, perhaps, .. } = std::mem::take(&mut *items.lock().unwrap());
        assert_eq!(put.difference(&all).next(), None, "all that was put was delivered");
        assert!(all.iter().all(|item| put.contains(item) || perhaps.contains(item)));
    });
}

#[derive(Default)]
struct Counts {
    inside: AtomicUsize,
    added: AtomicI64,
    perhaps: AtomicI64,
    ids: Mutex<BTreeSet<u32>>,
    newest: Mutex<Option<Zxid>>,
}

/// Leases, additions, sequence numbers and terms of leadership in turn.
async fn count(worker: usize, client: Client, progress: Progress, counts: Arc<Counts>) {
    let (pool, total) = (Semaphore::new(&client, "/pool", 2), AtomicLong::new(&client, "/total"));
    let ids = UniqueIds::new(&client, "/ids");
    while progress.goes_on() {
        let lease = pool.acquire().await.unwrap();
        assert!(counts.inside.fetch_add(1, Ordering::SeqCst) < 2, "more leases than there are");
        match is_certain(total.add(1).await) {
            Some(_) => counts.added.fetch_add(1, Ordering::SeqCst),
            None => counts.perhaps.fetch_add(1, Ordering::SeqCst),
        };
        counts.inside.fetch_sub(1, Ordering::SeqCst);
        lease.release().await.unwrap();
        let id = ids.next().await.unwrap();
        assert!(counts.ids.lock().unwrap().insert(id), "{id} was given twice");
        let latch = LeaderLatch::join(&client, "/office", &worker.to_string()).await.unwrap();
        let office = latch.await_leadership().await.unwrap();
        let before = counts.newest.lock().unwrap().replace(office.token());
        assert!(before < Some(office.token()), "later leaders have larger tokens");
        office.release().await.unwrap();
        progress.step();
    }
}

#[test]
fn leases_counters_and_leaderships_hold_while_servers_are_killed() {
    let mut run = Run::start();
    let counts = Arc::<Counts>::default();
    run.spawn(|worker, client, progress| count(worker, client, progress, Arc::clone(&counts)));
    run.finish(async |client| {
        let total = AtomicLong::new(&client, "/total").get().await.unwrap();
        let (added, perhaps) = (counts.added.load(Ordering::SeqCst), counts.perhaps.load(Ordering::SeqCst));
        assert!((added..=added + perhaps).contains(&total), "{total}, {added} and perhaps {perhaps}");
        for left in ["/pool/leases", "/pool/locks", "/ids", "/office"] {
            assert_eq!(client.children(left).await.unwrap_or_default(), [""; 0], "{left}");
        }
    });
}

#[derive(Default)]
struct Meetings {
    come: AtomicUsize,
    done: AtomicUsize,
    is_over: AtomicBool,
}

/// One double barrier after another, until the first worker ends.
async fn meet(worker: usize, client: Client, progress: Progress, meetings: Arc<Meetings>) {
    let (crew, gate) = (DoubleBarrier::new(&client, "/crew", WORKERS), Barrier::new(&client, "/gate"));
    for meeting in 1.. {
        if worker == 0 {
            gate.close().await.unwrap();
        }
        meetings.come.fetch_add(1, Ordering::SeqCst);
        let entered = crew.enter().await.unwrap();
        assert_eq!(meetings.come.load(Ordering::SeqCst), meeting * WORKERS, "no worker begins before all have entered");
        if worker == 0 {
            meetings.is_over.store(!progress.goes_on(), Ordering::SeqCst);
            gate.open().await.unwrap();
        }
        gate.wait().await.unwrap();
        meetings.done.fetch_add(1, Ordering::SeqCst);
        entered.leave().await.unwrap();
        assert!(meeting * WORKERS <= meetings.done.load(Ordering::SeqCst), "no worker leaves before all are done");
        progress.step();
        if meetings.is_over.load(Ordering::SeqCst) {
            return;
        }
    }
}

#[test]
fn barriers_release_all_while_servers_are_killed() {
    let mut run = Run::start();
    let meetings = Arc::<Meetings>::default();
    run.spawn(|worker, client, progress| meet(worker, client, progress, Arc::clone(&meetings)));
    run.finish(async |client| assert_eq!(client.children("/crew").await.unwrap_or_default(), [""; 0]));
}

/// The test deletes nodes of members and instances: each is created again, and the others observe both.
async fn belong(worker: usize, client: Client, progress: Progress) {
    let mut member = GroupMember::join(&client, "/group", &worker.to_string(), "here").await.unwrap();
    let instance = ServiceInstance::<String>::new("mail", "10.0.0.1", 25);
    let _registered = register(&client, "/services", &instance).await.unwrap();
    let mut service =
        ServiceProvider::<String>::follow(&client, "/services", "mail", ProviderStrategy::Random).await.unwrap();
    while progress.goes_on() {
        for path in [format!("/group/{worker}"), format!("/services/mail/{}", instance.id)] {
            _ = client.delete(&path, Version::Any).await; // the reply may be lost, or the node is gone already
        }
        while member.members().len() < WORKERS {
            member.changed().await.unwrap();
        }
        while !service.instances().contains(&instance) {
            service.changed().await.unwrap();
        }
        progress.step();
    }
    while member.members().len() < WORKERS {
        member.changed().await.unwrap();
    }
    // Each worker waits until all have seen everyone.
    DoubleBarrier::new(&client, "/end", WORKERS).enter().await.unwrap().leave().await.unwrap();
    member.leave().await.unwrap();
}

#[test]
fn members_and_instances_are_restored_while_servers_are_killed() {
    let mut run = Run::start();
    run.spawn(belong);
    run.finish(async |client| assert_eq!(members(&client, "/group").await.unwrap(), [""; 0]));
}

/// Publishes values and follows those of others.
async fn publish(client: Client, progress: Progress, published: Arc<Mutex<BTreeMap<u32, usize>>>) {
    let config = SharedConfig::<usize>::new(&client, "/config");
    let mut follower = config.follow().await.unwrap();
    let mut last = 0;
    for value in 1.. {
        if let Some(version) = is_certain(config.publish(&value).await) {
            let twice = published.lock().unwrap().insert(version, value);
            assert_eq!(twice, None, "version {version} was published twice");
            while follower.current().unwrap().is_none_or(|seen| seen.version < version) {
                follower.changed().await.unwrap();
            }
        }
        let seen = follower.current().unwrap().map_or(0, |seen| seen.version);
        assert!(last <= seen, "a follower goes on, not back");
        last = seen;
        progress.step();
        if !progress.goes_on() {
            return;
        }
    }
}

#[test]
fn published_values_stay_in_order_while_servers_are_killed() {
    let mut run = Run::start();
    let published = Arc::<Mutex<BTreeMap<u32, usize>>>::default();
    run.spawn(|_, client, progress| publish(client, progress, Arc::clone(&published)));
    run.finish(async |client| {
        let config = SharedConfig::<usize>::new(&client, "/config");
        let newest = config.get().await.unwrap().unwrap().version;
        let published = std::mem::take(&mut *published.lock().unwrap());
        for version in 1..=newest {
            let kept = config.revision(version).await.unwrap().map(|kept| kept.value);
            assert!(kept.is_some(), "version {version} is kept");
            assert!(published.get(&version).is_none_or(|value| Some(*value) == kept), "version {version}: {kept:?}");
        }
        assert!(published.keys().all(|version| *version <= newest));
    });
}

/// Increments the progress of each task that is assigned to it, as the only worker.
async fn share(worker: usize, client: Client, progress: Progress, commits: Arc<[AtomicUsize; 2]>) {
    let tasks = TaskList::new(&client, "/shared");
    for name in ["0", "1"] {
        tasks.add(name, "").await.unwrap();
    }
    let name = worker.to_string();
    while progress.goes_on() {
        let mut crew = TaskWorker::join(&client, "/shared", &name).await.unwrap();
        for _ in 0..5 {
            for task in crew.tasks() {
                let before = tasks.progress(&task).await.unwrap().map_or(0, |text| number(&text));
                let counted = commits[number(task.as_bytes())].fetch_add(1, Ordering::SeqCst);
                assert_eq!(before, counted, "task {task} has one worker");
                crew.commit(&task, (before + 1).to_string()).await.unwrap();
                progress.step();
            }
            if let Ok(done) = tokio::time::timeout(Duration::from_millis(5), crew.rebalance()).await {
                done.unwrap();
            }
        }
        crew.leave().await.unwrap();
    }
}

#[test]
fn tasks_have_one_worker_while_servers_are_killed() {
    let mut run = Run::start();
    let commits = Arc::new([const { AtomicUsize::new(0) }; 2]);
    run.spawn(|worker, client, progress| share(worker, client, progress, Arc::clone(&commits)));
    run.finish(async |client| {
        for (task, commits) in commits.iter().enumerate() {
            let progress = TaskList::new(&client, "/shared").progress(&task.to_string()).await.unwrap();
            assert_eq!(progress.map_or(0, |text| number(&text)), commits.load(Ordering::SeqCst));
        }
    });
}

/// A server that has not received from its leader for a while serves old data.
#[test]
fn closed_gate_is_closed_for_clients_of_stale_servers() {
    let network = Network::new(3);
    let ensemble = members::start_on(members::prepare(3, 0, "", &[]), &network);
    let leader = ensemble.leader();
    let behind = (leader + 1) % 3;
    let runtime = Runtime::new().unwrap();
    let [keeper, comer] = [leader, behind].map(|at| runtime.block_on(connect(&ensemble.addresses[at].to_string())));
    network.set(leader, behind, LinkState::Silent);
    let gate = Barrier::new(&keeper, "/gate");
    runtime.block_on(gate.close()).unwrap();
    let waiting = runtime.spawn(async move { Barrier::new(&comer, "/gate").wait().await.unwrap() });
    wait_until("a server that hears nothing gives up", || ensemble.mode(behind).is_none());
    assert!(!waiting.is_finished(), "a closed gate lets no client through");
    network.heal();
    runtime.block_on(soon(async {
        gate.open().await.unwrap();
        waiting.await.unwrap();
    }));
}
