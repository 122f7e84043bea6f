//! The targets.

mod datagrams;
mod endpoints;
mod files;
mod streams;
mod text;

use crate::Target;

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "header", run: datagrams::header, seeds: datagrams::header_seeds },
    Target { name: "body", run: datagrams::body, seeds: datagrams::body_seeds },
    Target { name: "sender", run: endpoints::sender, seeds: endpoints::sender_seeds },
    Target { name: "receiver", run: endpoints::receiver, seeds: endpoints::receiver_seeds },
    Target { name: "path-check", run: endpoints::path_check, seeds: endpoints::path_check_seeds },
    Target { name: "controller", run: endpoints::controller, seeds: endpoints::controller_seeds },
    Target { name: "handshake", run: streams::handshake, seeds: streams::handshake_seeds },
    Target { name: "message", run: streams::message, seeds: streams::message_seeds },
    Target { name: "manifest", run: files::manifest, seeds: files::manifest_seeds },
    Target { name: "journal", run: files::journal, seeds: files::journal_seeds },
    Target { name: "exclude", run: files::exclude, seeds: files::exclude_seeds },
    Target { name: "scenario", run: text::scenario, seeds: text::scenario_seeds },
    Target { name: "location", run: text::location, seeds: text::location_seeds },
    Target { name: "rate", run: text::rate, seeds: text::rate_seeds },
];

/// Bytes read as a list of numbers and pieces; when they run out, there is nothing more to do.
struct Script<'a> {
    bytes: &'a [u8],
}

impl<'a> Script<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A piece with its length (16 bits) in front; shorter at the end.
    fn piece(&mut self) -> Option<&'a [u8]> {
        let len = usize::from(self.u16()?).min(self.bytes.len());
        let (piece, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        Some(piece)
    }
}

/// Write a piece as [`Script::piece`] reads it.
fn put_piece(script: &mut Vec<u8>, piece: &[u8]) {
    script.extend((piece.len() as u16).to_be_bytes());
    script.extend_from_slice(piece);
}
