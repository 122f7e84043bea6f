//! Passes bytes on between a striped stream and another program's connection, in both directions.
//!
//! An end passes on as an end, and the other direction goes on. Whatever breaks, breaks all of it: the stream is given up, a
//! TCP connection reset, so that what was cut never looks complete. Who does not take what comes holds up who sends it.

use super::stream::StripedStream;
use longhaul_net::wake::Waker;
use longhaul_proto::units::Rate;
use rustix::event::{PollFd, PollFlags};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
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
    pub broken: Option<String>,
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

    fn write(&self, waker: &Waker, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Local::Socket(socket) => {
                let written = Write::write(&mut &*socket, bytes);
                if matches!(&written, Err(error) if error.kind() == ErrorKind::WouldBlock) {
                    waker.wait_many(vec![PollFd::new(socket, PollFlags::OUT)], LOOK_EVERY)?;
                }
                written
            }
            Local::Pipes(_, output) => {
                let output = output.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(output) = output.as_ref() else { return Err(ErrorKind::BrokenPipe.into()) };
                match waker.wait_many(vec![PollFd::new(output, PollFlags::OUT)], LOOK_EVERY)?[..] {
                    // It takes so much without waiting (pipe(7)).
                    [true] => Ok(rustix::io::write(output, &bytes[..bytes.len().min(libc::PIPE_BUF)])?),
                    _ => Err(ErrorKind::WouldBlock.into()),
                }
            }
        }
    }

    fn end(&self) -> io::Result<()> {
        match self {
            Local::Socket(socket) => socket.shutdown(Shutdown::Write),
            Local::Pipes(_, output) => {
                output.lock().unwrap_or_else(PoisonError::into_inner).take();
                Ok(())
            }
        }
    }

    /// Close it so that the other program sees an end. Dropped without that it is reset.
    fn close(self) {
        if let Local::Socket(socket) = self {
            let _ = SockRef::from(&socket).set_linger(None);
        }
    }
}

/// Pass on all that comes, until both directions have ended or something breaks. A rest of the stream that has not been
/// taken then is waited for.
pub fn pump(stream: StripedStream, local: Local, rules: Rules<'_>) -> Pumped {
    let pumped = pass_on(&stream, &local, rules).unwrap_or_else(|error| {
        let why = format!("the connection cannot be passed on: {error}");
        stream.abort(&why);
        Pumped { broken: Some(why), ..Pumped::default() }
    });
    if pumped.broken.is_none() {
        local.close();
    }
    pumped
}

fn pass_on(stream: &StripedStream, local: &Local, rules: Rules<'_>) -> io::Result<Pumped> {
    // Whoever waits for the stream looks now and then whether all is to end.
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    stream.set_write_timeout(Some(LOOK_EVERY))?;
    let (broken, wakers) = (OnceLock::new(), [Waker::new()?, Waker::new()?]);
    let Rules { stop, drain, .. } = rules;
    let joint = Joint { stream, local, stop, drain, broken: &broken, wakers: &wakers };
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
    broken: &'a OnceLock<String>,
    wakers: &'a [Waker; 2],
}

impl Joint<'_> {
    /// Run one direction. Returns how many bytes it has moved; what breaks it breaks the other too.
    fn unless_broken(self, run: impl FnOnce(&mut u64) -> Result<(), String>) -> u64 {
        let mut moved = 0;
        if let Err(why) = run(&mut moved) {
            self.stream.abort(&why);
            let _ = self.broken.set(why);
            self.wakers.iter().for_each(Waker::wake);
        }
        moved
    }

    fn run_out(self, pace: &mut Pace<'_>, moved: &mut u64) -> Result<(), String> {
        let mut buf = vec![0; PIECE];
        loop {
            let room = pace.wait(|| self.is_over())?;
            let len = loop {
                match self.local.read(&self.wakers[0], &mut buf[..room]) {
                    Err(error) if waits(&error) => {
                        self.is_over()?;
                        if self.drain.load(Ordering::Relaxed) {
                            break 0;
                        }
                        pace.look();
                    }
                    read => break read.map_err(|error| format!("the connection broke: {error}"))?,
                }
            };
            if len == 0 {
                let _ = self.stream.shutdown(Shutdown::Write);
                return Ok(());
            }
            self.write_all(&buf[..len], |rest| Write::write(&mut &*self.stream, rest))?;
            *moved += len as u64;
            pace.count(len);
        }
    }

    fn run_back(self, pace: &mut Pace<'_>, moved: &mut u64) -> Result<(), String> {
        let mut block = vec![];
        loop {
            pace.wait(|| self.is_over())?;
            block = loop {
                match self.stream.read_block(std::mem::take(&mut block)) {
                    Err(error) if waits(&error) => {
                        self.is_over()?;
                        pace.look();
                    }
                    read => break read.map_err(|error| error.to_string())?,
                }
            };
            if block.is_empty() {
                // Who has left already need not be told.
                let _ = self.local.end();
                return Ok(());
            }
            self.write_all(&block, |rest| self.local.write(&self.wakers[1], rest))?;
            *moved += block.len() as u64;
            pace.count(block.len());
        }
    }

    fn write_all(
        self,
        mut rest: &[u8],
        mut write: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> Result<(), String> {
        while !rest.is_empty() {
            match write(rest) {
                Ok(0) => return Err("nothing is taken any more".into()),
                Ok(len) => rest = &rest[len..],
                Err(error) if waits(&error) => self.is_over()?,
                Err(error) => return Err(format!("the connection broke: {error}")),
            }
        }
        Ok(())
    }

    /// Wait for the other side to take what is left.
    fn wait_delivered(self) -> Result<(), String> {
        loop {
            self.is_over()?;
            match self.stream.wait_delivered(LOOK_EVERY) {
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                delivered => return delivered.map_err(|error| error.to_string()),
            }
        }
    }

    /// Whether there is nothing more to be done.
    fn is_over(self) -> Result<(), String> {
        match self.broken.get() {
            Some(why) => Err(why.clone()),
            None if self.stop.load(Ordering::Relaxed) => Err("it was stopped".into()),
            None => Ok(()),
        }
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
    fn wait(&mut self, is_over: impl Fn() -> Result<(), String>) -> Result<usize, String> {
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
        assert_eq!(pace.wait(|| Ok(())), Ok(100), "ten milliseconds of it");
        let before = pace.next;
        pace.count(100);
        assert!(pace.next >= before + Duration::from_millis(10));
        pace.count(1_000_000);
        assert_eq!(pace.wait(|| Err("stopped".into())), Err("stopped".into()), "it would wait for long");
        let mut free = Pace::new(&unlimited);
        free.count(1_000_000_000);
        assert_eq!(free.wait(|| Err("stopped".into())), Ok(PIECE));
    }
}
