//! Passes bytes on between a striped stream and another program's connection, in both directions.
//!
//! An end passes on as an end, and the other direction goes on. Whatever breaks, breaks all of it: the stream is given up, a
//! TCP connection reset, so that what was cut never looks complete. Who does not take what comes holds up who sends it.

use super::state::locked;
use super::stream::StripedStream;
use longhaul_net::wake::Waker;
use longhaul_proto::units::Rate;
use rustix::event::{PollFd, PollFlags, Timespec};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Another program's connection.
pub enum Local {
    /// A TCP connection.
    Socket(TcpStream),
    /// What it writes, and what it reads.
    Pipes(OwnedFd, Mutex<Option<OwnedFd>>),
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Pumped {
    /// Bytes from the other program to the stream.
    pub out: u64,
    /// Bytes from the stream to the other program.
    pub back: u64,
    /// Why it broke.
    pub broken: Option<PumpError>,
}

/// Why not all was passed on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PumpError {
    /// It could not be begun.
    #[error("the connection cannot be passed on: {0}")]
    Setup(Arc<io::Error>),
    /// The other program's connection broke.
    #[error("the connection broke: {0}")]
    Local(Arc<io::Error>),
    /// The stream broke.
    #[error("{0}")]
    Stream(Arc<io::Error>),
    /// It was to stop.
    #[error("it was stopped")]
    Stopped,
}

impl PumpError {
    fn local(error: io::Error) -> PumpError {
        PumpError::Local(Arc::new(error))
    }

    fn stream(error: io::Error) -> PumpError {
        PumpError::Stream(Arc::new(error))
    }
}

/// How fast one direction may go, asked now and then with its rate of late.
pub type Limit<'a> = &'a (dyn Fn(Option<Rate>) -> Option<Rate> + Sync);

/// What both directions go by.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// Ends it all.
    pub stop: &'a AtomicBool,
    /// What the other program has said by then is all that it says.
    pub drain: &'a AtomicBool,
    /// From the other program.
    pub out: Limit<'a>,
    /// To the other program.
    pub back: Limit<'a>,
}

/// For who never has one direction end before its time.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// No limit.
pub fn unlimited(_: Option<Rate>) -> Option<Rate> {
    None
}

impl Local {
    /// A TCP connection. Until all has been passed on its end is a reset, also if this process is killed. One whose host has
    /// vanished is noticed in minutes.
    pub fn socket(socket: TcpStream) -> io::Result<Local> {
        let options = SockRef::from(&socket);
        options.set_linger(Some(Duration::ZERO))?;
        options.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE))?;
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        Ok(Local::Socket(socket))
    }

    /// This process's standard input and output. Its standard output is nobody else's from now on, so that it can be ended.
    pub fn standard_streams() -> io::Result<Local> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdout(&nowhere)?;
        Ok(Local::Pipes(input, Mutex::new(Some(output))))
    }

    fn read(&self, waker: &Waker, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Local::Socket(socket) => {
                waker.wait_many(vec![PollFd::new(socket, PollFlags::IN)], LOOK_EVERY)?;
                io::Read::read(&mut &*socket, buf)
            }
            // A pipe may not be made to wait for nobody: other processes have it too.
            Local::Pipes(input, _) => {
                match waker.wait_many(vec![PollFd::new(input, PollFlags::IN)], LOOK_EVERY)?[..] {
                    [true] => Ok(rustix::io::read(input, buf)?),
                    _ => Err(ErrorKind::WouldBlock.into()),
                }
            }
        }
    }

    /// Write what there is room for at once.
    fn write(&self, waker: &Waker, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Local::Socket(socket) => Write::write(&mut &*socket, bytes),
            Local::Pipes(_, output) => {
                let output = locked(output);
                let Some(output) = output.as_ref() else { return Err(ErrorKind::BrokenPipe.into()) };
                match waker.wait_many(vec![PollFd::new(output, PollFlags::OUT)], LOOK_EVERY)?[..] {
                    // It takes so much without waiting (pipe(7)).
                    [true] => Ok(rustix::io::write(output, &bytes[..bytes.len().min(libc::PIPE_BUF)])?),
                    _ => Err(ErrorKind::WouldBlock.into()),
                }
            }
        }
    }

    /// Wait a while for room to write to a socket. For a pipe writing itself waits.
    fn wait_for_room(&self, waker: &Waker) -> io::Result<()> {
        if let Local::Socket(socket) = self {
            waker.wait_many(vec![PollFd::new(socket, PollFlags::OUT)], LOOK_EVERY)?;
        }
        Ok(())
    }

    /// Whether the other program has closed its socket and the system has forgotten that end.
    fn is_gone(&self) -> bool {
        let Local::Socket(socket) = self else { return false };
        let mut looked_at = [PollFd::new(socket, PollFlags::empty())];
        let found = rustix::event::poll(&mut looked_at, Some(&Timespec::default()));
        found.is_ok() && looked_at[0].revents().contains(PollFlags::HUP)
    }

    fn end(&self) -> io::Result<()> {
        match self {
            Local::Socket(socket) => socket.shutdown(Shutdown::Write),
            Local::Pipes(_, output) => {
                locked(output).take();
                Ok(())
            }
        }
    }

    /// Close it so that the other program sees an end.
    fn close(self) {
        if let Local::Socket(socket) = self {
            let _ = SockRef::from(&socket).set_linger(None);
        }
    }

    /// Close it so that the other program, and whoever else has its end, sees a reset.
    fn reset(self) {
        if let Local::Socket(socket) = self {
            let _ = rustix::net::connect_unspec(socket);
        }
    }
}

