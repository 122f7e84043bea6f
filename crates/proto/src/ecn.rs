//! Explicit congestion notification: two bits of the IP header (RFC 3168 §5, RFC 9331 §4).

/// What a datagram's IP header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Queues that are too long drop it.
    #[default]
    NotEct = 0,
    /// They may mark it instead; its sender answers in small steps (L4S, RFC 9331).
    Ect1 = 1,
    /// They may mark it instead; its sender answers as to a loss (RFC 3168).
    Ect0 = 2,
    /// A queue marked it.
    Ce = 3,
}

impl Ecn {
    /// From the last two bits of IPv4's type of service or IPv6's traffic class.
    pub fn from_bits(byte: u8) -> Ecn {
        match byte & BITS {
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            3 => Ecn::Ce,
            _ => Ecn::NotEct,
        }
    }

    /// The two bits.
    pub fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a queue may mark it.
    pub fn is_capable(self) -> bool {
        self != Ecn::NotEct
    }
}

const BITS: u8 = 3;
