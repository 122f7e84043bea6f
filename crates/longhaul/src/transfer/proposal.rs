//! What a client asks of another host, and how the two come to agree on it.

use super::connect::{Connection, Inside, candidates, open_link, random};
use super::replays::Moment;
use super::sizes::classes;
use super::ssh;
use super::start::Connecting;
use crate::api::CopyOptions;
use crate::clock;
use crate::error::Error;
use crate::fireflies::Fireflies;
use crate::net::aead::has_aes;
use crate::net::control::{Beginning, ClientKey, Control, HandshakeError, OFFER_MAX};
use crate::net::link::PeerLink;
use crate::net::marks::Marks;
use crate::net::seal::{KeyPhase, Keys};
use crate::net::wake::Waker;
use longhaul_proto::endpoint::Endpoint;
use longhaul_proto::path::PathCheck;
use longhaul_proto::session::attributes::Preserve;
use longhaul_proto::session::message::{Answer, CopyId, Offer, Operation, TicketId, TransferOptions};
use longhaul_proto::units::Time;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// What the offer says, beside what is the same for all.
pub struct OfferFields<'a> {
    /// What is asked of the other side.
    pub operation: Operation,
    /// Which copy it is.
    pub copy: CopyId,
    /// The compressed listing, where there is one.
    pub listing: &'a [u8],
    /// Whether this side sends the object.
    pub sends: bool,
    /// Under which ticket the first data goes along.
    pub ticket: Option<TicketId>,
    /// The other end of the copy is a third host.
    pub third_party: bool,
}

/// An offer, and the path check that rides along with it.
pub struct Proposal {
    /// What is asked for.
    pub offer: Offer,
    /// Looks at the path.
    pub check: PathCheck,
    /// How much of the listing the offer has.
    pub head_len: usize,
    /// How all is marked that this side sends.
    pub marks: Marks,
    /// Tells of its flows.
    pub fireflies: Option<Fireflies>,
    scratch: Vec<u8>,
}

/// What came of it.
pub struct Agreed {
    /// Datagrams.
    pub link: PeerLink,
    /// Messages.
    pub control: Control,
    /// Wakes the thread that runs the session.
    pub waker: Waker,
    /// Both processors have AES instructions.
    pub aes: bool,
    /// What went under the ticket counts.
    pub honours_ticket: bool,
    /// The session's.
    pub secret: [u8; 32],
    /// Round trip that the handshake showed.
    pub rtt: Duration,
    /// Where the other host is reached.
    pub addresses: Vec<SocketAddr>,
    /// Ssh: the process.
    pub far: Option<ssh::FarSide>,
    /// The control stream may carry the data.
    pub has_pipe: bool,
    /// The control stream's first connection, if it is still under way.
    pub connecting: Option<Connecting>,
}

impl Proposal {
    /// With these fields.
    pub fn new(fields: &OfferFields<'_>, options: &CopyOptions) -> Result<Proposal, Error> {
        let transfer = transfer_options(options);
        let check = PathCheck::new(transfer.classes.clone(), fields.sends, u64::from_be_bytes(random()?));
        let mut offer = Offer {
            connection_id: u64::from_be_bytes(random()?),
            aes: has_aes(),
            early_salt: random()?,
            made_s: Moment::now().wall_s,
            operation: fields.operation.clone(),
            copy: fields.copy,
            files: options.files.clone(),
            transfer,
            listing_len: fields.listing.len() as u64,
            listing_head: vec![],
            ticket: fields.ticket,
            third_party: fields.third_party,
            dscp: options.dscp,
            preserve: Some(options.files.preserve).filter(Preserve::is_any),
            scitag: options.scitag,
        };
        let fixed = postcard::to_allocvec(&offer).map_or(usize::MAX, |bytes| bytes.len());
        let room = OFFER_MAX.checked_sub(fixed + 8).ok_or(Error::OfferTooLong)?;
        let head_len = fields.listing.len().min(room);
        offer.listing_head = fields.listing[..head_len].to_vec();
        let (marks, fireflies) = Fireflies::begin(&offer, fields.sends, options.fireflies.as_ref());
        Ok(Proposal { offer, check, head_len, scratch: vec![], marks, fireflies })
    }