/// Pass on all that comes, until both directions have ended or something breaks. A rest of the stream that has not been
/// taken then is waited for.
pub fn pump(stream: StripedStream, local: Local, rules: Rules<'_>) -> Pumped {
    let pumped = pass_on(&stream, &local, rules).unwrap_or_else(|error| {
        let why = PumpError::Setup(Arc::new(error));
        stream.abort(&why.to_string());
        Pumped { broken: Some(why), ..Pumped::default() }
    });
    // To a program that ends while the stream goes on, its end would look like that of the stream.
    match pumped.broken.is_none() && !rules.drain.load(Ordering::Relaxed) {
        true => local.close(),
        false => local.reset(),
    }
    pumped
}

fn pass_on(stream: &StripedStream, local: &Local, rules: Rules<'_>) -> io::Result<Pumped> {
    // Whoever waits for the stream looks now and then whether all is to end.
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    stream.set_write_timeout(Some(LOOK_EVERY))?;
    let (broken, turn, wakers) = (OnceLock::new(), Mutex::new(()), [Waker::new()?, Waker::new()?]);
    let Rules { stop, drain, .. } = rules;
    let joint = Joint { stream, local, stop, drain, broken: &broken, turn: &turn, wakers: &wakers };
    let (out, back) = std::thread::scope(|scope| {
        let run_out = || joint.unless_broken(|moved| joint.run_out(&mut Pace::new(rules.out), moved));
        let out = std::thread::Builder::new().name("stripe-pump-out".into()).spawn_scoped(scope, run_out)?;
        let back = joint.unless_broken(|moved| joint.run_back(&mut Pace::new(rules.back), moved));
        let out = out.join().map_err(|_| io::Error::other("a thread of it panicked"))?;
        // All was read; the other side may be slow to take it.
        joint.unless_broken(|_| joint.wait_delivered());
        Ok::<_, io::Error>((out, back))
    })?;
    Ok(Pumped { out, back, broken: broken.into_inner() })
}

/// What the two directions share.
#[derive(Clone, Copy)]
struct Joint<'a> {
    stream: &'a StripedStream,
    local: &'a Local,
    stop: &'a AtomicBool,
    drain: &'a AtomicBool,
    broken: &'a OnceLock<PumpError>,
    /// Held while something is written to the other program and what came of it noted.
    turn: &'a Mutex<()>,
    wakers: &'a [Waker; 2],
}

