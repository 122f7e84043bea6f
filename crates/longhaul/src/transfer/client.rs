//! The side that was told to copy.

mod arranging;
mod summary;

use self::summary::{Totals, summarise};
use super::connect::{Remote, connect};
use super::first_flight::{FirstFlight, Met, tickets_file};
use super::identity::copy_id;
use super::pace::goes_on;
use super::proposal::{Agreed, OfferFields, Proposal};
use super::receiving::{ListingHead, Received, receive, receive_pipe};
use super::rejoin::{self, Rejoin};
use super::sending::{Sent, send, send_listing};
use super::session::Session;
use super::side_paths::{Common, SidePaths, Ways};
use super::ssh;
use super::start::{Listing, Reached, first_of, list, reach_and_list};
use super::udp_handshake;
use crate::api::{CopyOptions, Location, Observer, Progress, Summary, Transport};
use crate::daemon::tickets::TICKET_LIFE;
use crate::error::{Error, RequestError};
use crate::files::{Base, Exclude, Listed, Lister, Outlet, Root, Tap, goes_into_folder};
use crate::history;
use crate::listing;
use crate::live::Reach;
use crate::net::budget::Allowance;
use crate::net::control::Control;
use crate::net::flow_label;
use crate::net::seal::{Keys, Side};
use crate::net::tcp_set::{StreamOpener, StreamOpenerConfig, check_congestion, control_key, stream_key};
use crate::net::wake::{Waker, precise_timers};
use longhaul_proto::session::message::several;
use longhaul_proto::session::message::{CopyId, Delta, Message, Operation, PACE_SINCE, Pace, Report};
use longhaul_proto::wire;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Copy files between this host and another.
pub fn copy(
    sources: &[Location],
    dest: &Location,
    options: &CopyOptions,
    observer: &mut dyn Observer,
    stop: Arc<AtomicBool>,
) -> Result<Summary, Error> {
    let request = CopyRequest::plan(sources, dest, options)?;
    let options = &begun(options);
    precise_timers();
    let stopped = stop.clone();
    let outcome = match request.kind {
        CopyKind::Push { sources } => {
            let dest = request.far.into_iter().next_back().unwrap_or_default();
            let copy = copy_id(&sources, options);
            let offered = Offered { operation: Operation::Push { dest }, copy };
            push(&request.remote, offered, |over| list(&sources, options, over), options, observer, stop)
        }
        CopyKind::Pull { dest } => {
            let listing = named(options)?;
            let asked = Asked {
                operation: Operation::Pull { sources: request.far },
                copy: copy_id(&[&dest], options),
                listing: &listing,
            };
            let base = Base::new(Root::ambient(), dest);
            let take = |session: &mut Session<'_>, head| receive(session, base, options.files.clone(), head);
            pull(&request.remote, asked, take, options, (observer, stop))
        }
        CopyKind::FromPipe => {
            let dest = request.far.into_iter().next_back().unwrap_or_default();
            let offered =
                Offered { operation: Operation::PushPipe { dest }, copy: copy_id(&[PIPE], options) };
            let list = |over: &AtomicBool| {
                let tap = Tap::standard_input(Allowance::default())?;
                first_of(Lister::of_pipe(tap), over)
            };
            push(&request.remote, offered, list, options, observer, stop)
        }
        CopyKind::IntoPipe => {
            let source = request.far.into_iter().next().unwrap_or_default();
            let (operation, copy) = (Operation::PullPipe { source }, copy_id(&[PIPE], options));
            let take =
                |session: &mut Session<'_>, head| receive_pipe(session, Outlet::StandardOutput, head, |_| {});
            pull(&request.remote, Asked { operation, copy, listing: &[] }, take, options, (observer, stop))
        }
        CopyKind::Between { dest } => {
            arranging::arrange(&request.remote, request.far, dest, options, (observer, stop))
        }
    };
    outcome.map_err(|error| error.unless_stopped(&stopped))
}

/// With a moment from which seconds count.
pub fn begun(options: &CopyOptions) -> CopyOptions {
    CopyOptions { began: Some(options.began.unwrap_or_else(Instant::now)), ..options.clone() }
}

enum CopyKind {
    Push {
        sources: Vec<PathBuf>,
    },
    Pull {
        dest: PathBuf,
    },
    /// Standard input into a file there.
    FromPipe,
    /// A file from there to standard output.
    IntoPipe,
    Between {
        dest: (Remote, Vec<u8>),
    },
}

