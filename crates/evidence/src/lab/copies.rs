//! `longhaul cp` of one file from the left end of a path to a `longhaul serve` at the right one, under various
//! options.

use super::bench::Bench;
use super::copied::{Copied, CopyError};
use super::copiers::{Longhaul, NAME, PORT, Payload, TOKEN, clear, no_room};
use super::process::Process;
use super::processor::Share;
use crate::ExperimentError;
use crate::lab::temporary::Folder;
use longhaul_lab::{Lab, Place, Side};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// A file at one end, and a server at the other.
pub(crate) struct Copies {
    payload: Rc<Payload>,
    /// Of hosts.
    pair: usize,
    /// Kept: it serves for as long as this lives.
    server: Process,
    /// What its ends get of a processor, the near one first: dropped after the server.
    shares: Option<[Share; 2]>,
    served: Folder,
    address: SocketAddr,
    /// A copy may make use of what an earlier one got of this server.
    remembers: bool,
}

impl Copies {
    /// A file of so many bytes of noise, and a server that listens.
    pub(crate) fn start(bench: &Bench<'_>, lab: &Lab, bytes: u64) -> Result<Copies, ExperimentError> {
        Copies::of(bench, lab, Rc::new(Payload::file(bench, bytes)?), PORT)
    }

    /// A server for this file that listens at that port.
    pub(crate) fn of(
        bench: &Bench<'_>,
        lab: &Lab,
        payload: Rc<Payload>,
        port: u16,
    ) -> Result<Copies, ExperimentError> {
        Copies::between(bench, lab, 0, payload, port)
    }

    /// The same with a server that listens at all addresses of the right host, for copies over several paths.
    pub(crate) fn at_all_addresses(
        bench: &Bench<'_>,
        lab: &Lab,
        bytes: u64,
    ) -> Result<Copies, ExperimentError> {
        let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        Copies::listening(bench, lab, 0, Rc::new(Payload::file(bench, bytes)?), anywhere)
    }

    /// The same between the hosts of that pair.
    pub(crate) fn between(
        bench: &Bench<'_>,
        lab: &Lab,
        pair: usize,
        payload: Rc<Payload>,
        port: u16,
    ) -> Result<Copies, ExperimentError> {
        let at = SocketAddr::from((lab.address(Place::of(Side::Right, pair)), port));
        Copies::listening(bench, lab, pair, payload, at)
    }

    fn listening(
        bench: &Bench<'_>,
        lab: &Lab,
        pair: usize,
        payload: Rc<Payload>,
        at: SocketAddr,
    ) -> Result<Copies, ExperimentError> {
        let served = Folder::new().map_err(|error| no_room(&error))?;
        let far = Place::of(Side::Right, pair);
        let address = SocketAddr::from((lab.address(far), at.port()));
        let server = Longhaul::listen(bench, lab.command(far, bench.options.program), served.path(), at)?;
        Ok(Copies { payload, pair, server, shares: None, served, address, remembers: false })
    }

    /// Both ends get a millisecond of a processor in so many.
    pub(crate) fn slowed(self, period_ms: u32) -> Result<Copies, ExperimentError> {
        let share = || Share::one_ms_of(period_ms).map_err(|error| self.server.failed(error.to_string()));
        let shares = [share()?, share()?];
        shares[1].take_in(self.server.id()).map_err(|error| self.server.failed(error.to_string()))?;
        Ok(Copies { shares: Some(shares), ..self })
    }

    /// Each copy but the first may know the server.
    pub(crate) fn remembering(self) -> Copies {
        Copies { remembers: true, ..self }
    }

    /// Begin to copy it under these options, and be there while it goes on. The file at the other end stays.
    pub(crate) fn begin(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        args: &[&str],
    ) -> Result<Process, ExperimentError> {
        if !self.remembers {
            Longhaul::forget_servers(&self.payload)?;
        }
        let near = lab.command(Place::of(Side::Left, self.pair), bench.options.program);
        let mut command = Longhaul::copy(near, args, &self.payload, self.address, TOKEN);
        let process = Process::start("the copy", &mut command)?;
        if let Some([near, _]) = &self.shares {
            near.take_in(process.id()).map_err(|error| process.failed(error.to_string()))?;
        }
        Ok(process)
    }

    /// Where the data arrives, over UDP or TCP.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Copy it under these options. What did not work within `limit` is a line that says why.
    pub(crate) fn run(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        args: &[&str],
        limit: Duration,
    ) -> Result<Result<Copied, CopyError>, ExperimentError> {
        self.run_beside(bench, lab, args, limit, || Ok(()))
    }

    /// The same, and do `meanwhile` while it goes on.
    pub(crate) fn run_beside(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        args: &[&str],
        limit: Duration,
        meanwhile: impl FnOnce() -> Result<(), ExperimentError>,
    ) -> Result<Result<Copied, CopyError>, ExperimentError> {
        let arrived = self.arrived();
        let outcome = bench.run(lab, || {
            let mut process = self.begin(bench, lab, args)?;
            meanwhile()?;
            Copied::of(&mut process, bench, limit)
        })?;
        let is_whole = outcome.is_ok() && self.payload.is_equal(bench, &arrived)?;
        clear(self.served.path())?;
        Ok(match outcome {
            Ok(_) if !is_whole => Err(CopyError::NotWhole),
            outcome => outcome,
        })
    }

    fn arrived(&self) -> PathBuf {
        self.served.path().join(NAME)
    }
}
