//! Datagrams into a sink: the receiving end of the object, whatever the sink makes of it.

use super::session::Session;
use crate::clock;
use crate::error::Error;
use crate::listing::ListingError;
use crate::net::budget::{Allowance, Purpose};
use longhaul_proto::bitmap::Bitmap;
use longhaul_proto::endpoint::{Arrival, Endpoint, Sink};
use longhaul_proto::object::{Receiver, ReceiverConfig, Shape};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::Time;
use longhaul_proto::wire::{self, Body, Request};
use std::time::Duration;

/// Receives one object.
pub struct ObjectReceiver<K> {
    object_len: u64,
    /// It is going to grow.
    is_growing: bool,
    /// UDP payloads of full datagrams, of which the sender chooses one.
    classes: Vec<u16>,
    /// Until the first datagram tells how the object is cut.
    sink: Option<K>,
    receiver: Option<Receiver<K>>,
    last_news: Time,
    /// When the object was last cut anew.
    cut_at: Time,
    /// The memory that it takes to know what came in.
    room: Allowance,
}

impl<K: Sink> ObjectReceiver<K> {
    /// Ready for an object of so many bytes, if not more, in datagrams of one of the sizes that were agreed on.
    pub fn new(
        session: &Session<'_>,
        object_len: u64,
        is_growing: bool,
        sink: K,
    ) -> Result<ObjectReceiver<K>, Error> {
        let mut object = ObjectReceiver {
            object_len,
            is_growing,
            classes: session.options.classes.clone(),
            sink: Some(sink),
            receiver: None,
            last_news: clock::now(),
            cut_at: Time::ZERO,
            room: Allowance::of(&session.budget, Purpose::Need),
        };
        object.hold().map_err(|error| session.abort(error))?;
        Ok(object)
    }

    /// The object has grown to so many bytes. Of what is new `have` is here or not wanted.
    pub fn grow(&mut self, object_len: u64, is_growing: bool, have: &Ranges) -> Result<(), ListingError> {
        (self.object_len, self.is_growing) = (object_len, is_growing);
        self.hold()?;
        let Some(receiver) = &mut self.receiver else { return Ok(()) };
        let packet_len = receiver.shape().packet_len;
        let (shape, have) = cut(object_len, is_growing, packet_len, have);
        receiver.grow(shape.object_len, &have, !is_growing);
        Ok(())
    }

    /// Take the memory for what is known of the object's packets, in whichever of these sizes they come. An error where there is
    /// none.
    fn hold(&mut self) -> Result<(), ListingError> {
        let shortest = self.classes.iter().min().map_or(1, |datagram_len| packet_len(*datagram_len));
        let packets = Shape { object_len: self.object_len, packet_len: shortest }.packets();
        let memory = self.receiver().map_or(0, Receiver::memory).max(Bitmap::memory_of(packets));
        let is_held = memory <= MEMORY_AT_HAND || self.room.reach(memory);
        if is_held { Ok(()) } else { Err(ListingError::Busy) }
    }

    /// Where the bytes go.
    pub fn sink(&mut self) -> &mut K {
        match (&mut self.receiver, &mut self.sink) {
            (Some(receiver), _) => receiver.sink_mut(),
            (None, Some(sink)) => sink,
            (None, None) => unreachable!("the sink is in one of the two until the session ends"),
        }
    }

    /// What receives, once something has come.
    pub fn receiver(&self) -> Option<&Receiver<K>> {
        self.receiver.as_ref()
    }

    /// The same, to change it.
    pub fn receiver_mut(&mut self) -> Option<&mut Receiver<K>> {
        self.receiver.as_mut()
    }

    /// When a datagram last came.
    pub fn last_news(&self) -> Time {
        self.last_news
    }

    /// UDP payload of a full datagram, once one has come.
    pub fn datagram_len(&self) -> Option<u16> {
        self.receiver().map(|receiver| receiver.shape().packet_len as u16 + wire::DATA_OVERHEAD as u16)
    }

