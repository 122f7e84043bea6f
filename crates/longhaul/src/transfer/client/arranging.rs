//! A copy between two other hosts, which this one arranges: it logs in to both, finds out which of them reaches the other, and
//! gives each its part and the copy's key. What the two say to each other goes by way of this host, sealed from one to the other;
//! the data only if that was asked for.

use super::super::connect::{At, Connection, Remote, random};
use super::super::identity::copy_id;
use super::super::pace::goes_on;
use super::super::proposal::OfferFields;
use super::super::receiving::PARTING;
use super::super::session::{HEARTBEAT, Session};
use super::super::start::Reached;
use super::super::tunnel::{self, Tunnel};
use super::{Opened, Totals, meet, named, open, summarise, warn_of_what_stays};
use crate::api::{CopyOptions, Observer, Paths, Phase, Progress, Remark, Summary, Transport};
use crate::clock;
use crate::error::{Error, RequestError};
use crate::live::Reach;
use crossbeam_channel::{Receiver, Sender, unbounded};
use longhaul_proto::session::message::third_party::{
    ClientPart, OneCopyKey, Outcome, Ready, SINCE, ServerPart, Whereabouts,
};
use longhaul_proto::session::message::{CopyId, Message, Operation, PACE_SINCE};
use longhaul_proto::session::reason::{Cause, Reason};
use std::ffi::OsString;
use std::net::ToSocketAddrs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What makes no sense between two other hosts.
pub fn check(source: &Remote, dest: &Remote, options: &CopyOptions) -> Result<(), RequestError> {
    let names_carrier = matches!(options.transport, Transport::Object | Transport::Stripe)
        || options.streams.is_some()
        || options.congestion.is_some();
    if !options.bind.is_empty() || options.paths != Paths::One {
        return Err(RequestError::EndsOfBetween);
    }
    if options.fireflies.is_some() {
        return Err(RequestError::FlowsOfBetween);
    }
    match options.via_here {
        true if names_carrier => return Err(RequestError::TransportOfRelay),
        false if options.transport == Transport::Ssh => return Err(RequestError::NoSshBetween),
        _ => {}
    }
    if options.dest_token.is_some() && !matches!(dest, Remote::Daemon { .. }) {
        return Err(RequestError::NoOtherDaemon);
    }
    source.check_token(options)?;
    dest.check_token(&at_dest(options))
}

/// With the token of the host that receives.
fn at_dest(options: &CopyOptions) -> CopyOptions {
    let token = options.dest_token.clone().or_else(|| options.token.clone());
    CopyOptions { token, ..options.clone() }
}

/// Arrange a copy, and follow it to its end.
pub fn arrange(
    source: &Remote,
    sources: Vec<Vec<u8>>,
    (dest, path): (Remote, Vec<u8>),
    options: &CopyOptions,
    (observer, stop): (&mut dyn Observer, Arc<AtomicBool>),
) -> Result<Summary, Error> {
    observer.progress(&Progress::default());
    let copy = id_of((source, &sources), (&dest, &path), options);
    let (gives, takes) = (Operation::Pull { sources }, Operation::Push { dest: path });
    let (tell, told) = unbounded();
    let (mut ear, mut other_ear) = (Ear(tell.clone()), Ear(tell));
    let mut from = Side::open(source, (&gives, copy), options, (&mut ear, &stop))?;
    from.await_ready(observer)?;
    // That takes as long as to log in there.
    let asked = !options.via_here && from.ask_early(&dest);
    let mut to = Side::open(&dest, (&takes, copy), &at_dest(options), (&mut other_ear, &stop))?;
    to.await_ready(observer)?;
    let mut story = Story { observer, began: options.began.unwrap_or_else(Instant::now), told };
    let route = match options.via_here {
        true => Route { source_connects: true, transport: Transport::Ssh, no_tcp: None },
        false => find_route(&mut from, &mut to, asked, (options, &mut story))?,
    };
    tunnel::join(&from.tunnel, &to.tunnel)?;
    let (client, server, asks) = match route.source_connects {
        true => (&mut from, &mut to, takes),
        false => (&mut to, &mut from, gives),
    };
    let key = OneCopyKey(random()?);
    if let Some(live) = &options.live {
        let versions = [&mut *client, &mut *server].map(|side| side.session().control.version());
        let reach = reach(versions, route.source_connects);
        live.set_reach(reach).unwrap_or_else(|error| story.observer.warning(&goes_on(error)));
    }
    let part = ServerPart { key, relayed: options.via_here };
    server.session().control.send(Message::BeServer(part));
    let part = ClientPart { key, to: server.whereabouts(), asks, transport: route.transport };
    client.session().control.send(Message::BeClient(Box::new(part)));
    let outcome = follow(client, server, &mut story);
    from.close();
    to.close();
    let (outcome, done_at) = outcome.map_err(|error| match (error.cause(), route.no_tcp) {
        (Cause::UdpBlocked, Some([there, back])) => Error::NoWay { there, back },
        _ => error,
    })?;
    warn_of_what_stays(&outcome.report, story.observer);
    let Outcome { bytes: total, files, packet_len, .. } = outcome;
    let totals = Totals { paths: vec![], total, files, packet_len, done_at };
    Ok(summarise(options, outcome.report, outcome.status, totals))
}

