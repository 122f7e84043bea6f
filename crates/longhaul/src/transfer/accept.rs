//! How a client is let in: who it is, what it may do, and where its copy goes.

use super::absent::{Absent, CopyKey};
use super::connect::random;
use super::replays::{Moment, Replays};
use crate::api::Collector;
use crate::daemon::admission::{Account, Admission, Room};
use crate::daemon::places::{Place, Places};
use crate::daemon::policy::{Access, User};
use crate::daemon::records::{Event, Records, Way};
use crate::daemon::supervision::SessionOwner;
use crate::daemon::throttle::Throttle;
use crate::daemon::tickets::Tickets;
use crate::error::Error;
use crate::net::aead::has_aes;
use crate::net::budget::Budget;
use crate::net::control::{self, Control, ServerKey, Stream, TokenId};
use crate::net::seal::Keys;
use crate::net::wake::Waker;
use longhaul_proto::session::attributes::Preserve;
use longhaul_proto::session::message::{Answer, FileOptions, Offer, Operation, TransferOptions};
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::wire;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What every session of a server shares.
pub struct Server {
    pub accounts: Accounts,
    pub throttle: Option<Arc<Throttle>>,
    pub places: Arc<Places>,
    pub budget: Arc<Budget>,
    /// Sessions that may wait for their clients.
    pub absent: Absent,
    pub records: Arc<dyn Records>,
    pub udp_port: u16,
    /// Where the sockets of sessions are bound.
    pub udp_ip: IpAddr,
    pub udp_hosts: Vec<IpAddr>,
    /// Where it is reached in all, for clients that look for further paths.
    pub hosts: Vec<IpAddr>,
    /// UDP ports that an agent may use.
    pub ports: Option<RangeInclusive<u16>>,
    /// Who comes is the user of this host, by ssh.
    pub is_ssh: bool,
    /// The control streams may carry the data.
    pub has_pipe: bool,
    /// Whether it connects to hosts that its clients name, for copies between it and those.
    pub connects: bool,
    /// Whether it keeps owners, devices and all else that takes privileges.
    pub may_set_all: bool,
    /// Is told of flows.
    pub fireflies: Option<Collector>,
    /// Why no offer can be accepted.
    pub unable: Option<Reason>,
    /// Which offers came for the first time.
    pub replays: Replays,
    /// What lets clients send data sooner the next time.
    pub tickets: Tickets,
    pub stop: Arc<AtomicBool>,
}

impl Server {
    /// What is done for its clients of all that they ask to have kept. To tell of owners and devices takes no privileges.
    pub fn permits(&self, asked: Preserve, sends: bool) -> Preserve {
        match sends {
            _ if self.may_set_all || !asked.is_any() => asked,
            true => Preserve { confined: true, ..asked },
            false => asked.confine(),
        }
    }

    /// What a client asks for and does not get, as a line.
    pub fn left_out(&self, asked: Preserve, sends: bool) -> Option<String> {
        let Preserve { owner, group, devices, specials, xattrs, .. } = asked;
        let (is_asked, line) = match sends {
            true => (xattrs, "the server tells no attributes of the system, for want of --allow-super"),
            false => (
                owner || group || devices || specials,
                "the server keeps no owners, devices, set-user-ID bits or attributes of the system, for want of --allow-super",
            ),
        };
        (is_asked && self.permits(asked, sends) != asked).then(|| line.into())
    }
}

/// Who may come in.
pub enum Accounts {
    /// Whoever the daemon's policy lets in.
    Daemon(Admission),
    /// Who logged in by ssh.
    Login(Arc<Account>),
    /// The other end of a copy that was arranged.
    Arranged(Arc<Account>, Terms),
}

/// What was arranged.
pub struct Terms {
    /// What this side does.
    pub operation: Operation,
    /// About the files.
    pub files: FileOptions,
    /// This side is a daemon.
    pub is_daemon: bool,
    /// All that is received is to be on the disk.
    pub syncs_all: bool,
}

impl Terms {
    fn fit(&self, offer: &Offer) -> bool {
        !offer.third_party && offer.operation == self.operation && offer.files == self.files
    }
}

impl Accounts {
    /// Who comes with this token's id, or without one, and what to answer with.
    fn find(&self, id: Option<TokenId>) -> (ServerKey, Option<Arc<Account>>) {
        match self {
            Accounts::Daemon(admission) => admission.rules().find(id),
            Accounts::Login(account) | Accounts::Arranged(account, _) => {
                (account.psk.into(), Some(account.clone()))
            }
        }
    }

    /// Whether all that is received is to be on the disk before it is reported, asked for or not.
    pub fn syncs_all(&self) -> bool {
        match self {
            Accounts::Daemon(admission) => admission.rules().policy().fsync,
            Accounts::Login(_) => false,
            Accounts::Arranged(_, terms) => terms.syncs_all,
        }
    }