impl Joint<'_> {
    /// Run one direction. Returns how many bytes it has moved; what breaks it breaks the other too.
    fn unless_broken(self, run: impl FnOnce(&mut u64) -> Result<(), PumpError>) -> u64 {
        let mut moved = 0;
        if let Err(why) = run(&mut moved) {
            self.stream.abort(&why.to_string());
            let _ = self.broken.set(why);
            self.wakers.iter().for_each(Waker::wake);
        }
        moved
    }

    fn run_out(self, pace: &mut Pace<'_>, moved: &mut u64) -> Result<(), PumpError> {
        let (mut buf, mut last_words) = (vec![0; PIECE], LastWords::default());
        while !last_words.are_said() {
            let room = pace.wait(|| self.is_over())?;
            let len = loop {
                // What was written before the flag was set is read after it was seen.
                let drains = self.drain.load(Ordering::Acquire);
                let began = Instant::now();
                let read = self.local.read(&self.wakers[0], &mut buf[..room]);
                if drains {
                    last_words.count(began.elapsed(), *read.as_ref().unwrap_or(&0));
                }
                match read {
                    Err(error) if waits(&error) => {
                        self.is_over()?;
                        if drains {
                            break 0;
                        }
                        pace.look();
                    }
                    read => break read.map_err(PumpError::local)?,
                }
            };
            if len == 0 {
                break;
            }
            self.write_all(&buf[..len], |rest| match Write::write(&mut &*self.stream, rest) {
                Err(error) if waits(&error) => Ok(0),
                written => written.map_err(PumpError::stream),
            })?;
            *moved += len as u64;
            pace.count(len);
        }
        // The system tells of a reset once, and then of an end.
        let _turn = locked(self.turn);
        self.is_over()?;
        let _ = self.stream.shutdown(Shutdown::Write);
        Ok(())
    }

    fn run_back(self, pace: &mut Pace<'_>, moved: &mut u64) -> Result<(), PumpError> {
        let mut block = vec![];
        loop {
            pace.wait(|| self.is_over())?;
            block = loop {
                match self.stream.read_block(std::mem::take(&mut block)) {
                    Err(error) if waits(&error) => {
                        self.is_over()?;
                        if self.local.is_gone() {
                            return self.read_no_more();
                        }
                        pace.look();
                    }
                    read => break read.map_err(PumpError::stream)?,
                }
            };
            if block.is_empty() {
                // Nothing is received any more by a program that ends, whether or not the stream goes on.
                if !self.drain.load(Ordering::Relaxed) {
                    // Who has left already need not be told.
                    let _ = self.local.end();
                }
                return Ok(());
            }
            match self.write_all(&block, |rest| self.write_back(rest)) {
                // It has said all that it had to say, and closed its socket.
                Err(PumpError::Local(error)) if self.is_closed_socket(&error) => return self.read_no_more(),
                written => written?,
            }
            *moved += block.len() as u64;
            pace.count(block.len());
        }
    }

    /// Write some of it to the other program; nothing if it takes nothing for a while.
    fn write_back(self, bytes: &[u8]) -> Result<usize, PumpError> {
        // A pipe is waited for meanwhile, and has no resets.
        let turn = matches!(self.local, Local::Socket(_)).then(|| locked(self.turn));
        match self.local.write(&self.wakers[1], bytes) {
            Err(error) if waits(&error) => {
                drop(turn);
                // Nobody reads it any more.
                if self.drain.load(Ordering::Relaxed) {
                    return Ok(bytes.len());
                }
                self.local.wait_for_room(&self.wakers[1]).map_err(PumpError::local)?;
                Ok(0)
            }
            Err(error) if !self.is_closed_socket(&error) => {
                let why = PumpError::local(error);
                let _ = self.broken.set(why.clone());
                Err(why)
            }
            written => written.map_err(PumpError::local),
        }
    }

    /// The system says so where an end came before the reset.
    fn is_closed_socket(self, error: &io::Error) -> bool {
        error.kind() == ErrorKind::BrokenPipe && matches!(self.local, Local::Socket(_))
    }

    /// What the other program has said still goes to the other side, which need not say more.
    fn read_no_more(self) -> Result<(), PumpError> {
        let _ = self.stream.shutdown(Shutdown::Read);
        Ok(())
    }

    fn write_all(
        self,
        mut rest: &[u8],
        mut write: impl FnMut(&[u8]) -> Result<usize, PumpError>,
    ) -> Result<(), PumpError> {
        while !rest.is_empty() {
            match write(rest)? {
                0 => self.is_over()?,
                len => rest = &rest[len..],
            }
        }
        Ok(())
    }

    /// Wait for the other side to take what is left.
    fn wait_delivered(self) -> Result<(), PumpError> {
        loop {
            self.is_over()?;
            match self.stream.wait_delivered(LOOK_EVERY) {
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                delivered => return delivered.map_err(PumpError::stream),
            }
        }
    }

    /// Whether there is nothing more to be done.
    fn is_over(self) -> Result<(), PumpError> {
        match self.broken.get() {
            Some(why) => Err(why.clone()),
            None if self.stop.load(Ordering::Relaxed) => Err(PumpError::Stopped),
            None => Ok(()),
        }
    }
}

