//! The event loop.
//!
//! Most events are handled directly in the world. Jobs call the store, which calls the disk, and each disk call takes
//! virtual time. Every job therefore has its own thread, and a single baton is passed between threads: a thread that
//! calls the disk runs the event loop itself until its call completes, and passes the baton on when the next event
//! belongs to another thread. Only the holder of the baton runs, so a simulation is as deterministic as on one thread,
//! and every job can be interrupted by every other one.

use crate::event::{Event, Job, ProcessId};
use crate::jobs;
use crate::world::World;
use ox_history::Time;
use parking_lot::Mutex;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

pub(crate) type SharedWorld = Arc<Mutex<World>>;
pub(crate) type WeakWorld = Weak<Mutex<World>>;

/// Passes the baton to a thread, with an instruction.
#[derive(Debug)]
enum Baton {
    /// The awaited event has occurred.
    Resume,
    /// A job is to be executed.
    Run(Job),
    /// The simulation has ended.
    Exit,
}

/// Identifies a wait for an event.
pub(crate) type Ticket = u64;

/// The threads of a simulation.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    tickets: Ticket,
    /// Threads that wait for an event.
    waiting: BTreeMap<Ticket, Sender<Baton>>,
    /// Threads without a job.
    idle: Vec<Sender<Baton>>,
    threads: Vec<JoinHandle<()>>,
    /// The wait of the thread that started the simulation.
    main: Option<Ticket>,
    panic: Option<Panic>,
    is_over: bool,
}

type Panic = Box<dyn Any + Send>;

impl Workers {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        self.tickets
    }
}

