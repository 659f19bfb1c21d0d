//! The loop that makes things happen, one after the other.
//!
//! Most events are handled in the world. Jobs are different: they call the store, the store calls the disk, and a call
//! takes its time. So each job has a thread of its own, and there is one baton: who calls the disk runs the loop itself
//! until its call is done, and hands the baton over when it is somebody else's turn. Only the holder of the baton runs,
//! so a run is as deterministic as on one thread, and every job can be interrupted by every other one.

use crate::event::{Event, Job, Who};
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

/// The baton, and what to do with it.
#[derive(Debug)]
enum Go {
    /// What was waited for has come.
    On,
    /// A job begins.
    Run(Job),
    /// The world has ended.
    Home,
}

/// Names a wait.
pub(crate) type Ticket = u64;

/// The threads of a world.
#[derive(Debug, Default)]
pub(crate) struct Hands {
    tickets: Ticket,
    /// Who waits for what.
    waiting: BTreeMap<Ticket, Sender<Go>>,
    /// Who has nothing to do.
    idle: Vec<Sender<Go>>,
    threads: Vec<JoinHandle<()>>,
    /// What the thread waits for that began the world.
    main: Option<Ticket>,
    panic: Option<Panic>,
    is_over: bool,
}

type Panic = Box<dyn Any + Send>;

impl Hands {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        self.tickets
    }
}

thread_local! {
    static HAND: RefCell<Option<(Sender<Go>, Receiver<Go>)>> = const { RefCell::new(None) };
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// The seed that runs on this thread.
pub fn running_seed() -> u64 {
    SEED.get()
}

pub(crate) fn set_seed(seed: u64) {
    SEED.set(seed);
}

/// Runs the world until a moment, on the thread that began it. Ends early when something fails.
pub(crate) fn pump(world: &SharedWorld, until: Time) {
    let ticket = {
        let mut world = world.lock();
        let ticket = world.env.hands.ticket();
        world.env.hands.main = Some(ticket);
        world.env.queue.plan(until, Event::Wake(ticket, None));
        ticket
    };
    turn(world, Some(ticket));
    let mut locked = world.lock();
    locked.env.hands.main = None;
    let panic = locked.env.hands.panic.take();
    drop(locked);
    if let Some(panic) = panic {
        dismiss(world);
        resume_unwind(panic);
    }
}

/// Lets the world go on until a moment, in the middle of a job of `who`.
pub(crate) fn wait(world: &SharedWorld, until: Time, who: Who) {
    let ticket = {
        let mut world = world.lock();
        let ticket = world.env.hands.ticket();
        world.env.queue.plan(until, Event::Wake(ticket, Some(who)));
        ticket
    };
    turn(world, Some(ticket));
}

/// Ends all jobs that are under way, one after the other.
pub(crate) fn dismiss(world: &SharedWorld) {
    world.lock().env.hands.is_over = true;
    loop {
        let mut locked = world.lock();
        let hands = &mut locked.env.hands;
        let next = hands.waiting.pop_first().map(|(_, hand)| (hand, Go::On));
        let Some((hand, go)) = next.or_else(|| hands.idle.pop().map(|hand| (hand, Go::Home))) else { break };
        drop(locked);
        _ = hand.send(go);
    }
    let threads = std::mem::take(&mut world.lock().env.hands.threads);
    threads.into_iter().for_each(|thread| _ = thread.join());
}

/// Makes things happen until it is this thread's turn. Without a ticket that is when it has nothing to do any more.
fn turn(world: &SharedWorld, ticket: Option<Ticket>) {
    loop {
        let mut locked = world.lock();
        if locked.env.hands.is_over {
            return;
        }
        if locked.env.failure.is_some() || locked.env.hands.panic.is_some() {
            let main = locked.env.hands.main;
            if main == ticket {
                return;
            }
            return hand_over(world, locked, main, ticket);
        }
        let (at, event) = locked.env.queue.pop().expect("somebody waits for something");
        locked.env.now = at.max(locked.env.now);
        if let Some(later) = locked.waits(event) {
            locked.env.queue.plan(later, event);
            continue;
        }
        match event {
            Event::Wake(due, _) if Some(due) == ticket => return,
            Event::Wake(due, _) => return hand_over(world, locked, Some(due), ticket),
            Event::Job(job) if !locked.may_begin(job) => locked.env.plan_in(200, event),
            Event::Job(job) => match ticket {
                None => {
                    drop(locked);
                    run(world, job);
                }
                Some(ticket) => {
                    let hand = locked.env.hands.idle.pop();
                    drop(locked);
                    let hand = hand.unwrap_or_else(|| hire(world));
                    return pass(world, &hand, Go::Run(job), Some(ticket));
                }
            },
            _ => locked.handle(event),
        }
    }
}

/// Gives the baton to who waits for `due`.
fn hand_over(
    world: &SharedWorld,
    mut locked: parking_lot::MutexGuard<'_, World>,
    due: Option<Ticket>,
    ticket: Option<Ticket>,
) {
    let hand = due.and_then(|due| locked.env.hands.waiting.remove(&due));
    drop(locked);
    // Nobody is there any more only if the world ends.
    if let Some(hand) = hand {
        pass(world, &hand, Go::On, ticket);
    }
}

/// Gives the baton away, and waits until it comes back. Without a ticket it comes back with a job, or not at all.
fn pass(world: &SharedWorld, to: &Sender<Go>, go: Go, ticket: Option<Ticket>) {
    let own = HAND.with_borrow_mut(|hand| hand.get_or_insert_with(channel).0.clone());
    let mut locked = world.lock();
    match ticket {
        Some(ticket) => _ = locked.env.hands.waiting.insert(ticket, own),
        None => locked.env.hands.idle.push(own),
    }
    drop(locked);
    _ = to.send(go);
    match HAND.with_borrow(|hand| hand.as_ref().and_then(|(_, receiver)| receiver.recv().ok())) {
        Some(Go::Run(job)) => run(world, job),
        Some(Go::On | Go::Home) | None => (),
    }
}

/// Begins a thread that works through jobs.
fn hire(world: &SharedWorld) -> Sender<Go> {
    let (sender, receiver) = channel();
    let (hand, shared, seed) = (sender.clone(), Arc::clone(world), running_seed());
    let thread = std::thread::spawn(move || {
        set_seed(seed);
        let first = receiver.recv();
        HAND.set(Some((hand, receiver)));
        let Ok(Go::Run(job)) = first else { return };
        let worked = catch_unwind(AssertUnwindSafe(|| {
            run(&shared, job);
            while !shared.lock().env.hands.is_over {
                turn(&shared, None);
            }
        }));
        if let Err(panic) = worked {
            let mut locked = shared.lock();
            locked.env.hands.panic = Some(panic);
            let main = locked.env.hands.main;
            if let Some(hand) = main.and_then(|main| locked.env.hands.waiting.remove(&main)) {
                _ = hand.send(Go::On);
            }
        }
    });
    world.lock().env.hands.threads.push(thread);
    sender
}

fn run(world: &SharedWorld, job: Job) {
    match job {
        Job::Start(server) => jobs::start(world, server),
        Job::Log(who) => jobs::write_log(world, who),
        Job::Snapshot(who) => jobs::write_snapshot(world, who),
        Job::Maintain(who) => jobs::maintain(world, who),
        Job::Stop(who) => jobs::stop(world, who),
        Job::LookUp(who, link) => jobs::look_up(world, who, link),
        Job::SendStored(who, link) => jobs::send_stored(world, who, link),
    }
    world.lock().on_job_done(job);
}
