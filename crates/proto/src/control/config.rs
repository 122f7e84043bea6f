//! What a controller begins with.

use super::Remembered;
use super::pcp_part::PcpPart;
use crate::path::PathRate;
use crate::units::Rate;
use core::time::Duration;

/// What a controller is told at its birth.
#[derive(Clone, Copy, Debug)]
pub struct ControlConfig {
    /// Whole bytes of a full datagram.
    pub datagram_len: u64,
    /// Round trip measured before the first datagram (handshake, path check).
    pub rtt: Duration,
    /// What a train of packets through the path said of its rate.
    pub path_rate: Option<PathRate>,
    /// The rate that the user named: `fixed` sends at it.
    pub rate: Option<Rate>,
    /// What an earlier transfer to the same destination found (PCP's history).
    pub remembered: Option<Remembered>,
    /// A part of `pcp` that is switched off, for experiments.
    pub pcp_without: Option<PcpPart>,
    /// Yield to all other traffic.
    pub background: bool,
    /// Windows are spread over the round trip; otherwise acknowledgements alone clock them out, as TCP's.
    pub paced: bool,
    /// Windows as the TCPs that papers up to 2006 compared with: one segment in the beginning, and no more than one more
    /// for each acknowledgement, however much it acknowledges (RFC 2581).
    pub classic: bool,
    /// How many flows `multcp` stands for.
    pub streams: u32,
    /// Seed of whatever the controller leaves to chance.
    pub seed: u64,
}

impl ControlConfig {
    /// Nothing known of the path but its round trip.
    pub fn new(datagram_len: u64, rtt: Duration) -> ControlConfig {
        ControlConfig {
            datagram_len,
            rtt,
            path_rate: None,
            rate: None,
            remembered: None,
            pcp_without: None,
            background: false,
            paced: true,
            classic: false,
            streams: STREAMS_DEFAULT,
            seed: 1,
        }
    }
}

/// How many flows `multcp` stands for unless told.
const STREAMS_DEFAULT: u32 = 4;
