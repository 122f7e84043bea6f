//! The memory that it takes to know what a receiver has, where that is in very many pieces.

use crate::listing::ListingError;
use crate::net::budget::{Allowance, Budget, Purpose};
use std::sync::Arc;

/// Of a set of pieces.
pub struct Pieces(Allowance);

impl Pieces {
    /// Of an empty set.
    pub fn of(budget: &Arc<Budget>) -> Pieces {
        Pieces(Allowance::of(budget, Purpose::Need))
    }

    /// The set has so many pieces. An error where there is no memory for them.
    pub fn hold(&mut self, count: usize) -> Result<(), ListingError> {
        let is_held = count <= PIECES_AT_HAND || self.0.reach(count as u64 * PIECE_MEMORY);
        if is_held { Ok(()) } else { Err(ListingError::Busy) }
    }
}

/// As many take nothing from other copies.
const PIECES_AT_HAND: usize = 10_000;
/// A piece in a set takes some 32 bytes.
const PIECE_MEMORY: u64 = 32;
