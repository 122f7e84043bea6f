//! Hands what comes in at a daemon's open port to the sessions that it belongs to.

use super::openings::{Known, Opening};
use crate::clock;
use crate::net::control::rejoin::ResumableStream;
use crate::net::join::JoinKey;
use crate::net::strays::{Stray, Strays};
use crate::net::tcp_set::StreamAcceptor;
use crate::net::udp::{Datagram, ReceiveBuffers, UdpSocket};
use crate::net::wake::{Interest, Waker, wait};
use longhaul_proto::session::opening::{Openings, Piece};
use longhaul_proto::wire::Header;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Hands datagrams that come in at a daemon's common socket to the sessions they belong to.
#[derive(Default)]
pub struct Switchboard {
    state: Mutex<Board>,
    /// The openings that sessions began with.
    pub known: Known,
}

#[derive(Default)]
struct Board {
    lines: HashMap<u64, LineEnd>,
    /// Datagrams of sessions that are not there yet: a client's first ones may overtake its offer.
    held: VecDeque<(u64, Stray)>,
    /// The memory that these take.
    held_cost: usize,
}

/// Where what belongs to a session goes.
struct LineEnd {
    strays: Arc<Strays>,
    waker: Waker,
    /// None for a further path's: TCP streams join the session.
    acceptor: Option<StreamAcceptor>,
    /// Its control stream, and what connections prove to know that go on with it.
    control: Option<(JoinKey, Arc<ResumableStream>)>,
}

/// A session's connection to the switchboard.
pub struct Line {
    /// Datagrams for it.
    pub strays: Arc<Strays>,
    connection_id: u64,
    board: Arc<Switchboard>,
}

impl Line {
    /// The session's control stream may go on over connections that prove to know `key`.
    pub fn let_go_on(&self, key: JoinKey, control: Arc<ResumableStream>) {
        let mut board = self.board.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = board.lines.get_mut(&self.connection_id) {
            line.control = Some((key, control));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut board = self.board.state.lock().unwrap_or_else(PoisonError::into_inner);
        board.lines.remove(&self.connection_id);
    }
}

impl Switchboard {
    /// A session begins: what is said to it from now on comes here. `None` if there is one of that name: its line stays its
    /// own.
    pub fn connect(
        self: &Arc<Self>,
        connection_id: u64,
        waker: Waker,
        acceptor: Option<StreamAcceptor>,
    ) -> Option<Line> {
        let strays = Arc::new(Strays::default());
        let mut board = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if board.lines.contains_key(&connection_id) {
            return None;
        }
        let (ours, others): (VecDeque<_>, VecDeque<_>) =
            board.held.drain(..).partition(|(id, _)| *id == connection_id);
        board.held = others;
        for (_, stray) in ours {
            board.held_cost -= stray.cost();
            strays.push(stray);
        }
        let line = LineEnd { strays: strays.clone(), waker, acceptor, control: None };
        board.lines.insert(connection_id, line);
        Some(Line { strays, connection_id, board: self.clone() })
    }

    /// Where TCP streams of this transfer are to be left.
    pub fn acceptor(&self, connection_id: u64) -> Option<StreamAcceptor> {
        let board = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        board.lines.get(&connection_id)?.acceptor.clone()
    }

    /// The control stream of this transfer, if it may go on over another connection.
    pub fn control(&self, connection_id: u64) -> Option<(JoinKey, Arc<ResumableStream>)> {
        let board = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        board.lines.get(&connection_id).and_then(|line| line.control.clone())
    }

