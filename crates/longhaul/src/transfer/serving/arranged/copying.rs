//! The copy itself, where this end of an arranged one is its client.

use super::super::super::client::{Opened, named, open};
use super::super::super::connect::Connection;
use super::super::super::proposal::OfferFields;
use super::super::super::receiving::{ListingHead, receive};
use super::super::super::sending::send;
use super::super::super::start::{Reached, list_first};
use super::super::{base_of, granted, shown_folder, sources_of};
use super::End;
use crate::api::{CopyOptions, Observer, Progress, Remark, Transport};
use crate::daemon::admission::Room;
use crate::daemon::supervision::{Meter, Supervision};
use crate::error::Error;
use crate::files::{Exclude, ScanOptions};
use crate::net::wake::Waker;
use crossbeam_channel::Sender;
use longhaul_proto::session::message::third_party::Outcome;
use longhaul_proto::session::message::{Fsync, Message, Offer, Operation};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// See the [module](self).
pub struct Copy<'a> {
    /// This end.
    pub end: &'a End<'a>,
    /// What is asked for.
    pub options: CopyOptions,
    /// The way to the other end.
    pub connection: Connection,
    /// Ends it.
    pub stop: Arc<AtomicBool>,
}

impl Copy<'_> {
    /// Send what is here.
    pub fn give(
        self,
        room: &Room,
        sources: Vec<Vec<u8>>,
        asks: Operation,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let scan = ScanOptions {
            exclude: Exclude::new(&self.options.files.exclude)?,
            files_from: self.options.files_from.clone(),
            stop: Arc::default(),
            budget: self.end.server.budget.clone(),
            waits: Arc::default(),
            plan_key: None,
            preserve: self.end.server.permits(self.options.files.preserve, true),
        };
        self.end
            .server
            .left_out(self.options.files.preserve, true)
            .iter()
            .for_each(|line| observer.warning(line));
        let (first, lister) = list_first(room.root.clone(), sources_of(sources), scan, &self.stop)?;
        first.scan.warnings().iter().for_each(|line| observer.warning(line));
        let listing = first.listing.clone();
        let mut opened = self.open((asks, &listing), true, observer)?;
        let outcome = send(&mut opened.session, first, lister);
        let packet_len =
            outcome.as_ref().map_or(0, |(sent, _)| opened.session.link.packet_len(sent.datagram_len));
        close(opened);
        let (sent, totals) = outcome?;
        let (report, status) = (sent.report, sent.status);
        Ok(Outcome { report, status, bytes: totals.bytes, files: totals.files, packet_len })
    }

    /// Receive what is there.
    pub fn take(
        self,
        room: &Room,
        dest: Vec<u8>,
        asks: Operation,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let end = self.end;
        let listing = named(&self.options)?;
        let mut files = granted(end.server, room.access, self.options.files.clone());
        end.server
            .left_out(self.options.files.preserve, false)
            .iter()
            .for_each(|line| observer.warning(line));
        if end.server.accounts.syncs_all() {
            files.fsync = Fsync::Always;
        }
        let base = base_of(end.server, room, dest, &end.owner.account);
        let mut opened = self.open((asks, &listing), false, observer)?;
        let outcome = receive(&mut opened.session, base, files, ListingHead { total: None, bytes: vec![] });
        let packet_len = outcome.as_ref().map_or(0, |got| opened.session.link.packet_len(got.datagram_len));
        close(opened);
        let got = outcome?;
        Ok(Outcome { report: got.report, status: got.status, bytes: got.total, files: got.files, packet_len })
    }

    /// Shake hands with the other end.
    fn open<'a>(
        self,
        (operation, listing): (Operation, &[u8]),
        sends: bool,
        observer: &'a mut dyn Observer,
    ) -> Result<Opened<'a>, Error> {
        let end = self.end;
        let fields =
            OfferFields { operation, copy: end.offer.copy, listing, sends, ticket: None, third_party: false };
        let reached = Reached::Connected(Box::new(self.connection), Instant::now());
        let mut opened = open(reached, &fields, None, &self.options, (observer, self.stop))?;
        let share = end.server.throttle.as_ref().map(|throttle| throttle.join(&end.owner.account, sends));
        let prefix = shown_folder(&end.offer.operation, &end.inside);
        let supervision = Supervision::new(end.owner.clone(), share, prefix, end.offer.files.dry_run);
        opened.session.supervision = Some(supervision);
        opened.session.budget = end.server.budget.clone();
        Ok(opened)
    }
}

fn close(mut opened: Opened<'_>) {
    if let Some(supervision) = &mut opened.session.supervision {
        supervision.end();
    }
    opened.close();
}

/// What an arranger asks for, as a copy that begins here.
pub fn options_of(offer: &Offer, transport: Transport, names: Option<Vec<Vec<u8>>>) -> CopyOptions {
    let transfer = &offer.transfer;
    CopyOptions {
        transport,
        streams: transfer.streams,
        congestion: transfer.congestion.clone(),
        control: transfer.protocol().0,
        select: transfer.select.as_deref().and_then(|name| name.parse().ok()),
        rate: transfer.rate_cap,
        background: transfer.background,
        dscp: offer.dscp,
        scitag: offer.scitag,
        ack_every: transfer.ack_every,
        batch: transfer.batch,
        packet_size: if let [size] = transfer.classes[..] { Some(size) } else { None },
        stall_timeout: Duration::from_millis(transfer.stall_timeout_ms),
        files: offer.files.clone(),
        files_from: names
            .map(|names| names.into_iter().map(|name| PathBuf::from(OsString::from_vec(name))).collect()),
        history: None,
        ..CopyOptions::default()
    }
}

/// Tells the arranger, and this side's records.
pub struct Relay {
    /// What is to be told.
    pub tell: Sender<Message>,
    /// Wakes the thread that tells it.
    pub waker: Waker,
    /// This side's records.
    pub meter: Meter,
}

impl Relay {
    fn tell(&self, message: Message) {
        // Nobody listens any more if the session is over.
        let _ = self.tell.send(message);
        self.waker.wake();
    }
}

impl Observer for Relay {
    fn progress(&mut self, progress: &Progress) {
        self.meter.progress(progress);
        self.tell(Message::Progress(Box::new(*progress)));
    }

    fn remark(&mut self, remark: Remark) {
        self.tell(Message::Remark(remark.text));
    }

    fn warning(&mut self, line: &str) {
        self.tell(Message::Warning(line.into()));
    }

    fn wants_breakdown(&self) -> bool {
        false
    }
}
