//! A client whose words a test chooses.

use super::{Server, wait_until};
use longhaul_net::control::{self, Control, Incoming, Stream, psk_of_token, tcp_stream};
use longhaul_net::random::random;
use longhaul_net::wake::Waker;
use longhaul_proto::session::message::{FileOptions, Message, Offer, Operation, TransferOptions};
use longhaul_proto::session::transport::Transport;
use std::fs;
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

/// A client that has the token and says what it likes.
pub struct Client {
    pub control: Control,
}

impl Client {
    /// Offer a copy; the listing is what comes first of a push, and the names in a pull.
    fn offer(server: &Server, operation: Operation, files: FileOptions, listing: &[u8]) -> Option<Client> {
        Client::offer_as(server, operation, files, listing, false)
    }

    /// One that arranges a copy from a third host.
    pub fn arranger(server: &Server, dest: &str) -> Option<Client> {
        Client::offer_as(server, Operation::Push { dest: dest.into() }, resuming(), &[], true)
    }

    fn offer_as(
        server: &Server,
        operation: Operation,
        files: FileOptions,
        listing: &[u8],
        third_party: bool,
    ) -> Option<Client> {
        let socket = TcpStream::connect(server.address()).unwrap();
        let stream: Stream = tcp_stream(socket, Duration::from_secs(20)).unwrap();
        let offer = offer(operation, files, listing, third_party);
        let sent = offer.listing_head.len();
        let token = fs::read_to_string(server.token_file()).unwrap();
        let key = psk_of_token(&token).into();
        let (control, _) = control::connect(stream, &key, &offer, Waker::new().unwrap()).ok()?;
        for piece in listing[sent..].chunks(256 << 10) {
            let (total, bytes) = (listing.len() as u64, piece.to_vec());
            control.send(Message::ListingPart { base: 0, total, bytes });
        }
        Some(Client { control })
    }

    pub fn push(server: &Server, dest: &str, listing: &[u8]) -> Option<Client> {
        Client::offer(server, Operation::Push { dest: dest.into() }, resuming(), listing)
    }

    /// A push in which nothing is to be changed.
    pub fn dry_run(server: &Server, dest: &str, listing: &[u8]) -> Option<Client> {
        let files = FileOptions { dry_run: true, ..resuming() };
        Client::offer(server, Operation::Push { dest: dest.into() }, files, listing)
    }

    pub fn pull(server: &Server, source: &str) -> Option<Client> {
        Client::offer(server, Operation::Pull { sources: vec![source.into()] }, resuming(), &[])
    }

    /// The line with which the server ends the session.
    pub fn hear_refusal(&self) -> String {
        let mut line = None;
        wait_until("the server says why not", || {
            line = self.refusal();
            line.is_some()
        });
        line.unwrap()
    }

    /// The same, if it has come.
    pub fn refusal(&self) -> Option<String> {
        loop {
            match self.control.poll()? {
                Incoming::Message(Message::Abort(reason)) => return Some(reason.line),
                Incoming::Message(_) => {}
                incoming => panic!("{incoming:?} without a word"),
            }
        }
    }
}

pub fn resuming() -> FileOptions {
    FileOptions { resume: true, ..FileOptions::default() }
}

/// What a client begins with.
pub fn offer(operation: Operation, files: FileOptions, listing: &[u8], third_party: bool) -> Offer {
    let head = &listing[..listing.len().min(30_000)];
    let made_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    Offer {
        connection_id: u64::from_be_bytes(random().unwrap()),
        aes: true,
        early_salt: random().unwrap(),
        made_s,
        operation,
        copy: random().unwrap(),
        files,
        transfer: TransferOptions {
            control: "adaptive".into(),
            select: None,
            rate_cap: None,
            ack_every: None,
            batch: None,
            classes: vec![1200],
            background: false,
            stall_timeout_ms: 60_000,
            transport: Transport::Auto,
            streams: None,
            congestion: None,
        },
        listing_len: listing.len() as u64,
        listing_head: head.to_vec(),
        ticket: None,
        preserve: None,
        third_party,
        dscp: None,
        scitag: None,
    }
}