/// What is still taken from a program that ends. Others of its threads, or processes, may go on writing for ever.
#[derive(Default)]
struct LastWords {
    waited: Duration,
    bytes: u64,
}

impl LastWords {
    fn count(&mut self, waited: Duration, bytes: usize) {
        self.waited += waited;
        self.bytes += bytes as u64;
    }

    fn are_said(&self) -> bool {
        self.waited >= LOOK_EVERY || self.bytes >= LAST_WORDS_MAX
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Keeps one direction below its rate.
struct Pace<'a> {
    limit: Limit<'a>,
    rate: Option<Rate>,
    /// Since when it is so, and the bytes since then.
    since: Instant,
    bytes: u64,
    /// When the next byte may go.
    next: Instant,
}

impl<'a> Pace<'a> {
    fn new(limit: Limit<'a>) -> Pace<'a> {
        let now = Instant::now();
        Pace { limit, rate: limit(None), since: now, bytes: 0, next: now }
    }

    /// Wait until something may go. Returns how much.
    fn wait(&mut self, is_over: impl Fn() -> Result<(), PumpError>) -> Result<usize, PumpError> {
        loop {
            self.look();
            let Some(rate) = self.rate else { return Ok(PIECE) };
            let ahead = self.next.saturating_duration_since(Instant::now());
            if ahead.is_zero() {
                return Ok((rate.bytes_in(BURST) as usize).clamp(1, PIECE));
            }
            is_over()?;
            std::thread::sleep(ahead.min(LOOK_EVERY));
        }
    }

    /// Say now and then what was used of the rate, also where that is nothing: others have the rest.
    fn look(&mut self) {
        let now = Instant::now();
        let span = now.duration_since(self.since);
        if span >= ASK_EVERY {
            self.rate = (self.limit)(Some(Rate::from_bytes_over(self.bytes, span)));
            (self.since, self.bytes) = (now, 0);
        }
    }

    fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if let Some(rate) = self.rate {
            // What was not used before is lost.
            self.next = self.next.max(Instant::now()) + rate.time_for(bytes as u64);
        }
    }
}

/// Whoever waits looks so often whether all is to end.
pub const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Silent for so long, the other program's host is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// Read at once.
const PIECE: usize = 64 << 10;
/// As much as may be on its way: a window is a gigabyte at most (RFC 7323 §2.3), and what waits for it no more.
const LAST_WORDS_MAX: u64 = 2 << 30;
/// Limits are asked for so often.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// With a limit, what goes in this time goes at once.
const BURST: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_is_as_much_as_the_rate_allows() {
        let limit = |_: Option<Rate>| Some(Rate(80_000));
        let mut pace = Pace::new(&limit);
        assert_eq!(pace.wait(|| Ok(())).unwrap(), 100, "ten milliseconds of it");
        let before = pace.next;
        pace.count(100);
        assert!(pace.next >= before + Duration::from_millis(10));
        pace.count(1_000_000);
        assert!(pace.wait(|| Err(PumpError::Stopped)).is_err(), "it would wait for long");
        let mut free = Pace::new(&unlimited);
        free.count(1_000_000_000);
        assert_eq!(free.wait(|| Err(PumpError::Stopped)).unwrap(), PIECE);
    }
}