struct CopyRequest {
    remote: Remote,
    /// Paths over there.
    far: Vec<Vec<u8>>,
    kind: CopyKind,
}

/// The other host and the path there; `Err` with the path if it is on this host.
pub fn split(location: &Location) -> Result<(Remote, Vec<u8>), PathBuf> {
    match location {
        Location::Local(path) => Err(path.clone()),
        Location::Pipe => Err(PIPE.into()),
        Location::Ssh { host, path } => Ok((Remote::Ssh { host: host.clone() }, path.clone())),
        Location::Daemon { host, port, path } => {
            Ok((Remote::Daemon { host: host.clone(), port: *port }, path.clone()))
        }
    }
}

/// The same with a slash at its end, which says that it is a folder.
fn as_folder(location: &Location) -> Location {
    let mut location = location.clone();
    match &mut location {
        Location::Local(path) => path.push(""),
        Location::Pipe => {}
        Location::Ssh { path, .. } | Location::Daemon { path, .. } => {
            if path.last().is_some_and(|last| *last != b'/') {
                path.push(b'/');
            }
        }
    }
    location
}

impl CopyRequest {
    /// Sort out which side is where.
    fn plan(
        sources: &[Location],
        dest: &Location,
        options: &CopyOptions,
    ) -> Result<CopyRequest, RequestError> {
        check_options(options)?;
        let folder = goes_into_folder(sources.len(), options.files_from.as_deref()).then(|| as_folder(dest));
        let dest = folder.as_ref().unwrap_or(dest);
        let is_pipe = |location: &Location| matches!(location, Location::Pipe);
        let request = match split(dest) {
            _ if is_pipe(dest) || sources.iter().any(is_pipe) => {
                CopyRequest::of_pipe(sources, dest, options)?
            }
            Ok((remote, path)) => match sources.iter().map(|s| split(s).err()).collect() {
                Some(sources) => CopyRequest { remote, far: vec![path], kind: CopyKind::Push { sources } },
                None => CopyRequest::of_sources(sources, CopyKind::Between { dest: (remote, path) })?,
            },
            Err(dest) => CopyRequest::of_sources(sources, CopyKind::Pull { dest })?,
        };
        if let CopyKind::Between { dest: (dest, _) } = &request.kind {
            arranging::check(&request.remote, dest, options)?;
            return Ok(request);
        }
        if options.via_here {
            return Err(RequestError::NothingToRelay);
        }
        if options.dest_token.is_some() {
            return Err(RequestError::NoOtherDaemon);
        }
        let sends = matches!(request.kind, CopyKind::Push { .. } | CopyKind::FromPipe);
        check_remote(&request.remote, sends, options)?;
        Ok(request)
    }

    /// Of which one side is a pipe.
    fn of_pipe(
        sources: &[Location],
        dest: &Location,
        options: &CopyOptions,
    ) -> Result<CopyRequest, RequestError> {
        let [source] = sources else { return Err(RequestError::PipeAndFiles) };
        let files = &options.files;
        let unfit = [
            ("delete", files.delete),
            ("dry_run", files.dry_run),
            ("checksum", files.checksum),
            ("delta", files.delta == Delta::Always),
            ("exclude", !files.exclude.is_empty()),
            ("files_from", options.files_from.is_some()),
            ("hard_links", files.preserve.hard_links),
            ("xattrs", files.preserve.xattrs),
            ("acls", files.preserve.acls),
            ("owner", files.preserve.owner),
            ("group", files.preserve.group),
            ("devices", files.preserve.devices),
            ("specials", files.preserve.specials),
        ];
        if let Some((option, _)) = unfit.into_iter().find(|(_, is_given)| *is_given) {
            return Err(RequestError::NotWithPipe(option));
        }
        match (split(source), split(dest)) {
            (Err(_), Ok((remote, path))) => {
                Ok(CopyRequest { remote, far: vec![path], kind: CopyKind::FromPipe })
            }
            (Ok((remote, path)), Err(_)) => {
                Ok(CopyRequest { remote, far: vec![path], kind: CopyKind::IntoPipe })
            }
            _ => Err(RequestError::BothLocal),
        }
    }

    /// Of sources on one other host.
    fn of_sources(sources: &[Location], kind: CopyKind) -> Result<CopyRequest, RequestError> {
        let far = sources.iter().map(|s| split(s).ok()).collect::<Option<Vec<_>>>();
        let far = far.ok_or(match kind {
            CopyKind::Between { .. } => RequestError::SourcesHereAndThere,
            _ => RequestError::BothLocal,
        })?;
        let remote = far.first().ok_or(RequestError::NoSource)?.0.clone();
        if far.iter().any(|(other, _)| *other != remote) {
            return Err(RequestError::SeveralHosts);
        }
        Ok(CopyRequest { remote, far: far.into_iter().map(|(_, path)| path).collect(), kind })
    }
}

