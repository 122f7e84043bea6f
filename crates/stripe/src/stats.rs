//! What a stream is doing, for whoever wants to know.

use super::state::Core;
use longhaul_net::tcp::TcpInfo;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// How a stream is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StripeStats {
    /// Each lane that is alive.
    pub lanes: Vec<LaneStats>,
    /// Lanes that died and were replaced, or should be.
    pub lanes_lost: u64,
    /// Lanes that one side or the other would like to have.
    pub lanes_wanted: u32,
    /// Lanes that carry new data: fewer than there are while other numbers are tried.
    pub lanes_active: usize,
    /// Numbers of lanes that were tried lately and bytes per second with each, with
    /// [`Streams::Auto`](super::Streams::Auto).
    pub lanes_tried: Vec<(u32, f64)>,
    /// Bytes written.
    pub bytes_written: u64,
    /// Bytes written that the other side has, up to the first that it has not.
    pub bytes_acked: u64,
    /// Bytes written that are kept until the other side has them.
    pub bytes_kept: u64,
    /// Bytes written that no lane has taken yet.
    pub bytes_unsent: u64,
    /// Bytes that had to be sent again since their lane had died.
    pub bytes_resent: u64,
    /// Bytes that came in, up to the first that did not.
    pub bytes_received: u64,
    /// Bytes held for the reader, or for others before them that are not in.
    pub bytes_held: u64,
}

/// How a lane is doing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaneStats {
    /// Its name on this side; counted up from 0 as lanes join.
    pub id: u32,
    /// Where it begins.
    pub local: Option<SocketAddr>,
    /// Bytes of the stream given to it.
    pub bytes_sent: u64,
    /// Bytes of the stream that came in on it.
    pub bytes_received: u64,
    /// Bytes given to it that the other side has not acknowledged.
    pub bytes_in_flight: u64,
    /// What the kernel knows of its connection.
    pub tcp: TcpInfo,
}

impl StripeStats {
    pub(super) fn of(core: &Core) -> StripeStats {
        let state = core.lock();
        let lane = |lane: &std::sync::Arc<super::state::Lane>| LaneStats {
            id: lane.id,
            local: lane.socket.local_addr().ok(),
            bytes_sent: lane.sent.load(Ordering::Relaxed),
            bytes_received: lane.received.load(Ordering::Relaxed),
            bytes_in_flight: state.out.load(lane.id).map_or(0, |load| load.in_flight),
            tcp: TcpInfo::of(&lane.socket).unwrap_or_default(),
        };
        StripeStats {
            lanes: state.lanes.values().map(lane).collect(),
            lanes_lost: state.lanes_lost,
            lanes_wanted: state.wanted.max(state.wanted_by_peer),
            lanes_active: state.out.active_lanes().count(),
            lanes_tried: state.lanes_tried.clone(),
            bytes_written: state.out.written(),
            bytes_acked: state.out.acked(),
            bytes_kept: state.out.unsent() + state.out.in_flight(),
            bytes_unsent: state.out.unsent(),
            bytes_resent: state.out.resent(),
            bytes_received: state.inc.received(),
            bytes_held: state.inc.held(),
        }
    }
}
