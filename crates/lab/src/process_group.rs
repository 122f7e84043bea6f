//! Programs at the ends of a path that end together, whatever becomes of the program that started them.
//!
//! They run in a process namespace of their own, whose first process is killed when the [`ProcessGroup`] is dropped or when
//! this program ends in whatever way; the kernel then kills all others, also those that have put themselves in the
//! background.

use crate::error::LabError;
use crate::host::join_namespace;
use crate::lab::Lab;
use crate::place::{Place, Side};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::OsStr;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

/// Where programs are started that are to end together. Dropping it kills those that are left.
pub struct ProcessGroup<'lab> {
    lab: &'lab Lab,
    namespaces: [PathBuf; 2],
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

/// A program of a group. Dropping it kills it.
pub struct GroupProcess<'group> {
    child: Child,
    group: std::marker::PhantomData<&'group ()>,
}

/// What the thread that is everyone's parent is asked to do.
type Request = Box<dyn FnOnce() + Send>;

impl Lab {
    /// Room for programs that end together.
    pub fn process_group(&self) -> Result<ProcessGroup<'_>, LabError> {
        let anchors = [Side::Left, Side::Right].map(|end| self.command(end, "cat"));
        let (requests, queue) = channel::<Request>();
        let (report, reported) = channel();
        let thread =
            thread::Builder::new().name("lab-group".into()).spawn(move || match Anchors::drop_in(anchors) {
                Ok((anchors, namespaces)) => {
                    let _ = report.send(Ok(namespaces));
                    queue.into_iter().for_each(|request| request());
                    drop(anchors);
                }
                Err(error) => {
                    let _ = report.send(Err(error));
                }
            });
        let thread = thread.map_err(LabError::at("starting a thread"))?;
        let gone = |_| LabError::at("starting a thread")(io::Error::other("it ended"));
        let namespaces = reported.recv().map_err(gone)??;
        Ok(ProcessGroup { lab: self, namespaces, requests: Some(requests), thread: Some(thread) })
    }
}

impl ProcessGroup<'_> {
    /// Start a program on that host.
    pub fn spawn(
        &self,
        on: impl Into<Place>,
        program: impl AsRef<OsStr>,
        furnish: impl FnOnce(&mut Command),
    ) -> io::Result<GroupProcess<'_>> {
        let mut command = self.lab.command(on, program);
        furnish(&mut command);
        let (answer, answered) = channel();
        // A namespace is a thread's: its children are in it, those of other threads are not.
        let request: Request = Box::new(move || {
            let _ = answer.send(command.spawn());
        });
        let gone = || io::Error::other("the thread that starts programs has ended");
        let requests = self.requests.as_ref().ok_or_else(gone)?;
        requests.send(request).map_err(|_| gone())?;
        let child = answered.recv().map_err(|_| gone())??;
        Ok(GroupProcess { child, group: std::marker::PhantomData })
    }

    /// The file that stands for the network namespace of that end's first host, for programs of the group: see
    /// [`enter_network`].
    pub fn network(&self, end: Side) -> &Path {
        &self.namespaces[end as usize]
    }
}

impl Drop for ProcessGroup<'_> {
    fn drop(&mut self) {
        drop(self.requests.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that starts a lab's programs had panicked");
        }
    }
}

impl Deref for GroupProcess<'_> {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for GroupProcess<'_> {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for GroupProcess<'_> {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Move this thread into the network namespace that a [`ProcessGroup`] names. It should be the program's only thread.
pub fn enter_network(file: &Path) -> Result<(), LabError> {
    let file = rustix::fs::open(file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(LabError::at("opening a host's network namespace (has its lab ended?)"))?;
    join_namespace(&file).map_err(LabError::at("entering a network namespace"))
}

/// Make this program's group that of its terminal again, if it has one: an interactive shell takes the terminal for itself
/// and cannot give it back from within a group.
pub fn take_terminal() {
    // SAFETY: a signal set is plain data that `sigemptyset` sets up; the other calls take descriptors and numbers.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTTOU);
        // Who takes a terminal from the background is stopped, unless the signal is blocked.
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        libc::tcsetpgrp(libc::STDIN_FILENO, libc::getpgrp());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// One process on each side, which hold the namespaces. The first one's end is everybody's.
struct Anchors {
    first: Child,
    second: Child,
}

impl Anchors {
    /// Move this thread's children to come into a process namespace and start the anchors in it; and the files that stand
    /// for their network namespaces.
    fn drop_in([left, right]: [Command; 2]) -> Result<(Anchors, [PathBuf; 2]), LabError> {
        // SAFETY: no memory or descriptors become unshared; working folder and mounts become this thread's own, which
        // nobody else uses.
        unsafe { unshare_unsafe(UnshareFlags::NEWPID | UnshareFlags::NEWNS) }
            .map_err(LabError::at("making a process namespace"))?;
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
            .map_err(LabError::at("keeping mounts to oneself"))?;
        let first = anchor(left, true)?;
        let second = anchor(right, false)?;
        // This thread is not in the namespace itself and so has no entry in a /proc that shows it.
        let is_shown = rustix::fs::readlink("/proc/self", Vec::new()).is_err();
        let ids = if is_shown { [1, 2] } else { [first.id(), second.id()] };
        let namespaces = ids.map(|id| PathBuf::from(format!("/proc/{id}/ns/net")));
        Ok((Anchors { first, second }, namespaces))
    }
}

impl Drop for Anchors {
    fn drop(&mut self) {
        // The first one can be waited for only when those that are not its children have been. Nothing can be done about
        // what fails here.
        for anchor in [&mut self.second, &mut self.first] {
            let _ = anchor.kill();
            let _ = anchor.wait();
        }
    }
}

/// A process that does nothing until it is killed, or until its standard input ends with this program.
fn anchor(mut command: Command, is_first: bool) -> Result<Child, LabError> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Apart from the group that Ctrl-C goes to.
    command.process_group(0).current_dir("/");
    // SAFETY: between fork and exec only system calls are made, nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(move || {
            if is_first {
                // The kernel then takes care of orphans that end, which become the first process's children.
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
                // Where it is refused, as in some containers, programs see the processes of the host.
                let _ = mount(c"proc", c"/proc", c"proc", flags, None);
            }
            Ok(())
        })
    };
    command.spawn().map_err(LabError::at("starting cat"))
}
