//! What sending and receiving have in common.

use crate::api::{Observer, Remark};
use crate::clock;
use crate::net::control::{Control, Incoming};
use crate::net::link::{Link, Phase};
use crate::net::wake::Waker;
use longhaul_proto::control::Remembered;
use longhaul_proto::endpoint::{Arrival, Endpoint};
use longhaul_proto::path::PathCheck;
use longhaul_proto::session::message::{Message, TransferOptions};
use longhaul_proto::units::Time;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// An agreed transfer: the control stream is open, datagrams may flow.
pub struct Session<'a> {
    /// Datagrams.
    pub link: Link,
    /// Messages.
    pub control: Control,
    /// Wakes the thread that runs this.
    pub waker: Waker,
    /// Set from outside to end it.
    pub stop: Arc<AtomicBool>,
    /// What was agreed.
    pub options: TransferOptions,
    /// Probes the path and answers probes.
    pub check: PathCheck,
    /// Round trip that the control stream showed.
    pub rtt: Duration,
    /// What an earlier transfer found of the path to the peer.
    pub remembered: Option<Remembered>,
    /// Where it tells what happens.
    pub observer: &'a mut dyn Observer,
    /// Buffer for single datagrams.
    pub scratch: Vec<u8>,
    /// When the other side last said anything over the control stream.
    pub last_word: Time,
    /// The other side has said something under the session's own keys: its offer was no replay of an old one.
    pub confirmed: bool,
}

/// Why a session ended before its time.
#[derive(Debug)]
pub enum Broken {
    /// The user stopped it.
    Interrupted,
    /// A line for the user.
    Failed(String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Failed(format!("the network socket failed: {error}"))
    }
}

impl From<String> for Broken {
    fn from(line: String) -> Broken {
        Broken::Failed(line)
    }
}

impl Session<'_> {
    /// Whether to go on: the stop flag is not set. Tells the peer otherwise.
    pub fn check_stop(&self) -> Result<(), Broken> {
        if self.stop.load(Ordering::Relaxed) {
            self.control.send(Message::Abort(
                "the other side was interrupted; run the same command again to continue".into(),
            ));
            return Err(Broken::Interrupted);
        }
        Ok(())
    }

    /// Give up and tell the peer why.
    pub fn abort(&self, line: String) -> Broken {
        self.control.send(Message::Abort(line.clone()));
        Broken::Failed(line)
    }

    /// The next message, if there is one. An abort or the stream's end is an error.
    pub fn poll_message(&mut self) -> Result<Option<Message>, Broken> {
        match self.control.poll() {
            None => Ok(None),
            Some(Incoming::Closed) => Err(Broken::Failed(
                "the other side went away; what arrived is kept, run the same command again to continue"
                    .into(),
            )),
            Some(Incoming::Message(message)) => {
                self.last_word = clock::now();
                self.confirmed = true;
                match message {
                    Message::Abort(line) => Err(Broken::Failed(line)),
                    message => Ok(Some(message)),
                }
            }
        }
    }

    /// Receive; path-check datagrams are dealt with here, the transfer's go to `handle`.
    pub fn receive(&mut self, mut handle: impl FnMut(Time, Arrival, &mut [u8])) -> io::Result<bool> {
        let check = &mut self.check;
        self.link.receive(|phase, arrival, body| {
            // Read for each datagram: never before its arrival, however long the process was off the processor.
            let now = clock::now();
            match phase {
                Phase::Early => check.handle_datagram(now, arrival, body),
                Phase::Main => handle(now, arrival, body),
            }
        })
    }

    /// Send what the path check has to send. A side that does not know its peer's address yet answers nobody.
    pub fn run_check(&mut self, now: Time) {
        if self.check.poll_timeout().is_some_and(|at| now >= at) {
            self.check.handle_timeout(now);
        }
        let check = &mut self.check;
        // A probe to nowhere would count as sent.
        while self.link.has_peer()
            && self.link.send_one(Phase::Early, &mut self.scratch, |buf| check.poll_transmit(now, buf))
        {
        }
    }

    /// A line for `--why`.
    pub fn remark(&mut self, text: String) {
        let at_seconds = clock::now().as_secs_f64();
        self.observer.remark(Remark { at_seconds, text });
    }

    /// How long peer or path may be silent.
    pub fn stall_timeout(&self) -> Duration {
        Duration::from_millis(self.options.stall_timeout_ms.max(1000))
    }
}

/// Look at the control stream, timers and the stop flag at least this often.
pub const HEARTBEAT: Duration = Duration::from_millis(100);
