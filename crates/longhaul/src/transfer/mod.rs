//! Copies: two programs, one control stream, one object.
//!
//! [`client`] and [`server`] bring a [`Session`](session::Session) about; [`sending`] and [`receiving`] run it,
//! whichever of the two has the files. [`forward`] is apart from these: it passes on the connections of other programs.
//!
//! # Threads
//!
//! | side | thread | does |
//! |---|---|---|
//! | both | the caller's (client), `connection` for each (server) | the whole protocol: UDP socket, endpoint, timers. Never waits for a disk |
//! | both | `control-read`, `control-write` | the control stream, so that a slow one holds up nobody |
//! | client | `connect` | reaches the other host, while `list` lists the first part |
//! | client | `control-rejoin` | sees that the control stream of a daemon has a connection |
//! | client | `stream-join` | one for each TCP stream while it is being opened |
//! | both | `pipe-out` | with data inside ssh: from the session to the control stream |
//! | sender | 2 × `longhaul-read` | read ahead and hash |
//! | sender of a pipe | `longhaul-read` | reads ahead and hashes, in place of those |
//! | receiver of a pipe | `longhaul-write` | hashes, verifies and writes in order, in place of the writers and the keeper |
//! | sender | `longhaul-list` | lists the sources, a part ahead of what is sent; ends with the session |
//! | server that sends | `list` | waits for the first part, while probes are answered |
//! | receiver | `compare` | compares a part's manifest with what is there, meanwhile data of the parts before it moves; ends with the session |
//! | receiver | 2 × `longhaul-write` | store, hash, verify, put in place |
//! | receiver | `longhaul-keep` | has open blocks stored ten times a second, writes journals, syncs |
//! | end of an arranged copy | `third-party` | the copy with the other end; the session's own thread stays with the arranger |
//! | the same | `reach` | one for each address of the other end, while it is looked whether one answers |
//! | arranger | 2 × `relay` | pass on what one end says to the other |
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
//! | blocks read ahead and kept for retransmission | 48 MiB for each part at work (`CACHE_LEN` in `files/reader.rs`); beyond 4 of them at a daemon from its budget |
//! | what comes of a pipe | 128 MiB at the sender (`MADE_MAX` in `files/tap.rs`), beyond four MiB at a daemon from its budget; 96 MiB at the receiver, which begins with no stretch before it has the memory |
//! | blocks being put together or waiting to be stored | 64 MiB for each part at work (`MEMORY_LEN` in `files/sink.rs`); beyond 4 of them at a daemon from its budget |
//! | datagrams on their way | 2²⁰ records of 24 bytes (`FLIGHT_MAX`) |
//! | bitmaps | 24 bytes per 65 536 packets (94 MB at 1434 bytes), and 8 KiB more while those are mixed; three of them at the sender, one at the receiver |
//! | groups of files that have not landed yet | a byte for each MiB, and 50 for each that waits for its data or its hash |
//! | journals of a resume | a byte for each MiB, and the hashes of a TiB (`files/recover.rs`) |
//! | manifests | three parts (`PARTS_MAX`) of 16 384 entries or 8 MiB (`files/scan.rs`); a receiver takes 64 MiB for each (`PART_ROOM` in `listing.rs`), or 256 bytes for each byte that came of it, since what must be known as a whole is one part |
//! | names of what may be extraneous | those of the folders that are being listed (`files/extraneous.rs`); what is found goes to a file without a name |
//! | paths of a copy in parts, where the destination does not tell upper and lower case apart | a million, 36 MiB (`files/twins.rs`) |
//! | a TCP stream of a copy | 64 KiB to be written, 256 KiB read; 64 of them at most |
//! | connections without a key | 512, 128 of one address; the oldest silent one gives way (`transfer/strangers.rs`) |
//! | control messages | two at most before the next is read; those with ranges have 16 MiB, and beyond 64 KiB take their memory from the budget (`Message::memory_max`); 64 MiB that wait to be written (beside the listing) |
//! | lists, long messages and blocks of all sessions of a daemon | its budget, `ServeOptions::memory_bytes` (`net/src/budget.rs`): a list waits for its memory, a long message is refused, a copy gets along with the blocks it has. Of any other program's: half of the host's memory |
//! | what an arranger passes on | 64 KiB each way, and what sockets hold: who takes nothing holds up the other |
//! | salts of offers, tickets | 65 536 of each (`transfer/replays.rs`, `daemon/tickets.rs`) |
//!
//! Memory follows what is unsettled and the largest folder, not the number of files or of bytes. A receiver that falls
//! behind lets the sender know (`pressure`) and refuses packets rather than buy memory.
//!
//! Beyond its budget each session of a daemon has what it needs to go on: buffers for four blocks of each part at work, lists
//! of 512 KiB. So what is under way never waits for others, and who waits for them holds nothing that they need: a part is
//! listed and compared once all the memory that one usually takes is there.
//!
//! # Saying why
//!
//! `Sending::limit` asks in this order: its user has it pause, the socket or the TCP streams are full (path), there is nothing to send
//! (source), the rate cap; else it is the controller's pace, and behind that the receiver (its disk or its host), the
//! processor (the pacer came late again and again), a policer, random loss, or the path. `LimitMeter` adds up the time under
//! each. Losses of the path and drops of the receiving host (`SO_RXQ_OVFL`) are counted apart throughout.

mod absent;
mod accept;
pub mod client;
mod connect;
mod figures;
mod first_flight;
pub mod forward;
mod identity;
mod joins;
mod newcomer;
mod object_receiver;
mod openings;
mod over_ssh;
mod pace;
mod ports;
mod presence;
pub mod probe;
mod proposal;
mod receiving;
mod refusals;
mod rejoin;
mod replays;
mod sending;
pub mod server;
mod serving;
mod session;
mod side_paths;
mod sizes;
mod ssh;
pub mod start;
mod strangers;
mod switchboard;
mod tracer;
mod tunnel;
mod udp_handshake;
