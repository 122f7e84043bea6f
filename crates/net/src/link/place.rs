//! Whether the peer is where its datagrams seem to come from.

use super::super::address::Address;
use super::{PeerLink, SCRATCH, Socket};
use longhaul_proto::endpoint::Transmit;
use longhaul_proto::wire::{HEADER_LEN, SEAL_OVERHEAD};
use std::net::SocketAddr;

impl PeerLink {
    /// Somebody else has named the peer's addresses, and may be the peer. Of several, one that answers is to show that it is there.
    pub fn distrust(&mut self) {
        if let Socket::Open(..) = self.socket {
            self.address = Address::named();
        }
    }

    /// The peer has repeated what was only told to the address at which it is thought to be.
    pub fn note_proven(&mut self) {
        self.address.note_proven();
    }

    /// Whether a body of `len` bytes may go to the peer. Until that has shown that it is where it seems to be, no more than
    /// three times what came from there goes there (RFC 9000 §8.1).
    pub fn allows(&self, len: usize) -> bool {
        self.address.allows(len + SEAL_OVERHEAD)
    }

    /// Another address from which something authentic came since this was last asked. Whether the peer is there is to be
    /// found out before more than a word goes there.
    pub fn take_newcomer(&mut self) -> Option<SocketAddr> {
        self.address.take_newcomer()
    }

    /// Send one early datagram to another address than the peer's.
    pub fn ask_at(
        &mut self,
        peer: SocketAddr,
        scratch: &mut Vec<u8>,
        write: impl FnOnce(&mut [u8]) -> Transmit,
    ) {
        scratch.resize(SCRATCH, 0);
        let transmit = write(&mut scratch[HEADER_LEN..]);
        let len = transmit.len + SEAL_OVERHEAD;
        self.keys.early.seal(&mut scratch[..len], transmit.number);
        if let Socket::Connected(socket) = &mut self.socket {
            // What is lost is asked again when something comes from there again.
            let _ = socket.send_run(&scratch[..len], len, Some(peer));
        }
    }

    /// The peer is there from now on, and has shown it.
    pub fn move_to(&mut self, peer: SocketAddr) {
        if let Socket::Connected(socket) = &self.socket
            && socket.connect(peer).is_ok()
        {
            self.flow = None;
            self.address.moved_and_proven(peer);
        }
    }
}
