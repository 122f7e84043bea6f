//! How what a session sends is marked, and who hears by which flows it goes.

use crate::flow::{Flow, Protocol};
use crossbeam_channel::Sender;
use longhaul_proto::dscp::Dscp;
use longhaul_proto::scitag::SciTag;
use std::net::SocketAddr;
use std::sync::Arc;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// What packets ask routers for.
    pub dscp: Dscp,
    /// Whose traffic it is, which the flow label of IPv6 says.
    pub scitag: Option<SciTag>,
    /// Takes each flow when it begins to carry data.
    pub flows: Option<Sender<Arc<Flow>>>,
}

impl Marks {
    /// A flow begins.
    pub(crate) fn announce(&self, flow: &Arc<Flow>) {
        if let Some(flows) = &self.flows {
            // Nobody listens any more when the session is over.
            let _ = flows.send(flow.clone());
        }
    }

    /// So many bytes have gone and come in datagrams between these ends, if anybody is to hear of that. The first of them begin
    /// a flow.
    pub(crate) fn note_datagrams(
        &self,
        flow: &mut Option<Arc<Flow>>,
        ends: impl FnOnce() -> Option<(SocketAddr, SocketAddr)>,
        [sent, received]: [usize; 2],
    ) {
        if self.flows.is_none() || sent + received == 0 {
            return;
        }
        if flow.is_none()
            && let Some((local, peer)) = ends()
        {
            let begun = Flow::new(Protocol::Udp, local, peer);
            self.announce(&begun);
            *flow = Some(begun);
        }
        if let Some(flow) = flow {
            flow.note_sent(sent);
            flow.note_received(received);
        }
    }
}