/// The same for each run of the same command.
fn id_of(
    (source, sources): (&Remote, &[Vec<u8>]),
    (dest, path): (&Remote, &[u8]),
    options: &CopyOptions,
) -> CopyId {
    let place = |host: &Remote, path: &[u8]| {
        PathBuf::from(OsString::from_vec([b"/", shown(host).as_bytes(), b":", path].concat()))
    };
    let places = sources.iter().map(|path| place(source, path)).chain([place(dest, path)]);
    copy_id(&places.collect::<Vec<_>>(), options)
}

/// As a host is named in what is told of it.
fn shown(remote: &Remote) -> String {
    remote.daemon_name().unwrap_or_else(|| remote.name().into())
}

/// What the two can be told while they copy, with these versions of the one that is the client and of the other one.
fn reach([client, server]: [u8; 2], client_sends: bool) -> Reach {
    match client >= PACE_SINCE {
        false => Reach::Nothing,
        true if client_sends || server >= PACE_SINCE => Reach::All,
        true => Reach::Slower,
    }
}

/// How the two come together.
struct Route {
    source_connects: bool,
    transport: Transport,
    /// No TCP connection comes about: why not, from the source's host and to it.
    no_tcp: Option<[String; 2]>,
}

/// Find out which of the two reaches the other.
fn find_route(
    from: &mut Side<'_>,
    to: &mut Side<'_>,
    asked: bool,
    (options, story): (&CopyOptions, &mut Story<'_>),
) -> Result<Route, Error> {
    let (source, dest) = (from.host.clone(), to.host.clone());
    let route = |source_connects| Route { source_connects, transport: options.transport, no_tcp: None };
    if !asked {
        from.ask(to.whereabouts());
    }
    let Some(there) = from.why_not(story)? else {
        story.remark(format!("{source} connects to {dest}"));
        return Ok(route(true));
    };
    to.ask(from.whereabouts());
    let Some(back) = to.why_not(story)? else {
        story.remark(format!("{source} does not connect to {dest} ({there}); {dest} connects to {source}"));
        return Ok(route(false));
    };
    let connects = [from.ready.connects, to.ready.connects];
    if connects == [false; 2] {
        return Err(Error::NobodyConnects);
    }
    if !options.transport.allows_udp() {
        return Err(Error::NoWay { there, back });
    }
    story.remark(format!("no TCP connection comes about between {source} and {dest}; UDP may yet pass"));
    let no_tcp = Some([there, back]);
    Ok(Route { source_connects: connects[0], transport: Transport::Object, no_tcp })
}

/// What the user is told.
struct Story<'a> {
    observer: &'a mut dyn Observer,
    began: Instant,
    /// What both hosts want him to know.
    told: Receiver<String>,
}

impl Story<'_> {
    fn remark(&mut self, text: String) {
        self.observer.remark(Remark { at_seconds: self.began.elapsed().as_secs_f64(), text });
    }

    fn pass_on(&mut self) {
        self.told.try_iter().for_each(|line| self.observer.warning(&line));
    }
}

