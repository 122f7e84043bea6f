//! A session at the side that is asked, once it has been accepted.

mod arranged;

pub use arranged::Ground;

use super::absent::{CopyKey, VANISHED_PATIENCE, Waiting};
use super::accept::{AcceptedClient, Ended, Server, shown_folder, take_place};
use super::connect::random;
use super::probe;
use super::receiving::{
    ListingHead, await_confirmation, get_expanded, on_thread, receive, receive_pipe, serve_until,
};
use super::sending::{send, send_listing};
use super::session::Session;
use super::side_paths::{Common, Doors, SidePaths};
use super::start::{first_of, list_first};
use super::strangers::Guest;
use crate::api::Observer;
use crate::clock;
use crate::daemon::admission::{Account, Room};
use crate::daemon::places::Place;
use crate::daemon::policy::{Access, grants_mark};
use crate::daemon::supervision::{Meter, Supervision};
use crate::error::Error;
use crate::files::{Base, Exclude, Lister, Outlet, Passed, ScanOptions, SourceSpec, tap_file};
use crate::fireflies::Fireflies;
use crate::listing::{self, ListingError};
use crate::net::aead::has_aes;
use crate::net::budget::{Allowance, Purpose};
use crate::net::control::Control;
use crate::net::link::PeerLink;
use crate::net::seal::{Keys, Side};
use crate::net::tcp_set;
use crate::net::wake::{Waker, precise_timers};
use longhaul_proto::path::PathCheck;
use longhaul_proto::session::message::{Delta, FileOptions, Fsync, Message, Offer, Operation, TICKETS_SINCE};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Serve who has been accepted. A line of what came of it. `ground`: what a session with a third host would stand on.
pub fn serve_session(
    server: &Server,
    mut client: AcceptedClient,
    (mut link, waker): (PeerLink, Waker),
    guest: Option<Guest<'_>>,
    ground: Option<Ground>,
) -> Result<String, Ended> {
    // Over ssh it is the user of this host.
    let refused = client.offer.dscp.take_if(|dscp| !server.is_ssh && !grants_mark(*dscp));
    client.offer.scitag = client.offer.scitag.or(client.owner.account.user.scitag);
    if client.offer.third_party {
        return arranged::serve(server, client, (link, waker), guest, ground);
    }
    let user = client.owner.account.user.name.clone();
    link.set_ticket_keys(client.ticket_keys());
    let AcceptedClient { control, mut offer, secret, rtt, owner, room, inside, mut place, .. } = client;
    if server.accounts.syncs_all() {
        offer.files.fsync = Fsync::Always;
    }
    let sends = offer.operation.is_pull();
    let mut meter = Meter::begin(owner.clone());
    let mut session = begin(server, (control, link, waker), (&offer, &secret, rtt), sends, &mut meter)?;
    session.paths = SidePaths::of_server(
        Common {
            secret,
            aes: offer.aes && has_aes(),
            classes: offer.transfer.classes.clone(),
            sends,
            marks: session.link.marks().clone(),
        },
        doors(server, ground.as_ref()),
    );
    if let (true, Some(name)) = (sends, session.options.congestion.clone())
        && let Err(error) = tcp_set::check_congestion(&name)
    {
        session.warn(format!("over TCP the other host sends as it usually does: {error}"));
    }
    if let Some(dscp) = refused {
        session.warn(format!(
            "the daemon does not mark its packets {dscp}: it grants df, le, cs1 and af11 to af43"
        ));
    }
    let began = clock::now();
    let newcomer = (&*owner.account, &offer);
    let outcome = welcome(server, &mut session, newcomer, (&mut place, guest)).and_then(|()| {
        server.left_out(offer.files.preserve, sends).into_iter().for_each(|line| session.warn(line));
        if let Some(control) = session.control.resumable() {
            control.allow(session.stall_timeout());
            server.absent.note(CopyKey::of(&owner.account.user.name, &offer), control);
        }
        let account = owner.account.clone();
        let share = server.throttle.as_ref().map(|throttle| throttle.join(&owner.account, sends));
        let prefix = shown_folder(&offer.operation, &inside);
        let is_pipe = matches!(inside, Operation::PushPipe { .. } | Operation::PullPipe { .. });
        session.supervision = Some(Supervision::new(owner, share, prefix, offer.files.dry_run || is_pipe));
        let (inside, step) = match inside {
            Operation::Planned { dest, step } => (Operation::Push { dest }, Some(step)),
            inside => (inside, None),
        };
        match (inside, room) {
            (Operation::Push { dest }, Some(room)) => {
                if server.accounts.give_tickets() && session.control.version() >= TICKETS_SINCE {
                    let ticket = server.tickets.give(&account.user.name, Instant::now());
                    session.ticket = Some(ticket.map_err(Error::Random)?);
                }
                let base = base_of(server, &room, dest, &account);
                let base = step.into_iter().fold(base, Base::for_step);
                take_push(server, room.access, &mut session, base, offer)
            }
            (Operation::Pull { sources }, Some(room)) => {
                give_pull(server, &room, &mut session, sources, offer)
            }
            (Operation::PushPipe { dest }, Some(room)) => {
                let base = base_of(server, &room, dest, &account);
                let is_in_place = |passed: &Passed| passed.hash.get().is_some();
                piped(&mut session, is_in_place, |session, passed| {
                    take_pipe(server, room.access, session, base, offer, passed)
                })
            }
            (Operation::PullPipe { source }, Some(room)) => {
                piped(&mut session, |_| false, |session, passed| give_pipe(&room, session, source, passed))
            }
            _ => probe::answer(&mut session),
        }
    });
    if let Some(supervision) = &mut session.supervision {
        supervision.end();
    }
    // Whoever recorded an offer can send it again.
    let is_known = session.confirmed || place.is_some();
    match &outcome {
        // Also who is in the middle of a long message is to hear that there is no memory for it.
        Ok(_) | Err(Error::Listing(ListingError::Busy)) => {
            let patience = session.stall_timeout();
            session.control.finish_heard(patience, &session.stop);
        }
        Err(error) => tell_end(session.control, error),
    }
    meter.end(outcome.is_ok());
    match outcome {
        Ok(line) => Ok(format!("{user}: {line} in {:.1} s", clock::now().since(began).as_secs_f64())),
        Err(error) => Err(Ended { user: is_known.then_some(user), error }),
    }
}