    /// Whether keys are good for this one session.
    fn are_new(&self) -> bool {
        !matches!(self, Accounts::Daemon(_))
    }

    /// Whether these are users of a daemon, who are no users of this host.
    pub fn of_daemon(&self) -> bool {
        match self {
            Accounts::Daemon(_) => true,
            Accounts::Login(_) => false,
            Accounts::Arranged(_, terms) => terms.is_daemon,
        }
    }

    /// Whether a client may have what its next copy begins sooner with: it has the same key then.
    pub fn give_tickets(&self) -> bool {
        !self.are_new()
    }

    /// Sessions at a time, of a user and of all together.
    fn sessions_max(&self, user: &User) -> (usize, usize) {
        match self {
            Accounts::Daemon(admission) => {
                let rules = admission.rules();
                (rules.sessions_of(user), rules.sessions())
            }
            Accounts::Login(_) | Accounts::Arranged(..) => (1, 1),
        }
    }
}

/// A client that was accepted.
pub struct AcceptedClient {
    pub control: Control,
    pub offer: Offer,
    pub secret: [u8; 32],
    /// That of the ticket that the client came with.
    pub ticket: Option<[u8; 32]>,
    pub rtt: Duration,
    pub owner: SessionOwner,
    /// Where it goes or comes from, if the copy touches files, and its paths there.
    pub room: Option<Room>,
    pub inside: Operation,
    /// Given back when the session ends. `None`: the offer may be a replay, which takes nobody's place.
    pub place: Option<Place>,
}

impl AcceptedClient {
    /// For datagrams before the handshake is done.
    pub fn early_keys(&self) -> Keys {
        let AcceptedClient { owner, offer, secret, .. } = self;
        Keys::early_server(&owner.account.psk, &offer.early_salt, secret, offer.connection_id)
    }

    /// For data before the handshake is done.
    pub fn ticket_keys(&self) -> Option<Keys> {
        let AcceptedClient { owner, offer, ticket, .. } = self;
        let ticket = ticket.as_ref()?;
        Some(Keys::ticket(ticket, &owner.account.psk, &offer.early_salt, offer.connection_id))
    }
}

/// Somebody who asks to be let in.
pub struct Caller {
    /// What carries the handshake.
    pub stream: Stream,
    /// Where that comes from.
    pub from: IpAddr,
    /// Nothing says so but a datagram: no refusal is noted, and no replay heeded. Who is really there says the same over TCP.
    pub is_unseen: bool,
}

/// A connection that came to nothing.
pub struct Ended {
    /// Whose it was, if it is known to come from somebody who has the key.
    pub user: Option<String>,
    /// Why.
    pub error: Error,
}

impl<E: Into<Error>> From<E> for Ended {
    fn from(error: E) -> Ended {
        Ended { user: None, error: error.into() }
    }
}

/// Accept or refuse who comes from an address. `accepted` says whether nobody else has the offer's connection id.
pub fn shake_hands(
    server: &Server,
    Caller { mut stream, from, is_unseen }: Caller,
    waker: &Waker,
    accepted: impl FnOnce(&Offer, &[u8; 32]) -> bool,
) -> Result<AcceptedClient, Ended> {
    let secret = random()?;
    stream.budget = server.budget.clone();
    let (mut entry, mut refused, mut ticket) = (None, None, None);
    let enter = |(room, inside), offer: &Offer, account: &Account, is_first: bool| {
        if is_unseen && !is_first {
            return Err(Reason::new(Cause::Refused, "an offer that may be a replay is heeded over TCP only"));
        }
        let place = if is_first { Some(take_place(server, account, offer)?) } else { None };
        if accepted(offer, &secret) {
            Ok((room, inside, place))
        } else {
            let line = "a copy of this name is under way; run the same command again";
            Err(Reason::new(Cause::Refused, line))
        }
    };
    let decide = |offer: &Offer, account: &Arc<Account>| {
        let wanted = admit(server, account, offer);
        // What is refused over UDP comes over TCP for the first time.
        let is_first = server.accounts.are_new()
            || !(is_unseen && wanted.is_err())
                && server.replays.is_first(&offer.early_salt, offer.made_s, Moment::now());
        match wanted.and_then(|leads| enter(leads, offer, account, is_first)) {
            Err(reason) if is_unseen => Answer::Refuse(reason),
            Err(reason) => {
                // An offer that may be a replay says nothing of who sent it.
                refused = is_first.then(|| account.user.name.clone());
                let way = way_of(&offer.operation);
                let owner = SessionOwner::new(account.clone(), from, way, server.records.clone());
                server.records.note(&Event::Refused(owner.who()));
                Answer::Refuse(reason)
            }
            Ok(admitted) => {
                entry = Some(admitted);
                let redeem = |id| server.tickets.redeem(id, &account.user.name, Instant::now());
                // What may be a replay costs nobody a ticket.
                ticket = offer.ticket.as_ref().filter(|_| is_first).and_then(redeem);
                Answer::Accept {
                    aes: offer.aes && has_aes(),
                    udp_secret: secret,
                    udp_port: server.udp_port,
                    udp_hosts: server.udp_hosts.clone(),
                    honours_ticket: ticket.is_some(),
                }
            }
        }
    };
    let accepted = control::accept(stream, |id| server.accounts.find(id), waker.clone(), decide);
    let (control, offer, account) = accepted.map_err(|error| Ended { user: refused, error: error.into() })?;
    let Some((room, inside, place)) = entry else { return Err(Error::Protocol("made no offer").into()) };
    let way = way_of(&offer.operation);
    let owner = SessionOwner::new(account, from, way, server.records.clone());
    Ok(AcceptedClient { control, offer, secret, ticket, rtt: RTT_GUESS, owner, room, inside, place })
}

