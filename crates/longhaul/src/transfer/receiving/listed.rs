//! What is listed, and the memory that it takes.

use super::super::session::Session;
use super::{ListingHead, serve_until};
use crate::clock;
use crate::error::Error;
use crate::listing::{self, ListingError, Room};
use crate::net::budget::{Allowance, Budget, Purpose};
use longhaul_proto::session::message::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Wait for a listing to be there in full, and for the memory that it takes expanded, which is given along with it.
pub fn get_expanded<T>(
    session: &mut Session<'_>,
    head: ListingHead,
    decode: impl Fn(&[u8], &mut Room) -> Result<T, ListingError>,
) -> Result<(T, Allowance), Error> {
    let mut packed = Allowance::of(&session.budget, Purpose::Need);
    let bytes = get_listing(session, head, &mut packed)?;
    match decode(&bytes, &mut Room::of(LISTED_AT_HAND)) {
        Err(ListingError::TooLong) => {}
        short => return Ok((short.map_err(|error| session.abort(error))?, Allowance::default())),
    }
    let mut room = await_room(session, bytes.len())?;
    let expanded = decode(&bytes, &mut room).map_err(|error| session.abort(error))?;
    Ok((expanded, room.settle()))
}

/// Wait for the memory that a list of so many bytes takes.
fn await_room(session: &mut Session<'_>, packed_len: usize) -> Result<Room, Error> {
    let budget = session.budget.clone();
    await_memory(session, || Room::beside_others(Allowance::of(&budget, Purpose::Need), packed_len))
}

/// Wait until `get` has the memory that it wants.
pub fn await_memory<T>(session: &mut Session<'_>, get: impl Fn() -> Option<T>) -> Result<T, Error> {
    let began = clock::now();
    serve_until(session, |session| {
        let waited = clock::now().since(began);
        if let Some(memory) = get() {
            return Ok(Some(memory));
        }
        session.last_word = clock::now();
        session.waits.fetch_or(waited > WAIT_LONG, Ordering::Relaxed);
        if waited > ROOM_PATIENCE { Err(session.abort(ListingError::Busy)) } else { Ok(None) }
    })
}

/// What a thread that compares the part that comes next hears of the session, and tells it.
#[derive(Debug, Default)]
pub struct Standing {
    /// Nobody waits any more.
    pub over: AtomicBool,
    /// No part is at work.
    pub is_alone: AtomicBool,
    /// It waits long for memory.
    pub waits: AtomicBool,
}

impl Standing {
    /// What the next part's memory is for.
    pub fn purpose(&self) -> Purpose {
        if self.is_alone.load(Ordering::Relaxed) { Purpose::Need } else { Purpose::Ahead }
    }
}

/// Wait for the memory that a stretch of a stream takes, of so many bytes. Those at work may take as long as they like.
pub fn await_stretch(len: u64, standing: &Standing, budget: &Arc<Budget>) -> Result<Allowance, Error> {
    let mut alone_since = None;
    loop {
        let purpose = standing.purpose();
        let mut memory = Allowance::of(budget, purpose);
        if memory.take(len) {
            return Ok(memory);
        }
        if standing.over.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if purpose == Purpose::Need {
            let now = clock::now();
            let waited = now.since(*alone_since.get_or_insert(now));
            standing.waits.fetch_or(waited > WAIT_LONG, Ordering::Relaxed);
            if waited > ROOM_PATIENCE {
                return Err(ListingError::Busy.into());
            }
        }
        std::thread::sleep(MEMORY_AGAIN);
    }
}

/// Wait for a listing to be there in full. A long one takes memory as it comes.
fn get_listing(
    session: &mut Session<'_>,
    head: ListingHead,
    packed: &mut Allowance,
) -> Result<Vec<u8>, Error> {
    let (mut bytes, mut total) = (head.bytes, head.total);
    serve_until(session, |session| {
        while total.is_none_or(|total| (bytes.len() as u64) < total) {
            if total.is_some_and(|total| total > listing::PACKED_MAX) {
                return Err(session.abort(ListingError::TooLong));
            }
            match session.poll_message()? {
                None => return Ok(None),
                Some(Message::ListingPart { total: told, bytes: part, .. }) => {
                    total.get_or_insert(told);
                    bytes.extend(&part);
                    if bytes.len() as u64 > PACKED_AT_HAND && !packed.take(part.len() as u64) {
                        return Err(session.abort(ListingError::Busy));
                    }
                }
                Some(_) => {}
            }
        }
        Ok(Some(std::mem::take(&mut bytes)))
    })
}

/// A list of so many bytes in memory takes nothing from other copies: 2000 files of usual names.
pub const LISTED_AT_HAND: usize = 512 << 10;
/// Compressed, so many.
pub const PACKED_AT_HAND: u64 = 512 << 10;
/// How long a copy waits for memory before that is told, and before it gives up.
pub const WAIT_LONG: Duration = Duration::from_secs(1);
const ROOM_PATIENCE: Duration = Duration::from_secs(60);
/// How soon a stretch of a stream asks again for the memory that it takes.
const MEMORY_AGAIN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_ahead_leaves_room_to_others_until_none_is_at_work() {
        const STRETCH: u64 = 32 << 20;
        let (budget, standing) = (Arc::new(Budget::new(2 * STRETCH)), Arc::new(Standing::default()));
        let mut at_work = Allowance::of(&budget, Purpose::Need);
        assert!(at_work.take(STRETCH));
        let (standing_there, budget_there) = (standing.clone(), budget.clone());
        let ahead = std::thread::spawn(move || await_stretch(STRETCH, &standing_there, &budget_there));
        std::thread::sleep(MEMORY_AGAIN * 5);
        assert!(!ahead.is_finished());
        standing.is_alone.store(true, Ordering::Relaxed);
        let _held = ahead.join().unwrap().unwrap();
        standing.over.store(true, Ordering::Relaxed);
        assert!(matches!(await_stretch(STRETCH, &standing, &budget), Err(Error::Interrupted)));
    }
}
