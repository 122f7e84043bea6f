//! The targets.

mod controllers;
mod datagrams;
mod endpoints;
mod files;
mod records;
mod sessions;
mod streams;
mod stripe;
mod tcp;
mod text;
mod transfer;

use crate::Target;

/// All of them.
pub const TARGETS: &[Target] = &[
    target("header", datagrams::header, datagrams::header_seeds),
    target("body", datagrams::body, datagrams::body_seeds),
    target("opening", datagrams::opening, datagrams::opening_seeds),
    Target { weight: 4, ..target("sender", endpoints::sender, endpoints::sender_seeds) },
    target("receiver", endpoints::receiver, endpoints::receiver_seeds),
    Target { weight: 4, ..target("tcp-sender", tcp::sender, tcp::sender_seeds) },
    Target { weight: 4, ..target("tcp-receiver", tcp::receiver, tcp::receiver_seeds) },
    target("path-check", endpoints::path_check, endpoints::path_check_seeds),
    Target { weight: 4, ..target("controller", controllers::controller, controllers::controller_seeds) },
    Target { weight: 20, ..target("handshake", streams::handshake, streams::handshake_seeds) },
    Target { weight: 500, ..target("session-server", sessions::session_server, sessions::session_seeds) },
    Target { weight: 5000, ..target("session-client", sessions::session_client, sessions::session_seeds) },
    Target { weight: 10, ..target("transfer", transfer::transfer, transfer::transfer_seeds) },
    target("message", streams::message, streams::message_seeds),
    target("stream-records", records::records, records::record_seeds),
    target("stripe-lanes", stripe::lanes, stripe::lanes_seeds),
    target("stripe-hello", stripe::hello, stripe::hello_seeds),
    target("forward-request", stripe::forward, stripe::forward_seeds),
    Target { weight: 5, ..target("manifest", files::manifest, files::manifest_seeds) },
    Target { weight: 2, ..target("journal", files::journal, files::journal_seeds) },
    target("exclude", files::exclude, files::exclude_seeds),
    target("scenario", text::scenario, text::scenario_seeds),
    target("location", text::location, text::location_seeds),
    target("rate", text::rate, text::rate_seeds),
    target("config", text::config, text::config_seeds),
    target("token", text::token, text::token_seeds),
    Target { weight: 5, ..target("history", text::history, text::history_seeds) },
    target("part-name", files::part_name, files::part_name_seeds),
];

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, weight: 1, seeds }
}

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
