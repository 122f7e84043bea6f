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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_works_on_what_it_is_given_and_ends_if_that_is_nothing() {
        let (tell, told) = channel();
        let idle = Prepared::start("idle", |_: u32| panic!("nothing was given")).unwrap();
        let thread = Prepared::start("busy", move |work: u32| tell.send(work).unwrap()).unwrap();
        let Prepared { work, thread: idle } = idle;
        drop(work);
        idle.join().unwrap();
        thread.begin(7).join().unwrap();
        assert_eq!(told.recv(), Ok(7));
    }
}