/// Have the other side know what went wrong. Most of it was told where it came about: the first word counts.
fn tell_end(control: Control, error: &Error) {
    control.send(Message::Abort(error.reason()));
    control.finish();
}

/// Where further paths of a session come in.
fn doors(server: &Server, ground: Option<&Ground>) -> Doors {
    let hosts = server.hosts.clone();
    match ground {
        Some(Ground::Daemon { board, reached }) => {
            let local = SocketAddr::new(*reached, server.udp_port);
            Doors::Daemon { board: board.clone(), local, hosts }
        }
        _ => Doors::Own { ports: server.ports.clone(), hosts },
    }
}

/// A session, before anything is known of the client but its offer.
fn begin<'a>(
    server: &Server,
    (control, mut link, waker): (Control, PeerLink, Waker),
    (offer, secret, rtt): (&Offer, &[u8; 32], Duration),
    sends: bool,
    observer: &'a mut dyn Observer,
) -> Result<Session<'a>, Ended> {
    precise_timers();
    let (marks, fireflies) = Fireflies::begin(offer, sends, server.fireflies.as_ref());
    link.set_marks(marks);
    if let Some(control) = control.resumable() {
        control.set_dscp(offer.service());
    }
    link.set_main_keys(Keys::main(secret, offer.aes && has_aes(), offer.connection_id, Side::Server));
    let mut transfer = offer.transfer.clone();
    if !server.is_ssh {
        transfer.stall_timeout_ms = transfer.stall_timeout_ms.min(STALL_MAX_MS);
    }
    let check = PathCheck::new(transfer.classes.clone(), sends, u64::from_be_bytes(random()?));
    let session = Session::new((link, control, waker), (check, transfer, rtt), server.stop.clone(), observer);
    Ok(Session { has_pipe: server.has_pipe, budget: server.budget.clone(), fireflies, ..session })
}

