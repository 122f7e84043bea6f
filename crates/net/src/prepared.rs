//! Threads that are there before their work is: a host that has none to give is found out while it can still be told.

use crossbeam_channel::{Sender, bounded};
use std::io;
use std::thread::{Builder, JoinHandle};

/// A thread that waits for what it is to work on, and ends if that is not to come.
pub struct Prepared<T> {
    work: Sender<T>,
    thread: JoinHandle<()>,
}

/// Whatever there is to do.
pub type Task = Box<dyn FnOnce() + Send>;

impl Prepared<Task> {
    /// A thread for anything.
    pub fn for_task(name: &str) -> io::Result<Prepared<Task>> {
        Prepared::start(name, |task: Task| task())
    }
}

impl<T: Send + 'static> Prepared<T> {
    /// Start it.
    pub fn start(name: &str, body: impl FnOnce(T) + Send + 'static) -> io::Result<Prepared<T>> {
        let (work, given) = bounded(1);
        let thread = Builder::new().name(name.into()).spawn(move || {
            if let Ok(work) = given.recv() {
                body(work);
            }
        })?;
        Ok(Prepared { work, thread })
    }

    /// Let it begin.
    pub fn begin(self, work: T) -> JoinHandle<()> {
        // It waits, so it takes it.
        let _ = self.work.send(work);
        self.thread
    }
}
