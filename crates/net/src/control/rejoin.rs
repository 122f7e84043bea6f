//! A control stream outlives its TCP connection: what was written and not taken by the other side is kept, and goes out again
//! over the next connection.
//!
//! ```text
//! client  a join of the copy's control stream (`tcp_set/join.rs`)
//! both    bytes of the stream that were taken so far, u64; from there the other side goes on
//! ```
//! The bytes are those of sealed frames, as they were sealed first. A nonce is therefore never used for anything else, and
//! who changes the two numbers on their way breaks the stream, as with any other byte of it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What one side has written to a stream and the other has not said to have taken.
#[derive(Debug, Default)]
pub struct Backlog {
    bytes: VecDeque<u8>,
    /// Position of the first of them in the stream.
    begin: u64,
}

impl Backlog {
    /// More is written.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// How many bytes are kept.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether all was taken.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The position behind all that was written.
    pub fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    /// The other side has taken all up to `position`. `false` if that cannot be: it was never written, or was taken before.
    pub fn take_to(&mut self, position: u64) -> bool {
        if !(self.begin..=self.end()).contains(&position) {
            return false;
        }
        self.bytes.drain(..(position - self.begin) as usize);
        self.begin = position;
        true
    }

    /// Up to `max` bytes from `position` on, which is not before what is kept.
    pub fn piece(&self, position: u64, max: usize) -> Vec<u8> {
        let skip = position.saturating_sub(self.begin) as usize;
        self.bytes.iter().skip(skip).take(max).copied().collect()
    }
}

/// A control stream over one TCP connection after the other.
pub struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    backlog: Backlog,
    /// Up to where the present connection was given the stream.
    given: u64,
    /// Bytes of the other side's stream that were taken.
    taken: u64,
    /// The present connection, and how many there have been before.
    socket: Option<Arc<TcpStream>>,
    number: u64,
    /// Since when there is none.
    broken_at: Option<Instant>,
    /// How long there may be none.
    patience: Duration,
    /// For how long a connection may bring nothing.
    silence: Option<Duration>,
    over: bool,
}

