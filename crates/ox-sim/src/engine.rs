//! The loop that makes things happen, one after the other, on one thread and one stack.
//!
//! Most events are handled in the world. Jobs are different: they call the store, the store calls the disk, and at
//! every disk call the loop runs again inside, so that everything else goes on between any two calls.

use crate::event::{Event, Job, Who};
use crate::jobs;
use crate::world::World;
use ox_history::Time;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

pub(crate) type SharedWorld = Arc<Mutex<World>>;
pub(crate) type WeakWorld = Weak<Mutex<World>>;

/// Runs what is due by `until`. With a guard, only as long as that run of its server lives.
pub(crate) fn pump(world: &SharedWorld, until: Time, guard: Option<Who>) {
    loop {
        let mut locked = world.lock();
        if locked.env.failure.is_some() || guard.is_some_and(|who| !locked.is_current(who)) {
            return;
        }
        let Some((at, event)) = locked.env.queue.pop(until) else {
            locked.env.now = locked.env.now.max(until);
            return;
        };
        locked.env.now = at;
        if let Some(later) = locked.waits(event) {
            locked.env.queue.plan(later, event);
            continue;
        }
        match event {
            Event::Job(job) if locked.level < job.level() => {
                let level = std::mem::replace(&mut locked.level, job.level());
                drop(locked);
                run(world, job);
                world.lock().level = level;
            }
            // Its place on the stack is taken: later.
            Event::Job(_) => locked.env.plan_in(200, event),
            _ => locked.handle(event),
        }
    }
}

fn run(world: &SharedWorld, job: Job) {
    match job {
        Job::Start(server) => jobs::start(world, server),
        Job::Log(who) => jobs::write_log(world, who),
        Job::Snapshot(who) => jobs::write_snapshot(world, who),
        Job::Maintain(who) => jobs::maintain(world, who),
        Job::Stop(who) => jobs::stop(world, who),
    }
}