/// Whether a push to another host can be asked for so.
pub fn check_push(remote: &Remote, options: &CopyOptions) -> Result<(), RequestError> {
    check_options(options)?;
    check_remote(remote, true, options)
}

/// Whether other hosts can be asked for such a push there. What only they have, such as a token, they may not have yet.
pub fn check_later_push(remote: &Remote, options: &CopyOptions) -> Result<(), RequestError> {
    check_options(options)?;
    check_transport(remote, options)
}

fn check_transport(remote: &Remote, options: &CopyOptions) -> Result<(), RequestError> {
    if matches!(remote, Remote::Daemon { .. }) && options.transport == Transport::Ssh {
        return Err(RequestError::NoSsh);
    }
    Ok(())
}

fn check_remote(remote: &Remote, sends: bool, options: &CopyOptions) -> Result<(), RequestError> {
    check_transport(remote, options)?;
    if let (true, Some(name)) = (sends, &options.congestion) {
        check_congestion(name).map_err(RequestError::Congestion)?;
    }
    remote.check_token(options)
}

fn check_options(options: &CopyOptions) -> Result<(), RequestError> {
    Exclude::new(&options.files.exclude)?;
    if options.control.needs_rate() && options.rate_now().is_none() {
        return Err(RequestError::NeedsRate(options.control));
    }
    if options.background && !options.control.yields() {
        return Err(RequestError::NeverYields(options.control));
    }
    if options.files.delete && options.files_from.is_some() {
        return Err(RequestError::DeleteWithList);
    }
    check_streams(options)?;
    let sizes = wire::MIN_DATAGRAM_LEN..=wire::MAX_DATAGRAM_LEN;
    if options.packet_size.is_some_and(|size| !sizes.contains(&size)) {
        return Err(RequestError::PacketSize);
    }
    if options.ssh_command.is_empty() {
        return Err(RequestError::NoSshCommand);
    }
    Ok(())
}

/// What is said of TCP connections needs some.
fn check_streams(options: &CopyOptions) -> Result<(), RequestError> {
    let transport = options.transport;
    let is_number = options.streams.is_some();
    let is_idle = matches!(transport, Transport::Object | Transport::Ssh);
    if is_idle && (is_number || options.congestion.is_some()) {
        return Err(RequestError::NoTcp { transport, is_number });
    }
    Ok(())
}

/// As it is written.
const PIPE: &str = "-";
/// A connection without a handshake is so old after this that the daemon may have closed it.
const PATIENCE_OF_DAEMONS: Duration = Duration::from_secs(5);

/// The open session and what must live as long.
pub struct Opened<'a> {
    /// The session.
    pub session: Session<'a>,
    far: Option<ssh::FarSide>,
}

impl Opened<'_> {
    /// Let all that was said go out, and end it.
    pub fn close(self) {
        self.session.control.finish();
        drop(self.far);
    }
}

