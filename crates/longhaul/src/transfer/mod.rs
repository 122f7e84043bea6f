//! Copies: two programs, one control stream, one object.
//!
//! [`client`] and [`server`] bring a [`Session`](session::Session) about; [`sending`] and [`receiving`] run it,
//! whichever of the two has the files.
//!
//! # Threads
//!
//! | side | thread | does |
//! |---|---|---|
//! | both | the caller's (client), `connection` for each (server) | the whole protocol: UDP socket, endpoint, timers. Never waits for a disk |
//! | both | `control-read`, `control-write` | the control stream, so that a slow one holds up nobody |
//! | client | `stream-join` | one for each TCP stream while it is being opened |
//! | both | `pipe-out` | with data inside ssh: from the session to the control stream |
//! | sender | 2 × `longhaul-read` | read ahead and hash |
//! | server that sends | `list` | lists the sources, while probes are answered; ends with the session |
//! | receiver | `compare` | compares the manifest with what is there, while probes are answered; ends with the session |
//! | receiver | 2 × `longhaul-write` | store, hash, verify, put in place |
//! | receiver | `longhaul-keep` | has open blocks stored ten times a second, writes journals, syncs |
//! | agent | `streams`, and one for each TCP stream that joins | meets them |
//! | server | accepting thread, switchboard | connections; datagrams of clients whose address is not known yet |
//!
//! The protocol thread waits in one `ppoll` for the socket, for an eventfd that the others ring, and for the next
//! deadline. The switchboard reads the daemon's open UDP socket and hands datagrams to sessions by connection id;
//! once a session has met an authentic one it binds a socket of its own to the same port, at the address that the client
//! asked, and connects it to that peer, and the kernel does the sorting.
//!
//! # Memory
//!
//! | what | bound |
//! |---|---|
//! | blocks read ahead and kept for retransmission | 48 MiB (`CACHE_LEN` in `files/reader.rs`) |
//! | blocks being put together or waiting to be stored | 64 MiB (`MEMORY_LEN` in `files/sink.rs`) |
//! | datagrams on their way | 2²⁰ records of 24 bytes (`FLIGHT_MAX`) |
//! | bitmaps | 24 bytes per 65 536 packets (94 MB at 1434 bytes), and 8 KiB more while those are mixed; three of them at the sender, one at the receiver |
//! | hashes of verified groups | 33 bytes per MiB of large files that have not landed yet |
//! | manifest | what its entries take, on both sides: 64 MiB, and 256 bytes for each byte that came of it |
//! | a TCP stream of a copy | 64 KiB to be written, 256 KiB read; 64 of them at most |
//! | connections without a key | 512, 128 of one address; the oldest silent one gives way (`transfer/strangers.rs`) |
//! | control messages | two of 64 MiB at most before the next is read; 128 MiB that wait to be written (beside the listing) |
//! | salts of offers | 65 536 of them (`transfer/replays.rs`) |
//!
//! Memory follows the number of files and what is unsettled, not the number of bytes. A receiver that falls
//! behind lets the sender know (`pressure`) and refuses packets rather than buy memory.
//!
//! # Saying why
//!
//! `Sending::limit` asks in this order: the socket or the TCP streams are full (path), there is nothing to send
//! (source), the rate cap; else it is the controller's pace, and behind that the receiver (its disk or its host), the
//! processor (the pacer came late again and again), random loss, or the path. `LimitMeter` adds up the time under
//! each. Losses of the path and drops of the receiving host (`SO_RXQ_OVFL`) are counted apart throughout.

mod absent;
pub mod client;
mod intake;
mod meeting;
mod outset;
mod ports;
pub mod probe;
mod reach;
mod receiving;
mod rejoin;
mod replays;
mod sending;
pub mod server;
mod session;
mod ssh;
mod strangers;
mod switchboard;
