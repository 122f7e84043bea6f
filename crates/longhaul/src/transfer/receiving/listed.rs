//! What is listed, and the memory that it takes.

use super::super::session::Session;
use super::{ListingHead, serve_until};
use crate::clock;
use crate::error::Error;
use crate::listing::{self, ListingError, Room};
use crate::net::budget::{Allowance, Purpose};
use longhaul_proto::session::message::Message;
use std::sync::atomic::Ordering;
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
const LISTED_AT_HAND: usize = 512 << 10;
/// Compressed, so many.
pub const PACKED_AT_HAND: u64 = 512 << 10;
/// How long a copy waits for memory before that is told, and before it gives up.
pub const WAIT_LONG: Duration = Duration::from_secs(1);
const ROOM_PATIENCE: Duration = Duration::from_secs(60);