impl Line {
    /// Over a connection on which the handshake is done. Until [`Line::allow`] its break is the stream's end.
    pub fn new(socket: TcpStream) -> Arc<Line> {
        let state = State {
            backlog: Backlog::default(),
            given: 0,
            taken: 0,
            socket: Some(Arc::new(socket)),
            number: 0,
            broken_at: None,
            patience: Duration::ZERO,
            silence: None,
            over: false,
        };
        Arc::new(Line { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a connection may be missing for so long.
    pub fn allow(&self, patience: Duration) {
        self.state().patience = patience;
    }

    /// From now on a connection that brings nothing for so long counts as broken: the way that it took is gone. For the side
    /// that can make another.
    pub fn distrust_after(&self, silence: Duration) -> io::Result<()> {
        let mut state = self.state();
        state.silence = Some(silence);
        state.socket.as_ref().map_or(Ok(()), |socket| socket.set_read_timeout(Some(silence)))
    }

    /// How often a connection has broken.
    pub fn breaks(&self) -> u64 {
        self.state().number
    }

    /// It is over: whoever waits for it is told.
    pub fn end(&self) {
        let mut state = self.state();
        state.over = true;
        if let Some(socket) = state.socket.take() {
            // Fails only on a socket that is gone.
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.state().over
    }

    /// Whether it has no connection at the moment.
    pub fn is_broken(&self) -> bool {
        let state = self.state();
        state.socket.is_none() && !state.over
    }

    /// Bytes that were taken of the other side's stream: it need not keep them.
    pub fn taken(&self) -> u64 {
        self.state().taken
    }

    /// Bytes that are kept for the other side.
    pub fn kept(&self) -> usize {
        self.state().backlog.len()
    }

    /// The other side has taken all up to `position`. `false` if that cannot be.
    pub fn note_taken(&self, position: u64) -> bool {
        // What was told before the last break may be older than what was told at the new begin.
        let mut state = self.state();
        position <= state.backlog.begin || state.backlog.take_to(position)
    }

    /// Wait until the connection breaks. `false`: it is over.
    pub fn await_break(&self) -> bool {
        let broken = |state: &mut State| state.socket.is_some() && !state.over;
        let state = self.changed.wait_while(self.state(), broken);
        !state.unwrap_or_else(PoisonError::into_inner).over
    }

    /// Go on over a new connection, which has proven that it may. Both sides call this.
    pub fn go_on(&self, mut socket: TcpStream) -> io::Result<()> {
        let (number, taken) = {
            let mut state = self.state();
            if state.over {
                return Err(ErrorKind::NotConnected.into());
            }
            // Nothing more is taken from the old one: the other side is told where to go on.
            state.break_off();
            self.changed.notify_all();
            (state.number, state.taken)
        };
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(EXCHANGE))?;
        socket.write_all(&taken.to_be_bytes())?;
        let mut theirs = [0; 8];
        socket.read_exact(&mut theirs)?;
        let theirs = u64::from_be_bytes(theirs);
        let mut state = self.state();
        if state.number != number || state.over {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        if !state.backlog.take_to(theirs) {
            return Err(io::Error::other("the other side claims to have taken what was never said"));
        }
        socket.set_read_timeout(state.silence)?;
        socket.set_write_timeout(None)?;
        (state.given, state.socket, state.broken_at) = (theirs, Some(Arc::new(socket)), None);
        self.changed.notify_all();
        Ok(())
    }

    /// The present connection, waiting for one while that may be.
    fn connection(&self) -> io::Result<(Arc<TcpStream>, u64)> {
        let mut state = self.state();
        loop {
            if state.over {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if let Some(socket) = &state.socket {
                return Ok((socket.clone(), state.number));
            }
            let since = *state.broken_at.get_or_insert_with(Instant::now);
            let left = state.patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                state.over = true;
                self.changed.notify_all();
                continue;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The connection with this number is no good any more.
    fn note_broken(&self, number: u64, why: &io::Error) {
        let mut state = self.state();
        if state.number == number && state.socket.is_some() {
            tracing::debug!("the connection of the control stream broke: {why}");
            state.break_off();
            self.changed.notify_all();
        }
    }

    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let (socket, number) = self.connection()?;
            let outcome = match (&*socket).read(buf) {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                other => other,
            };
            match outcome {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.note_broken(number, &error),
                Ok(len) => {
                    let mut state = self.state();
                    // What an old connection brought after the new one began comes again over that.
                    if state.number == number {
                        state.taken += len as u64;
                        return Ok(len);
                    }
                }
            }
        }
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.state().backlog.push(bytes);
        loop {
            let (socket, number) = self.connection()?;
            let (at, chunk) = {
                let state = self.state();
                if state.given == state.backlog.end() {
                    return Ok(());
                }
                (state.given, state.backlog.piece(state.given, CHUNK))
            };
            match (&*socket).write(&chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.note_broken(number, &error),
                Ok(len) => {
                    let mut state = self.state();
                    if state.number == number && state.given == at {
                        state.given += len as u64;
                    }
                }
            }
        }
    }
}

impl State {
    fn break_off(&mut self) {
        if let Some(socket) = self.socket.take() {
            // Whoever is blocked on it is not any more.
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.number += 1;
        self.broken_at.get_or_insert_with(Instant::now);
    }
}

/// What comes over a line.
pub struct LineReader(pub Arc<Line>);

impl Read for LineReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

/// What goes over a line.
pub struct LineWriter(pub Arc<Line>);

impl Write for LineWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write_all(buf)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// For the numbers that a new connection begins with.
const EXCHANGE: Duration = Duration::from_secs(5);
/// Written at a time.
const CHUNK: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use std::net::TcpListener;
    use std::thread;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn lines() -> (Arc<Line>, Arc<Line>) {
        let (a, b) = pair();
        let (a, b) = (Line::new(a), Line::new(b));
        [&a, &b].iter().for_each(|line| line.allow(Duration::from_secs(60)));
        (a, b)
    }

    /// A new connection between the two.
    fn connect_again(a: &Arc<Line>, b: &Arc<Line>) {
        let ((near, far), other) = (pair(), b.clone());
        let there = thread::spawn(move || other.go_on(far).unwrap());
        a.go_on(near).unwrap();
        there.join().unwrap();
    }

    /// Bytes that tell their place.
    fn story(len: usize, salt: u8) -> Vec<u8> {
        (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ salt).collect()
    }

    /// The other side's part of the model: what was sent is delivered, cut anywhere, and goes on where it was taken to.
    #[test]
    fn whatever_is_lost_with_a_connection_comes_exactly_once() {
        for seed in 0..2000 {
            let mut rng = Rng::with_seed(seed);
            let (mut backlog, mut given, mut taken, mut written) = (Backlog::default(), 0, vec![], vec![]);
            while taken.len() < 5000 {
                match rng.u8(..8) {
                    0..3 if written.len() < 5000 => {
                        let more = story(rng.usize(1..400), seed as u8);
                        written.extend_from_slice(&more);
                        backlog.push(&more);
                    }
                    3..6 => {
                        let chunk = backlog.piece(given, rng.usize(1..300));
                        // Of what a connection was given some comes in, or all, and the rest is lost when it breaks.
                        let came = if rng.bool() { chunk.len() } else { rng.usize(..=chunk.len()) };
                        taken.extend_from_slice(&chunk[..came]);
                        given += chunk.len() as u64;
                        if came < chunk.len() {
                            given = taken.len() as u64;
                            assert!(backlog.take_to(given), "seed {seed}");
                        }
                    }
                    6 => assert!(backlog.take_to(taken.len() as u64), "seed {seed}"),
                    _ => {}
                }
                assert_eq!(backlog.end(), written.len() as u64, "seed {seed}");
            }
            assert_eq!(taken, written[..taken.len()], "seed {seed}");
        }
    }

    #[test]
    fn nothing_is_taken_that_was_not_written_nor_given_back() {
        let mut backlog = Backlog::default();
        backlog.push(b"four");
        assert!(!backlog.take_to(5) && backlog.take_to(3) && !backlog.take_to(2));
        assert_eq!((backlog.piece(3, 9), backlog.len(), backlog.is_empty()), (b"r".to_vec(), 1, false));
    }

    #[test]
    fn a_line_goes_on_over_many_connections_both_ways() {
        let (a, b) = lines();
        let len = 3_000_000;
        let talk = |line: &Arc<Line>, salt| {
            let line = line.clone();
            thread::spawn(move || LineWriter(line).write_all(&story(len, salt)).unwrap())
        };
        let hear = |line: &Arc<Line>, salt| {
            let line = line.clone();
            thread::spawn(move || {
                let mut got = vec![0; len];
                LineReader(line).read_exact(&mut got).unwrap();
                assert!(got == story(len, salt));
            })
        };
        let writers = [talk(&a, 1), talk(&b, 2)];
        for round in 0..20 {
            thread::yield_now();
            // Either side notices first, or neither: the client connects anew by itself.
            if round % 2 == 0 {
                a.state().break_off();
            }
            connect_again(&a, &b);
        }
        let readers = [hear(&a, 2), hear(&b, 1)];
        connect_again(&a, &b);
        writers.into_iter().chain(readers).for_each(|thread| thread.join().unwrap());
        assert_eq!((a.taken(), b.taken()), (len as u64, len as u64));
        assert!(a.note_taken(len as u64) && a.kept() == 0, "it is not kept once it was taken");
    }

    #[test]
    fn a_line_that_may_not_go_on_ends_with_its_connection() {
        let (a, b) = lines();
        a.allow(Duration::ZERO);
        b.end();
        assert!(LineReader(a.clone()).read(&mut [0; 9]).is_err() && a.is_over() && !a.await_break());
        assert!(a.go_on(pair().0).is_err(), "what is over stays so");
    }

    #[test]
    fn who_has_taken_what_was_never_said_does_not_go_on() {
        let (a, _b) = lines();
        let (near, mut far) = pair();
        far.write_all(&7u64.to_be_bytes()).unwrap();
        assert!(a.go_on(near).is_err() && a.is_broken());
    }
}