    /// For datagrams to a daemon.
    pub fn link(&self, key: &ClientKey, peer: SocketAddr, options: &CopyOptions) -> Result<PeerLink, Error> {
        self.open_link(vec![peer], key, options)
    }

    fn open_link(
        &self,
        peers: Vec<SocketAddr>,
        key: &ClientKey,
        options: &CopyOptions,
    ) -> Result<PeerLink, Error> {
        let mut link = open_link(peers, options.bind.first(), self.early(key))?;
        link.set_marks(self.marks.clone());
        Ok(link)
    }

    fn early(&self, key: &ClientKey) -> Keys {
        Keys::early_client(&key.psk, &self.offer.early_salt, self.offer.connection_id)
    }

    /// The path check's train is on its way while the handshake is.
    pub fn send_probes(&mut self, link: &mut PeerLink) {
        let check = &mut self.check;
        if self.offer.transfer.transport.allows_udp() {
            while link
                .send_one(KeyPhase::Early, &mut self.scratch, |buf| check.poll_transmit(clock::now(), buf))
            {
            }
        }
    }

    /// Shake hands over a connection; go on with what was `begun` over UDP, if anything.
    pub fn over(
        &mut self,
        connection: Connection,
        options: &CopyOptions,
        waker: Waker,
        begun: Option<(Box<Beginning>, PeerLink)>,
    ) -> Result<Agreed, Error> {
        let is_begun = begun.is_some();
        let mut addresses: Vec<SocketAddr> = connection.udp.into_iter().collect();
        if let (Some(port), true) = (connection.at.port, connection.inside == Inside::Nothing) {
            addresses = candidates(vec![], port, &connection.at);
        }
        let (beginning, mut link) = match begun {
            Some((beginning, link)) => (beginning, Some(link)),
            None => {
                let beginning = Box::new(Beginning::new(&connection.key, &self.offer)?);
                let link = match addresses[..] {
                    [] => None,
                    _ => Some(self.open_link(addresses.clone(), &connection.key, options)?),
                };
                (beginning, link)
            }
        };
        let (key, mut connection) = (connection.key.clone(), connection);
        let (far, at, inside) =
            (connection.far.take(), std::mem::take(&mut connection.at), connection.inside);
        if let Some(far) = &far {
            far.watch.until(Instant::now() + options.stall_timeout);
        }
        let mut offered = Time::ZERO;
        let meanwhile = || {
            offered = clock::now();
            if let Some(link) = link.as_mut().filter(|_| !is_begun) {
                self.send_probes(link);
            }
        };
        let outcome = beginning.over(connection.into_stream(options)?, waker.clone(), meanwhile);
        let (control, answer) = outcome.map_err(|error| match (error, &far, &at.name) {
            (HandshakeError::NotLonghaul(what), Some(_), Some(host)) => {
                Error::AgentSilent { host: host.clone(), what }
            }
            (error, ..) => error.into(),
        })?;
        let rtt = clock::now().since(offered);
        let Answer::Accept { aes, udp_secret: secret, udp_port, udp_hosts, honours_ticket } = answer else {
            return Err(Error::Protocol("neither accepts nor refuses"));
        };
        let mut link = match link {
            Some(link) => link,
            None => {
                if inside != Inside::DataAlone {
                    addresses = candidates(udp_hosts, udp_port, &at);
                }
                self.open_link(addresses.clone(), &key, options)?
            }
        };
        if at.is_hearsay {
            link.distrust();
        }
        Ok(Agreed {
            link,
            control,
            waker,
            aes,
            honours_ticket,
            secret,
            rtt,
            addresses,
            far,
            has_pipe: inside != Inside::Nothing,
            connecting: None,
        })
    }
}

fn transfer_options(options: &CopyOptions) -> TransferOptions {
    TransferOptions {
        control: options.control.name().into(),
        select: options.select.map(|select| select.name().into()),
        rate_cap: options.rate_now(),
        background: options.background,
        ack_every: options.ack_every,
        batch: options.batch,
        classes: classes(options),
        stall_timeout_ms: u64::try_from(options.stall_timeout.as_millis()).unwrap_or(u64::MAX),
        transport: options.transport,
        streams: options.streams,
        congestion: options.congestion.clone(),
    }
}