    /// When an acknowledgement is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.receiver().and_then(Receiver::next_timeout)
    }

    /// Take what has come in; of the object everything is wanted but `have`. True if there was anything.
    pub fn take(&mut self, session: &mut Session<'_>, have: &Ranges) -> Result<bool, Error> {
        self.hold().map_err(|error| session.abort(error))?;
        let Some(receiver) = &mut self.receiver else { return self.take_first(session, have) };
        let (classes, cut_at) = (&self.classes, &mut self.cut_at);
        let (object_len, is_growing) = (self.object_len, self.is_growing);
        let any = session.receive(|path, now, arrival, body| {
            if path > 0 {
                return receiver.on_path(path, |receiver| take(receiver, now, arrival, body, |_| None));
            }
            take(receiver, now, arrival, body, |class| {
                let datagram_len = classes.get(usize::from(class))?;
                if now.since(*cut_at) < CUT_GAP {
                    return None;
                }
                *cut_at = now;
                Some(cut(object_len, is_growing, packet_len(*datagram_len), have))
            })
        })?;
        receiver.set_by_streams(session.link.is_by_streams());
        if any {
            self.last_news = clock::now();
        }
        Ok(any)
    }

    /// The first datagram of data, or question after data that is all lost, tells which size was chosen; from then on
    /// there is a receiver.
    fn take_first(&mut self, session: &mut Session<'_>, have: &Ranges) -> Result<bool, Error> {
        let (classes, sink, receiver) = (&self.classes, &mut self.sink, &mut self.receiver);
        let (object_len, is_growing) = (self.object_len, self.is_growing);
        let (_, companions) = session.options.protocol();
        let rtt = session.check.report().rtt.unwrap_or(session.rtt);
        let any = session.receive(|path, now, arrival, body| {
            if receiver.is_none() {
                let Some(class) = class_of(body) else { return true };
                let Some(datagram_len) = classes.get(usize::from(class)) else { return true };
                let (shape, have) = cut(object_len, is_growing, packet_len(*datagram_len), have);
                let config = ReceiverConfig {
                    shape,
                    class,
                    ack: companions.ack.policy(rtt),
                    have,
                    max_body: usize::from(*datagram_len).min(ACK_DATAGRAM_MAX) - wire::SEAL_OVERHEAD,
                };
                let made = sink.take().map(|sink| Receiver::new(config, sink));
                *receiver = if is_growing { made.map(Receiver::growing) } else { made };
            }
            receiver.as_mut().is_none_or(|receiver| {
                receiver.on_path(path, |receiver| take(receiver, now, arrival, body, |_| None))
            })
        })?;
        Ok(any)
    }

    /// Send the acknowledgements that are due. True if the object has become complete.
    pub fn acknowledge(&mut self, session: &mut Session<'_>, now: Time) -> bool {
        let Some(receiver) = &mut self.receiver else { return false };
        if receiver.poll_timeout().is_some_and(|at| now >= at) {
            receiver.handle_timeout(now);
        }
        while session.link.answer(&mut session.scratch, |buf| receiver.poll_transmit(now, buf)) {}
        let known = receiver.paths();
        for (path, side) in session.paths.iter_mut().filter(|(path, _)| *path < known) {
            receiver.on_path(path, |receiver| {
                receiver.handle_timeout(now);
                while side.send_one(|buf| receiver.poll_transmit(now, buf)) {}
            });
        }
        let mut complete = false;
        while receiver.poll_event().is_some() {
            complete = true;
        }
        complete
    }
}

/// The size class of a datagram that has to do with packets.
fn class_of(body: &[u8]) -> Option<u8> {
    match Body::decode(body) {
        Some(Body::Data { class, .. } | Body::Request(Request { class, .. })) => Some(class),
        _ => None,
    }
}

/// Bytes of the object in a full datagram of this length.
pub fn packet_len(datagram_len: u16) -> u32 {
    u32::from(datagram_len) - wire::DATA_OVERHEAD as u32
}

/// How an object of which so many bytes are known is cut, and what of it is not wanted: what its last packet lacks if it is to
/// grow, too.
fn cut(object_len: u64, is_growing: bool, packet_len: u32, have: &Ranges) -> (Shape, Ranges) {
    let mut have = have.clone();
    if !is_growing {
        return (Shape { object_len, packet_len }, have);
    }
    let shape = Shape::growing(object_len, packet_len);
    if object_len < shape.object_len {
        have.insert(object_len..shape.object_len);
    }
    (shape, have)
}

/// Whether the receiver took it, or will never: a packet that a full sink refused is to be offered again.
fn take<K: Sink>(
    receiver: &mut Receiver<K>,
    now: Time,
    arrival: Arrival,
    body: &[u8],
    recut: impl FnOnce(u8) -> Option<(Shape, Ranges)>,
) -> bool {
    let refused = receiver.refused();
    receiver.handle_recut(now, arrival, body, recut);
    receiver.refused() == refused
}

/// No sender knows sooner that another size is to be used, and to cut a large object takes some time.
const CUT_GAP: Duration = Duration::from_millis(50);
/// What came in is known in so much memory without asking for more.
const MEMORY_AT_HAND: u64 = 1 << 20;
/// Acknowledgements stay below what passes everywhere.
const ACK_DATAGRAM_MAX: usize = wire::BASE_DATAGRAM_LEN as usize;