/// Where a user's copy goes.
fn base_of(server: &Server, room: &Room, dest: Vec<u8>, account: &Account) -> Base {
    let base = Base::new(room.root.clone(), PathBuf::from(OsString::from_vec(dest)));
    // Over ssh it is the user of this host.
    if server.accounts.of_daemon() { base.of_user(&account.user.name) } else { base }
}

/// A client's wishes about files, as far as they are granted there.
fn granted(server: &Server, access: Access, files: FileOptions) -> FileOptions {
    let files = FileOptions { preserve: server.permits(files.preserve, false), ..files };
    match access {
        // Nothing that is there may show in what comes of the copy but that a name is taken.
        Access::WriteOnly => FileOptions { new_only: true, checksum: false, delta: Delta::Never, ..files },
        _ => files,
    }
}

/// What a client names to be copied from there.
fn sources_of(paths: Vec<Vec<u8>>) -> Vec<SourceSpec> {
    let specs = paths.into_iter().map(|path| SourceSpec { path: PathBuf::from(OsString::from_vec(path)) });
    specs.collect()
}

/// Before anything is done for a client whose offer may be a replay it has shown that it is there. Then it is no stranger any
/// more.
fn welcome(
    server: &Server,
    session: &mut Session<'_>,
    (account, offer): (&Account, &Offer),
    (place, guest): (&mut Option<Place>, Option<Guest<'_>>),
) -> Result<(), Error> {
    if place.is_none() {
        await_confirmation(session)?;
        match take_place(server, account, offer) {
            Ok(taken) => *place = Some(taken),
            Err(reason) => return Err(session.abort(Error::Busy(reason))),
        }
    }
    drop(guest);
    await_vanished(server, session, &CopyKey::of(&account.user.name, offer))
}

/// An earlier session for the same copy may be one whose host has vanished. What this client says meanwhile is for later.
fn await_vanished(server: &Server, session: &mut Session<'_>, key: &CopyKey) -> Result<(), Error> {
    let (began, mut told) = (Instant::now(), false);
    serve_until(session, |session| {
        session.last_word = clock::now();
        let waiting = server.absent.awaits_vanished(key);
        if waiting == Waiting::ToSpeak && !std::mem::replace(&mut told, true) {
            session.warn(WAITS_FOR_VANISHED.into());
        }
        Ok((waiting == Waiting::Done || began.elapsed() > VANISHED_PATIENCE).then_some(()))
    })
}

fn take_push(
    server: &Server,
    access: Access,
    session: &mut Session<'_>,
    base: Base,
    offer: Offer,
) -> Result<String, Error> {
    let shown = String::from_utf8_lossy(offer.operation.dest().unwrap_or_default()).into_owned();
    let head = ListingHead { total: Some(offer.listing_len), bytes: offer.listing_head };
    let only_said = if offer.files.dry_run { "would have " } else { "" };
    let received = receive(session, base, granted(server, access, offer.files), head)?;
    let (done, failed) = (received.report.files_done, received.report.failed.count());
    let removed = match received.report.removed.count() {
        0 => String::new(),
        removed => format!(", {removed} removed"),
    };
    Ok(format!(
        "{only_said}received {} files ({} bytes) into {shown:?}, {done} new, {failed} failed{removed}",
        received.files, received.total
    ))
}

fn give_pull(
    server: &Server,
    room: &Room,
    session: &mut Session<'_>,
    sources: Vec<Vec<u8>>,
    offer: Offer,
) -> Result<String, Error> {
    let head = ListingHead { total: Some(offer.listing_len), bytes: offer.listing_head };
    let (names, _listed) = match offer.listing_len {
        0 => (None, Allowance::default()),
        _ => {
            let (names, listed) = get_expanded(session, head, listing::decode_names)?;
            (Some(names), listed)
        }
    };
    let options = ScanOptions {
        exclude: Exclude::new(&offer.files.exclude).map_err(|error| session.abort(error))?,
        files_from: names.map(|names| names.into_iter().map(|p| OsString::from_vec(p).into()).collect()),
        stop: Arc::default(),
        budget: session.budget.clone(),
        waits: session.waits.clone(),
        plan_key: None,
        preserve: server.permits(offer.files.preserve, true),
    };
    let (root, paths) = (room.root.clone(), sources_of(sources));
    let listed = on_thread(session, "list", move |over| list_first(root, paths, options, &over))?;
    let (first, lister) = listed.map_err(|error| session.abort(error))?;
    first.scan.warnings().into_iter().for_each(|line| session.warn(line));
    send_listing(session, &first.listing, first.listing.len());
    let (sent, totals) = send(session, first, lister)?;
    let (entries, failed) = (totals.entries, sent.report.failed.count());
    Ok(format!("sent {entries} entries, {} of them new, {failed} failed", sent.report.files_done))
}

/// A stream: what came of it is noted, however it ends. What is in place is no failure, whatever became of the session.
fn piped(
    session: &mut Session<'_>,
    is_in_place: impl Fn(&Passed) -> bool,
    work: impl FnOnce(&mut Session<'_>, &mut Arc<Passed>) -> Result<String, Error>,
) -> Result<String, Error> {
    let mut passed = Arc::new(Passed::default());
    let outcome = work(session, &mut passed);
    if let Some(supervision) = &mut session.supervision {
        let bytes = passed.bytes.load(Ordering::Relaxed);
        let reason = outcome.as_ref().err().filter(|_| !is_in_place(&passed)).map(Error::reason);
        supervision.piped(bytes, reason.as_ref().map_or(Ok(passed.hash.get().copied()), Err));
    }
    outcome
}

fn take_pipe(
    server: &Server,
    access: Access,
    session: &mut Session<'_>,
    base: Base,
    offer: Offer,
    passed: &mut Arc<Passed>,
) -> Result<String, Error> {
    let shown = String::from_utf8_lossy(offer.operation.dest().unwrap_or_default()).into_owned();
    let head = ListingHead { total: Some(offer.listing_len), bytes: offer.listing_head };
    let outlet = Outlet::File(base, granted(server, access, offer.files));
    let received = receive_pipe(session, outlet, head, |goes| *passed = goes)?;
    Ok(format!("received {} bytes of a pipe into {shown:?}", received.total))
}

fn give_pipe(
    room: &Room,
    session: &mut Session<'_>,
    source: Vec<u8>,
    passed: &mut Arc<Passed>,
) -> Result<String, Error> {
    let (root, path) = (room.root.clone(), PathBuf::from(OsString::from_vec(source)));
    let memory = Allowance::of(&session.budget, Purpose::Speed);
    let listed = on_thread(session, "list", move |over| {
        let tap = tap_file(&root, path, memory).map_err(Error::Empty)?;
        let goes = tap.passed();
        Ok((first_of(Lister::of_pipe(tap), &over)?, goes))
    })?;
    let ((first, lister), goes) = listed.map_err(|error: Error| session.abort(error))?;
    *passed = goes;
    send_listing(session, &first.listing, first.listing.len());
    let (_, totals) = send(session, first, lister)?;
    Ok(format!("sent {} bytes into a pipe", totals.bytes))
}

/// A client's word on how long it may be silent counts up to here, or dead ones would keep their places.
const STALL_MAX_MS: u64 = 3_600_000;
/// Said once.
const WAITS_FOR_VANISHED: &str =
    "the client of an earlier run of this copy does not answer; waiting for it to speak or be given up";