thread_local! {
    static CHANNEL: RefCell<Option<(Sender<Baton>, Receiver<Baton>)>> = const { RefCell::new(None) };
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// The seed of the simulation that runs on this thread.
pub fn running_seed() -> u64 {
    SEED.get()
}

pub(crate) fn set_seed(seed: u64) {
    SEED.set(seed);
}

/// Runs events until the given time, on the thread that started the simulation. Returns early after a failure.
pub(crate) fn run_until(world: &SharedWorld, until: Time) {
    let ticket = {
        let mut world = world.lock();
        let ticket = world.env.workers.ticket();
        world.env.workers.main = Some(ticket);
        world.env.queue.schedule(until, Event::Wake(ticket, None));
        ticket
    };
    run_events(world, Some(ticket));
    let mut locked = world.lock();
    locked.env.workers.main = None;
    let panic = locked.env.workers.panic.take();
    drop(locked);
    if let Some(panic) = panic {
        shut_down(world);
        resume_unwind(panic);
    }
}

/// Runs events until the given time, during a job of `pid`.
pub(crate) fn wait(world: &SharedWorld, until: Time, pid: ProcessId) {
    let ticket = {
        let mut world = world.lock();
        let ticket = world.env.workers.ticket();
        world.env.queue.schedule(until, Event::Wake(ticket, Some(pid)));
        ticket
    };
    run_events(world, Some(ticket));
}

/// Ends all unfinished jobs, one after another.
pub(crate) fn shut_down(world: &SharedWorld) {
    world.lock().env.workers.is_over = true;
    loop {
        let mut locked = world.lock();
        let workers = &mut locked.env.workers;
        let next = workers.waiting.pop_first().map(|(_, worker)| (worker, Baton::Resume));
        let Some((worker, go)) = next.or_else(|| workers.idle.pop().map(|worker| (worker, Baton::Exit))) else { break };
        drop(locked);
        _ = worker.send(go);
    }
    let threads = std::mem::take(&mut world.lock().env.workers.threads);
    threads.into_iter().for_each(|thread| _ = thread.join());
}

/// Runs events until the one that `ticket` waits for. Without a ticket: until the thread gets no further job.
fn run_events(world: &SharedWorld, ticket: Option<Ticket>) {
    loop {
        let mut locked = world.lock();
        if locked.env.workers.is_over {
            return;
        }
        if locked.env.failure.is_some() || locked.env.workers.panic.is_some() {
            let main = locked.env.workers.main;
            if main == ticket {
                return;
            }
            return resume_waiter(world, locked, main, ticket);
        }
        let (at, event) = locked.env.queue.pop().expect("a thread waits for an event");
        locked.env.now = at.max(locked.env.now);
        if let Some(later) = locked.waits(event) {
            locked.env.queue.schedule(later, event);
            continue;
        }
        match event {
            Event::Wake(due, _) if Some(due) == ticket => return,
            Event::Wake(due, _) => return resume_waiter(world, locked, Some(due), ticket),
            Event::Job(job) if !locked.may_begin(job) => locked.env.schedule_in(200, event),
            Event::Job(job) => match ticket {
                None => {
                    drop(locked);
                    run(world, job);
                }
                Some(ticket) => {
                    let worker = locked.env.workers.idle.pop();
                    drop(locked);
                    let worker = worker.unwrap_or_else(|| spawn_worker(world));
                    return pass_baton(world, &worker, Baton::Run(job), Some(ticket));
                }
            },
            _ => locked.handle(event),
        }
    }
}

/// Passes the baton to the thread that waits for `due`.
fn resume_waiter(
    world: &SharedWorld,
    mut locked: parking_lot::MutexGuard<'_, World>,
    due: Option<Ticket>,
    ticket: Option<Ticket>,
) {
    let worker = due.and_then(|due| locked.env.workers.waiting.remove(&due));
    drop(locked);
    // The thread is missing only when the simulation ends.
    if let Some(worker) = worker {
        pass_baton(world, &worker, Baton::Resume, ticket);
    }
}

/// Passes the baton and waits for its return. Without a ticket it returns with a job or not at all.
fn pass_baton(world: &SharedWorld, to: &Sender<Baton>, go: Baton, ticket: Option<Ticket>) {
    let ours = CHANNEL.with_borrow_mut(|worker| worker.get_or_insert_with(channel).0.clone());
    let mut locked = world.lock();
    match ticket {
        Some(ticket) => _ = locked.env.workers.waiting.insert(ticket, ours),
        None => locked.env.workers.idle.push(ours),
    }
    drop(locked);
    _ = to.send(go);
    match CHANNEL.with_borrow(|worker| worker.as_ref().and_then(|(_, receiver)| receiver.recv().ok())) {
        Some(Baton::Run(job)) => run(world, job),
        Some(Baton::Resume | Baton::Exit) | None => (),
    }
}

/// Starts a thread that executes jobs.
fn spawn_worker(world: &SharedWorld) -> Sender<Baton> {
    let (sender, receiver) = channel();
    let (worker, shared, seed) = (sender.clone(), Arc::clone(world), running_seed());
    let thread = std::thread::spawn(move || {
        set_seed(seed);
        let first = receiver.recv();
        CHANNEL.set(Some((worker, receiver)));
        let Ok(Baton::Run(job)) = first else { return };
        let worked = catch_unwind(AssertUnwindSafe(|| {
            run(&shared, job);
            while !shared.lock().env.workers.is_over {
                run_events(&shared, None);
            }
        }));
        if let Err(panic) = worked {
            let mut locked = shared.lock();
            locked.env.workers.panic = Some(panic);
            let main = locked.env.workers.main;
            if let Some(worker) = main.and_then(|main| locked.env.workers.waiting.remove(&main)) {
                _ = worker.send(Baton::Resume);
            }
        }
    });
    world.lock().env.workers.threads.push(thread);
    sender
}

fn run(world: &SharedWorld, job: Job) {
    match job {
        Job::Start(server) => jobs::start(world, server),
        Job::Log(pid) => jobs::write_log(world, pid),
        Job::Snapshot(pid) => jobs::write_snapshot(world, pid),
        Job::Maintain(pid) => jobs::maintain(world, pid),
        Job::Stop(pid) => jobs::stop(world, pid),
        Job::ReadLog(pid, link) => jobs::read_log(world, pid, link),
        Job::SendLogDiff(pid, link) => jobs::send_log_diff(world, pid, link),
    }
    world.lock().on_job_done(job);
}