/// Shake hands. What of the listing did not fit the offer follows it.
pub fn open<'a>(
    reached: Reached,
    fields: &OfferFields<'_>,
    mut first_flight: Option<FirstFlight>,
    options: &CopyOptions,
    (observer, stop): (&'a mut dyn Observer, Arc<AtomicBool>),
) -> Result<Opened<'a>, Error> {
    let mut proposal = Proposal::new(fields, options)?;
    let mut agreed = match reached {
        Reached::Connected(connection, _) => proposal.over(*connection, options, Waker::new()?, None)?,
        Reached::Connecting(connecting) => {
            let first = first_flight.as_mut();
            udp_handshake::shake_hands(&mut proposal, connecting, first, options, (observer, &stop))?
        }
    };
    let (dscp, label) = (proposal.marks.dscp, proposal.marks.scitag);
    let (transfer, connection_id) = (proposal.offer.transfer, proposal.offer.connection_id);
    let common = Common {
        secret: agreed.secret,
        aes: agreed.aes,
        classes: transfer.classes.clone(),
        sends: fields.sends,
        marks: proposal.marks,
    };
    agreed.link.answered(&agreed.secret);
    agreed.link.set_main_keys(Keys::main(&agreed.secret, agreed.aes, connection_id, Side::Client));
    let Agreed {
        mut link,
        control,
        waker,
        honours_ticket,
        secret,
        rtt,
        addresses,
        far,
        has_pipe,
        connecting,
        ..
    } = agreed;
    let is_early = connecting.is_some();
    let sent_before = first_flight.as_ref().map(|first| first.packets_sent());
    confirm(&control);
    let key = stream_key(&secret, connection_id);
    // Who only receives sends nothing by it.
    let congestion = transfer.congestion.clone().filter(|_| fields.sends);
    let local = options.bind.first().cloned();
    let ways: Ways = Arc::new(Mutex::new(addresses.iter().map(|to| (local.clone(), *to)).collect()));
    if let Some(control) = control.resumable() {
        control.set_dscp(dscp);
        let patience = Duration::from_millis(transfer.stall_timeout_ms.max(1000));
        let key = control_key(&secret, connection_id);
        rejoin::keep(control, Rejoin { ways: ways.clone(), connection_id, key }, connecting, patience)?;
    }
    let needs_label = addresses.iter().any(|to| to.ip().to_canonical().is_ipv6());
    let opener = StreamOpener::new(
        StreamOpenerConfig { addresses, connection_id, key, congestion, local, label },
        link.streams().acceptor(),
        waker.clone(),
    );
    let session = Session {
        began: options.began.unwrap_or_else(Instant::now),
        opener: Some(opener),
        has_pipe,
        // The server has shown that it is there.
        confirmed: true,
        live: options.live.clone(),
        pace_told: Pace { rate: transfer.rate_cap, paused: false },
        shared_rate: options.shared_rate.clone(),
        first_flight: first_flight.filter(|_| honours_ticket),
        fireflies: proposal.fireflies,
        ..Session::new((link, control, waker), (proposal.check, transfer, rtt), stop, observer)
    };
    let mut opened = Opened { session, far };
    // An arranger does not yet know which end it tells.
    if let Some(live) = options.live.as_ref().filter(|_| !fields.third_party) {
        let is_told = fields.sends || opened.session.control.version() >= PACE_SINCE;
        let reach = if is_told { Reach::All } else { Reach::Slower };
        live.set_reach(reach).unwrap_or_else(|error| opened.session.warn(goes_on(error)));
    }
    if opened.session.control.version() >= several::SINCE
        && let Some((paths, want)) = SidePaths::of_client(common, &opened.session.link, ways, options)
    {
        opened.session.paths = paths;
        opened.session.control.send(Message::WantPaths(want));
    }
    if let Some(far) = &opened.far {
        let story = far.story.clone();
        opened.session.remark(story);
    }
    if is_early {
        opened.session.remark("the daemon answered over UDP; nothing waits for the TCP connection".into());
    }
    if let Some(sent) = sent_before {
        let fate =
            if honours_ticket { "" } else { ", in vain: the daemon does not know the ticket any more" };
        opened.session.remark(format!("{sent} packets went together with the offer{fate}"));
    }
    if let (true, Err(error)) = (needs_label, label.map_or(Ok(()), |_| flow_label::check())) {
        opened.session.remark(format!("the kernel puts no SciTag into the flow label of packets: {error}"));
    }
    send_listing(&opened.session, &fields.listing[proposal.head_len..], fields.listing.len());
    Ok(opened)
}

/// The first message under the session's keys shows the server that our offer was not replayed by somebody.
fn confirm(control: &Control) {
    control.send(Message::KeepAlive { taken: 0 });
}

/// Reach the other host, with nothing else to do meanwhile.
pub fn meet(remote: &Remote, options: &CopyOptions, stop: &Arc<AtomicBool>) -> Result<Reached, Error> {
    let met = connect(remote, options, std::slice::from_ref(stop), |_| {})?;
    Ok(Reached::Connected(Box::new(met), Instant::now()))
}

/// What a push is, beside its files.
pub struct Offered {
    /// What is asked of the other side.
    pub operation: Operation,
    /// Which copy it is.
    pub copy: CopyId,
}