    /// Serve the common socket until `stop`. Whoever opens a session over UDP is left to `opened`.
    pub fn run(&self, mut socket: UdpSocket, waker: &Waker, stop: &AtomicBool, opened: &dyn Fn(Opening)) {
        let mut buffers = ReceiveBuffers::default();
        let mut openings = Openings::default();
        socket.tell_own_address();
        let port = socket.local_addr().map_or(0, |local| local.port());
        // Why nothing can be received at the moment: told once. TCP carries the data meanwhile.
        let mut failing = None;
        while !stop.load(Ordering::Relaxed) {
            let outcome = match socket.receive(&mut buffers) {
                Ok(true) => {
                    for Datagram { bytes, time, ecn, from, to } in buffers.datagrams() {
                        match (Piece::decode(bytes), from.zip(to)) {
                            (Some(piece), Some((from, to))) => {
                                let whole = openings.take(from, &piece);
                                whole
                                    .into_iter()
                                    .for_each(|first| opened(Opening::new(first, from, (to, port))));
                            }
                            _ => {
                                if let Some(from) = from {
                                    self.hand_over(Stray { bytes: bytes.to_vec(), time, ecn, from, to });
                                }
                            }
                        }
                    }
                    Ok(())
                }
                Ok(false) => {
                    let now = clock::now();
                    let interest = Interest { socket: Some(socket.as_fd()), writable: false };
                    wait(interest, waker, now, now + POLL)
                }
                Err(error) => Err(error),
            };
            let Err(error) = outcome else {
                failing = None;
                continue;
            };
            if failing.replace(error.kind()) != Some(error.kind()) {
                tracing::error!("the UDP socket failed: {error}");
            }
            std::thread::sleep(POLL);
        }
    }

    fn hand_over(&self, stray: Stray) {
        let Some(header) = Header::decode(&stray.bytes) else { return };
        let mut board = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = board.lines.get(&header.connection_id) {
            if line.strays.push(stray) {
                line.waker.wake();
            }
            return;
        }
        board.held_cost += stray.cost();
        board.held.push_back((header.connection_id, stray));
        while board.held_cost > HELD_COST_MAX
            && let Some((_, oldest)) = board.held.pop_front()
        {
            board.held_cost -= oldest.cost();
        }
    }
}

/// Memory for datagrams of sessions that are not there yet, of all clients together: the first flights of a dozen. Whoever sends
/// more, with or without a key, pushes out the oldest.
const HELD_COST_MAX: usize = 1 << 20;

/// Look at the stop flag this often.
pub const POLL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tcp_set::{StreamSet, stream_key};
    use longhaul_proto::units::Time;
    use longhaul_proto::wire::KeyPhase;

    fn connect(board: &Arc<Switchboard>, id: u64) -> Option<Line> {
        let waker = Waker::new().unwrap();
        let acceptor = StreamSet::default().acceptor_with(stream_key(&[1; 32], id), None, waker.clone());
        board.connect(id, waker, Some(acceptor))
    }

    fn stray(id: u64) -> Stray {
        long_stray(id, 16)
    }

    fn long_stray(id: u64, len: usize) -> Stray {
        let header = Header { phase: KeyPhase::Early, connection_id: id, number: 0 }.encode();
        let bytes = [&header[..], &vec![0; len]].concat();
        Stray { bytes, time: Time::ZERO, ecn: None, from: "127.0.0.1:9".parse().unwrap(), to: None }
    }

    #[test]
    fn a_session_keeps_its_line_whoever_else_gives_its_name() {
        let board = Arc::new(Switchboard::default());
        board.hand_over(stray(7));
        let line = connect(&board, 7).unwrap();
        assert!(connect(&board, 7).is_none(), "an offer that was sent again");
        let other = connect(&board, 8).unwrap();
        board.hand_over(stray(7));
        assert_eq!((line.strays.len(), other.strays.len()), (2, 0));
        drop(line);
        assert!(connect(&board, 7).is_some(), "its name is free when it is over");
    }

    #[test]
    fn strangers_datagrams_take_bounded_memory_and_the_latest_stay() {
        let board = Arc::new(Switchboard::default());
        for id in 0..2000 {
            board.hand_over(long_stray(id, if id % 2 == 0 { 65_000 } else { 0 }));
        }
        let held = |board: &Switchboard| {
            let board = board.state.lock().unwrap();
            let cost: usize = board.held.iter().map(|(_, stray)| stray.cost()).sum();
            assert_eq!(cost, board.held_cost);
            cost
        };
        let full = held(&board);
        assert!(full <= HELD_COST_MAX && full > HELD_COST_MAX / 2, "{full}");
        assert_eq!(connect(&board, 0).unwrap().strays.len(), 0);
        let line = connect(&board, 1998).unwrap();
        assert_eq!(line.strays.len(), 1);
        assert!(held(&board) < full);
    }
}
