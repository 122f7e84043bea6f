//! Random changes to known inputs.

use fastrand::Rng;

/// An input for a target: one of `seeds` changed here and there, two of them joined, or noise.
pub fn input(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    if seeds.is_empty() || rng.u32(0..NOISE_ONE_IN) == 0 {
        let len = rng.usize(0..NOISE_LEN_MAX);
        return bytes(rng, len);
    }
    let mut input = seeds[rng.usize(0..seeds.len())].clone();
    if rng.u32(0..SPLICE_ONE_IN) == 0 {
        let other = &seeds[rng.usize(0..seeds.len())];
        input.truncate(rng.usize(0..=input.len()));
        input.extend_from_slice(&other[rng.usize(0..=other.len())..]);
    }
    // Most often one change, seldom many: parsers give up at the first thing that makes no sense.
    let mut changes = 1;
    while changes < CHANGES_MAX && rng.bool() {
        changes += 1;
    }
    for _ in 0..changes {
        change(rng, &mut input);
    }
    input
}

fn change(rng: &mut Rng, input: &mut Vec<u8>) {
    if input.is_empty() {
        let len = rng.usize(0..NOISE_LEN_MAX);
        *input = bytes(rng, len);
        return;
    }
    let at = rng.usize(0..input.len());
    match rng.u32(0..8) {
        0 => input[at] ^= 1 << rng.u32(0..8),
        1 => input[at] = rng.u8(..),
        2 => input[at] = input[at].wrapping_add(if rng.bool() { 1 } else { u8::MAX }),
        3 => input.truncate(at),
        4 => {
            let count = rng.usize(1..=8.min(input.len() - at));
            input.drain(at..at + count);
        }
        5 => {
            let count = rng.usize(1..9);
            let more = bytes(rng, count);
            input.splice(at..at, more);
        }
        6 => {
            let piece = input[at..(at + rng.usize(1..65)).min(input.len())].to_vec();
            let to = rng.usize(0..=input.len());
            input.splice(to..to, piece);
        }
        _ => overwrite(rng, &mut input[at..]),
    }
    input.truncate(INPUT_LEN_MAX);
}

/// Put in a number that programs trip over.
fn overwrite(rng: &mut Rng, place: &mut [u8]) {
    let number = NUMBERS[rng.usize(0..NUMBERS.len())];
    let number = if rng.bool() { number } else { number.wrapping_sub(1) };
    let width = [1, 2, 4, 6, 8][rng.usize(0..5)].min(place.len());
    let big = number.to_be_bytes();
    let little = number.to_le_bytes();
    let encoded = if rng.bool() { &big[8 - width..] } else { &little[..width] };
    place[..width].copy_from_slice(encoded);
}

fn bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.u8(..)).collect()
}

const NUMBERS: [u64; 12] =
    [0, 1, 0x7f, 0x80, 0xff, 1 << 16, 1 << 20, 1 << 31, 1 << 32, 1 << 48, 1 << 63, u64::MAX];

const NOISE_ONE_IN: u32 = 16;
const SPLICE_ONE_IN: u32 = 8;
const CHANGES_MAX: u32 = 12;
/// Noise longer than this says no more than noise this long.
const NOISE_LEN_MAX: usize = 600;
/// Inputs do not grow beyond this.
const INPUT_LEN_MAX: usize = 1 << 16;