/// Send what `list` lists.
pub fn push(
    remote: &Remote,
    offered: Offered,
    list: impl FnOnce(&AtomicBool) -> Result<Listing, Error> + Send,
    options: &CopyOptions,
    observer: &mut dyn Observer,
    stop: Arc<AtomicBool>,
) -> Result<Summary, Error> {
    let may_overtake = |first: &Listed| udp_handshake::is_possible(remote, options, &first.listing);
    let (mut reached, (first, lister)) =
        reach_and_list(remote, list, options, observer, &stop, may_overtake)?;
    first.scan.warnings().iter().for_each(|line| observer.warning(line));
    if let (Remote::Daemon { .. }, Reached::Connected(_, at)) = (remote, &reached)
        && at.elapsed() >= PATIENCE_OF_DAEMONS
    {
        // It does not wait so long for somebody who says nothing.
        reached = meet(remote, options, &stop)?;
    }
    let Offered { operation, copy } = offered;
    let met = options.history.as_deref().zip(remote.daemon_name());
    let first_flight = match (&reached, &met) {
        (Reached::Connecting(connecting), Some((history, daemon))) if first.stretch.is_none() => {
            let met: Option<Met> = history::take(&tickets_file(history), daemon, TICKET_LIFE);
            met.and_then(|met| FirstFlight::plan(&met, &first, options, connecting.waker.to_call()))
        }
        _ => None,
    };
    let fields = OfferFields {
        operation,
        copy,
        listing: &first.listing,
        sends: true,
        ticket: first_flight.as_ref().map(FirstFlight::ticket),
        third_party: false,
    };
    let mut opened = open(reached, &fields, first_flight, options, (observer, stop))?;
    let host = remote.name();
    opened.session.remembered = options.history.as_deref().and_then(|file| history::recall(file, host));
    let outcome = send(&mut opened.session, first, lister);
    let packet_len =
        outcome.as_ref().map_or(0, |(sent, _)| opened.session.link.packet_len(sent.datagram_len));
    let ticket = opened.session.ticket;
    let paths = std::mem::take(&mut opened.session.path_status);
    opened.close();
    let (Sent { report, status, learnt, bandwidth, datagram_len }, totals) = outcome?;
    warn_of_what_stays(&report, observer);
    if let (Some((history, daemon)), Some(ticket), Some(bandwidth)) = (met, ticket, bandwidth) {
        let rtt_us = status.rtt_ns[0] / 1000;
        history::note(&tickets_file(history), &daemon, Met { ticket, bandwidth, rtt_us, datagram_len });
    }
    if let (Some(file), Some(found)) = (&options.history, learnt) {
        history::note(file, host, found);
    }
    Ok(summarise(
        options,
        report,
        status,
        Totals { paths, total: totals.bytes, files: totals.files, packet_len, done_at: Instant::now() },
    ))
}

/// What a pull is.
struct Asked<'a> {
    operation: Operation,
    /// Which copy it is.
    copy: CopyId,
    /// The names of the files wanted, if not all are.
    listing: &'a [u8],
}

/// Fetch what `take` takes.
fn pull(
    remote: &Remote,
    Asked { operation, copy, listing }: Asked<'_>,
    take: impl FnOnce(&mut Session<'_>, ListingHead) -> Result<Received, Error>,
    options: &CopyOptions,
    (observer, stop): (&mut dyn Observer, Arc<AtomicBool>),
) -> Result<Summary, Error> {
    observer.progress(&Progress::default());
    let reached = meet(remote, options, &stop)?;
    let fields = OfferFields { operation, copy, listing, sends: false, ticket: None, third_party: false };
    let mut opened = open(reached, &fields, None, options, (observer, stop))?;
    let outcome = take(&mut opened.session, ListingHead { total: None, bytes: vec![] });
    let packet_len = outcome.as_ref().map_or(0, |got| opened.session.link.packet_len(got.datagram_len));
    let paths = std::mem::take(&mut opened.session.path_status);
    opened.close();
    let Received { report, status, total, files, .. } = outcome?;
    warn_of_what_stays(&report, observer);
    let done_at = Instant::now();
    Ok(summarise(options, report, status, Totals { paths, total, files, packet_len, done_at }))
}

/// The names of the files wanted, if not all are, as the other side is told them.
pub fn named(options: &CopyOptions) -> Result<Vec<u8>, Error> {
    let names = options.files_from.as_ref().map(|names| {
        let bytes = names.iter().map(|name| name.as_os_str().as_bytes().to_vec());
        listing::encode_names(&bytes.collect::<Vec<_>>())
    });
    Ok(names.transpose()?.unwrap_or_default())
}

/// Who has extraneous files deleted expects a copy that equals its source.
fn warn_of_what_stays(report: &Report, observer: &mut dyn Observer) {
    if report.removal_put_off {
        observer.warning(
            "nothing is removed at the destination, because not everything can be copied; see to what failed and run the \
             same command again",
        );
    }
}
