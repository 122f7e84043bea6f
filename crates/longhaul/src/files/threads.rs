//! The threads that store what a sink puts together.

use super::jobs::Job;
use super::prepare::Preparation;
use super::shared::Shared;
use super::writer::Writer;
use crate::net::prepared::{Prepared, Task};
use crossbeam_channel::{Receiver, Sender};
use std::io;
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;

/// The threads of a sink, before anything is done on the disk.
pub(super) struct Threads {
    writers: Vec<Prepared<Task>>,
    keeper: Prepared<Task>,
}

impl Threads {
    pub fn start() -> io::Result<Threads> {
        let writers = (0..WRITERS).map(|_| Prepared::for_task("longhaul-write"));
        Ok(Threads {
            writers: writers.collect::<io::Result<_>>()?,
            keeper: Prepared::for_task("longhaul-keep")?,
        })
    }

    pub fn begin(
        self,
        shared: &Arc<Shared>,
        queues: Vec<Receiver<Job>>,
        spare: &Sender<Box<[u8]>>,
        preparation: Preparation,
        keep: impl FnOnce() + Send + 'static,
    ) -> Vec<JoinHandle<()>> {
        self.keeper.begin(Box::new(keep));
        let prepared = Arc::new(Barrier::new(queues.len()));
        let mut preparation = Some(preparation);
        let begin = |(thread, jobs): (Prepared<Task>, _)| {
            let writer = Writer::new(shared.clone(), jobs, spare.clone());
            let (prepared, preparation) = (prepared.clone(), preparation.take());
            thread.begin(Box::new(move || writer.run(&prepared, preparation)))
        };
        self.writers.into_iter().zip(queues).map(begin).collect()
    }
}

/// Writing threads: while one hashes the other waits for the disk. A block always goes to the same one.
pub(super) const WRITERS: usize = 2;