/// Hears what a host wants the user to know.
struct Ear(Sender<String>);

impl Observer for Ear {
    fn warning(&mut self, line: &str) {
        // The other half lives as long as the copy.
        let _ = self.0.send(line.into());
    }

    fn remark(&mut self, remark: Remark) {
        tracing::debug!("{}", remark.text);
    }
}

/// One of the two hosts.
struct Side<'a> {
    host: String,
    opened: Opened<'a>,
    tunnel: Tunnel,
    ready: Ready,
    /// Where it is as this host knows it.
    known: At,
}

impl<'a> Side<'a> {
    /// Log in there and ask for this.
    fn open(
        remote: &Remote,
        (operation, copy): (&Operation, CopyId),
        options: &CopyOptions,
        (ear, stop): (&'a mut dyn Observer, &Arc<AtomicBool>),
    ) -> Result<Side<'a>, Error> {
        let host = shown(remote);
        let (opened, known) =
            log_in(remote, (operation, copy), options, (ear, stop)).map_err(|error| at(&host, error))?;
        let tunnel = Tunnel::open(&opened.session.control)?;
        Ok(Side { host, opened, tunnel, ready: Ready { at: Whereabouts::default(), connects: false }, known })
    }

    fn session(&mut self) -> &mut Session<'a> {
        &mut self.opened.session
    }

    /// What it says next, if it has said anything.
    fn next(&mut self) -> Result<Option<Message>, Error> {
        let was_heard = self.tunnel.was_heard();
        let session = self.session();
        session.begin_turn()?;
        if was_heard {
            session.last_word = clock::now();
        }
        let message = session.poll_message()?;
        session.check_silence(session.last_word)?;
        Ok(message)
    }

    /// Wait for an answer.
    fn await_answer<T>(
        &mut self,
        observer: &mut dyn Observer,
        wanted: impl Fn(Message) -> Option<T>,
    ) -> Result<T, Error> {
        loop {
            while let Some(message) = self.next().map_err(|error| at(&self.host, error))? {
                if let Some(answer) = wanted(message) {
                    return Ok(answer);
                }
            }
            observer.progress(&Progress { phase: Phase::Connecting, ..Progress::default() });
            self.session().waker.wait_many(vec![], HEARTBEAT)?;
        }
    }

    fn await_ready(&mut self, observer: &mut dyn Observer) -> Result<(), Error> {
        self.ready = self.await_answer(observer, |message| match message {
            Message::Ready(ready) => Some(ready),
            _ => None,
        })?;
        Ok(())
    }

    /// Have it look whether it reaches the other host.
    fn ask(&mut self, to: Whereabouts) {
        if self.ready.connects {
            self.session().control.send(Message::Reach(to));
        }
    }

    /// The same before this host has reached that one, if it is known by its name alone where that is.
    fn ask_early(&mut self, other: &Remote) -> bool {
        let Remote::Daemon { host, port } = other else { return false };
        let found = (host.as_str(), *port).to_socket_addrs().into_iter().flatten();
        let hosts = found.map(|address| address.ip()).collect();
        self.ask(Whereabouts { hosts, name: Some(host.clone()), port: *port });
        true
    }

    /// Why no connection from it to the other host comes about, if none does, as it was asked.
    fn why_not(&mut self, story: &mut Story<'_>) -> Result<Option<String>, Error> {
        if !self.ready.connects {
            return Ok(Some(format!("{} connects to no host that a user names", self.host)));
        }
        self.await_answer(story.observer, |message| match message {
            Message::Reached(why_not) => Some(why_not),
            _ => None,
        })
    }

    /// Where the other host may find this one.
    fn whereabouts(&self) -> Whereabouts {
        let mut hosts = self.ready.at.hosts.clone();
        hosts.extend(self.known.hosts.iter().filter(|host| !self.ready.at.hosts.contains(host)));
        Whereabouts { hosts, name: self.known.name.clone(), port: self.ready.at.port }
    }

    fn close(self) {
        self.tunnel.close();
        self.opened.close();
    }
}