fn way_of(operation: &Operation) -> Way {
    if operation.is_pull() { Way::Out } else { Way::In }
}

/// A place among the sessions of a server; else why there is none. An earlier session for the same copy, whose client is
/// away, gives way.
pub fn take_place(server: &Server, account: &Account, offer: &Offer) -> Result<Place, Reason> {
    let user = &account.user;
    server.absent.give_way(&CopyKey::of(&user.name, offer));
    let (of_user, of_all) = server.accounts.sessions_max(user);
    server.places.take(&user.name, of_user, of_all, "copies")
}

/// Where an offer leads; else why it cannot be accepted.
fn admit(server: &Server, account: &Account, offer: &Offer) -> Result<(Option<Room>, Operation), Reason> {
    if let Some(reason) = &server.unable {
        return Err(reason.clone());
    }
    let refuse = |line: &str| Err(Reason::new(Cause::Refused, line));
    if let Accounts::Arranged(_, terms) = &server.accounts
        && !terms.fit(offer)
    {
        return refuse("that is not the copy that was arranged");
    }
    let classes = &offer.transfer.classes;
    let sizes = wire::MIN_DATAGRAM_LEN..=wire::MAX_DATAGRAM_LEN;
    let grow = classes.is_sorted_by(|one, next| one < next);
    if classes.is_empty()
        || classes.len() > wire::MAX_CLASSES
        || !grow
        || classes.iter().any(|c| !sizes.contains(c))
    {
        return refuse("the datagram sizes offered make no sense");
    }
    let (room, inside) = account.room(&offer.operation)?;
    if offer.files.delete && room.as_ref().is_some_and(|room| room.access == Access::WriteOnly) {
        return refuse("nothing can be removed there: it is write-only for you");
    }
    if offer.files.preserve.hard_links && room.as_ref().is_some_and(|room| room.access == Access::WriteOnly) {
        return refuse(
            "hard links cannot be made there: it is write-only for you; ask for what else is to be kept one by one",
        );
    }
    if way_of(&offer.operation) == Way::Out {
        check_control(server, account, &offer.transfer)?;
    }
    Ok((room, inside))
}

/// What decides how fast this side sends is the client's choice, within limits.
fn check_control(server: &Server, account: &Account, transfer: &TransferOptions) -> Result<(), Reason> {
    let (kind, _) = transfer.protocol();
    let allowed = &account.user.controls;
    if !allowed.contains(&kind) {
        let names: Vec<_> = allowed.iter().map(|kind| kind.name()).collect();
        let line = format!(
            "this server does not send with the controller {}; it does with: {}",
            kind.name(),
            names.join(", ")
        );
        return Err(Reason::new(Cause::Refused, line));
    }
    if server.accounts.of_daemon() && kind.needs_rate() && transfer.rate_cap.is_none() {
        let line = format!("the controller {} needs the rate to keep", kind.name());
        return Err(Reason::new(Cause::Refused, line));
    }
    Ok(())
}

/// What stands before the paths of what a copy has in it, as the client wrote it.
pub fn shown_folder(operation: &Operation, inside: &Operation) -> Vec<u8> {
    match (operation, inside) {
        (Operation::Push { dest } | Operation::Planned { dest, .. } | Operation::PushPipe { dest }, _) => {
            dest.clone()
        }
        (Operation::PullPipe { source }, _) => source.clone(),
        (Operation::Pull { sources }, Operation::Pull { sources: inner }) => match (&sources[..], &inner[..])
        {
            // A folder of the server itself: what is in it goes along.
            ([only], [inner]) if inner.is_empty() => only.clone(),
            // What is named without a slash at its end goes along under its own name.
            ([only], _) => {
                only[..only.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1)].to_vec()
            }
            _ => vec![],
        },
        _ => vec![],
    }
}

/// Before anything is measured.
const RTT_GUESS: Duration = Duration::from_millis(50);