/// Reach a host and ask for this; and where it is found to be.
fn log_in<'a>(
    remote: &Remote,
    (operation, copy): (&Operation, CopyId),
    options: &CopyOptions,
    (ear, stop): (&'a mut dyn Observer, &Arc<AtomicBool>),
) -> Result<(Opened<'a>, At), Error> {
    let reached = meet(remote, options, stop)?;
    let known = match &reached {
        Reached::Connected(connection, _) => known(remote, connection),
        Reached::Connecting(_) => At::default(),
    };
    let listing = named(options)?;
    let fields = OfferFields {
        operation: operation.clone(),
        copy,
        listing: &listing,
        sends: false,
        ticket: None,
        third_party: true,
    };
    let opened = open(reached, &fields, None, options, (ear, stop.clone()))?;
    match opened.session.control.version() >= SINCE {
        true => Ok((opened, known)),
        false => Err(opened.session.abort(Error::TooOld)),
    }
}

fn at(host: &str, error: Error) -> Error {
    match error {
        Error::Interrupted => Error::Interrupted,
        // These name the host.
        Error::Ssh(_) | Error::UnknownHost { .. } | Error::NoAddress { .. } | Error::Unreachable { .. } => {
            error
        }
        error => Error::At { host: host.into(), source: Box::new(error) },
    }
}

fn known(remote: &Remote, connection: &Connection) -> At {
    match connection.udp {
        Some(address) => At { hosts: vec![address.ip()], name: Some(remote.name().into()), ..At::default() },
        None => connection.at.clone(),
    }
}

/// Follow the copy until both hosts are through. Its outcome, and when that was known.
fn follow(
    client: &mut Side<'_>,
    server: &mut Side<'_>,
    story: &mut Story<'_>,
) -> Result<(Outcome, Instant), Error> {
    let (mut outcome, mut server_left) = (None, None);
    loop {
        story.pass_on();
        loop {
            match client.next() {
                Ok(None) => break,
                Ok(Some(Message::Progress(progress))) => story.observer.progress(&progress),
                Ok(Some(Message::Remark(text))) => story.remark(text),
                Ok(Some(Message::Copied(copied))) => outcome = Some((*copied, Instant::now())),
                Ok(Some(_)) => {}
                Err(error) => {
                    story.pass_on();
                    // What the other host has to say to this comes too late.
                    return outcome.ok_or(error);
                }
            }
        }
        if server_left.is_none() {
            server_left = hear_server(server)?;
        }
        match (&server_left, outcome.take()) {
            (Some(_), Some(copied)) => return Ok(copied),
            (Some((error, at)), None) if at.elapsed() > LAST_WORD_PATIENCE => {
                return Err(match error {
                    Some(reason) => Error::Peer(reason.clone()),
                    None => Error::PeerLeft,
                });
            }
            (_, none_yet) => outcome = none_yet,
        }
        client.session().tell_pace();
        client.session().waker.wait_many(vec![], HEARTBEAT)?;
    }
}

type Left = (Option<Reason>, Instant);

/// Whether the host that is the server has left, and what it said last.
fn hear_server(server: &mut Side<'_>) -> Result<Option<Left>, Error> {
    loop {
        match server.next() {
            Ok(None) => return Ok(None),
            Ok(Some(_)) => {}
            Err(Error::PeerLeft) => return Ok(Some((None, Instant::now()))),
            Err(Error::Peer(reason)) => return Ok(Some((Some(reason), Instant::now()))),
            Err(error) => return Err(error),
        }
    }
}

/// When one host has left, the other one says what came of it, once it has waited in vain for a last word.
const LAST_WORD_PATIENCE: Duration = PARTING.saturating_mul(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_sends_has_to_understand_and_whoever_is_told() {
        let (old, new) = (PACE_SINCE - 1, PACE_SINCE);
        for client_sends in [true, false] {
            assert_eq!(reach([new, new], client_sends), Reach::All);
            assert_eq!(reach([old, new], client_sends), Reach::Nothing);
        }
        assert_eq!(reach([new, old], true), Reach::All);
        assert_eq!(reach([new, old], false), Reach::Slower);
    }
}
