use super::*;
use proptest::prelude::*;

/// A flow's bytes from `number` on, as its host hands them over: many packets of `piece_len` each, or one.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) is_tcp: bool,
    pub(crate) is_v6: bool,
    pub(crate) number: u32,
    pub(crate) ip_number: u16,
    pub(crate) flags: u8,
    pub(crate) piece_len: usize,
    pub(crate) payload: Vec<u8>,
}

impl Stream {
    /// What goes to the device or comes from it.
    pub(crate) fn handed_over(&self) -> Vec<u8> {
        let is_many = self.payload.len() > self.piece_len;
        let kind = match (self.is_tcp, self.is_v6) {
            _ if !is_many => 0,
            (true, false) => KIND_TCP_V4,
            (true, true) => KIND_TCP_V6,
            (false, _) => KIND_UDP,
        };
        let mut transport = vec![0u8; if self.is_tcp { 32 } else { 8 }];
        transport[..4].copy_from_slice(&[0x1d, 0x4c, 0x1d, 0x4d]);
        let len = (transport.len() + self.payload.len()) as u16;
        if self.is_tcp {
            transport[4..8].copy_from_slice(&self.number.to_be_bytes());
            (transport[12], transport[13]) = (0x80, self.flags);
        } else {
            put_u16(&mut transport, 4, len);
        }
        let check_at = if self.is_tcp { 16 } else { 6 };
        let ip = self.ip(len);
        let addresses = if self.is_v6 { &ip[8..40] } else { &ip[12..20] };
        let protocol = if self.is_tcp { 6 } else { 17 };
        put_u16(&mut transport, check_at, sum(sum_of(addresses), sum(protocol, len)));

        let piece_len = if is_many { self.piece_len as u16 } else { 0 };
        let headers_len = (ip.len() + transport.len()) as u16;
        let mut bytes = vec![1, kind];
        for number in [headers_len, piece_len, ip.len() as u16, check_at as u16] {
            bytes.extend(number.to_ne_bytes());
        }
        [bytes, ip, transport, self.payload.clone()].concat()
    }

    fn ip(&self, len: u16) -> Vec<u8> {
        if self.is_v6 {
            let mut ip = vec![7; 40];
            (ip[0], ip[6]) = (0x60, if self.is_tcp { 6 } else { 17 });
            put_u16(&mut ip, 4, len);
            return ip;
        }
        let mut ip = vec![9; 20];
        (ip[0], ip[9]) = (0x45, if self.is_tcp { 6 } else { 17 });
        put_u16(&mut ip, 2, len + 20);
        put_u16(&mut ip, 4, self.ip_number);
        put_u16(&mut ip, 10, 0);
        let check = !sum_of(&ip);
        put_u16(&mut ip, 10, check);
        ip
    }

    /// Some of its packets, as the host would have handed them over by themselves.
    fn some(&self, which: &Range<u32>) -> Stream {
        let count = self.payload.len().div_ceil(self.piece_len) as u32;
        let end = |n: u32| (n as usize * self.piece_len).min(self.payload.len());
        let mut flags = self.flags;
        if which.start > 0 {
            flags &= !TCP_CWR;
        }
        if which.end < count {
            flags &= !(TCP_FIN | TCP_PSH);
        }
        Stream {
            number: self.number.wrapping_add(end(which.start) as u32),
            ip_number: self.ip_number.wrapping_add(which.start as u16),
            flags,
            payload: self.payload[end(which.start)..end(which.end)].to_vec(),
            ..self.clone()
        }
    }
}

/// RFC 1071.
fn sum_of(bytes: &[u8]) -> u16 {
    bytes.chunks(2).map(|two| u16_at(two, 0)).fold(0, sum)
}

/// Of 2 to 44 packets.
pub(crate) fn streams() -> impl Strategy<Value = Stream> {
    let payload = (2..=1460usize, 1..=43usize, any::<prop::sample::Index>(), any::<u8>()).prop_map(
        |(piece_len, whole, rest, seed)| {
            let len = whole * piece_len + rest.index(piece_len) + 1;
            (piece_len, (0..len).map(|at| (at as u8).wrapping_mul(31) ^ seed ^ (at >> 8) as u8).collect())
        },
    );
    (any::<(bool, bool, u32, u16, u8)>(), payload).prop_map(
        |((is_tcp, is_v6, number, ip_number, flags), (piece_len, payload))| Stream {
            is_tcp,
            is_v6,
            number,
            ip_number,
            flags,
            piece_len,
            payload,
        },
    )
}

/// 0xffff and 0 are the same in one's complement, and the kernel may write either.
fn with_one_zero(mut bytes: Vec<u8>, shape: &Shape) -> Vec<u8> {
    let ip_check = (bytes[NOTE_LEN] >> 4 == 4).then_some(NOTE_LEN + 10);
    for at in [Some(shape.check_at), ip_check].into_iter().flatten() {
        if u16_at(&bytes, at) == 0xffff {
            put_u16(&mut bytes, at, 0);
        }
    }
    bytes
}

proptest! {
    #[test]
    fn what_is_cut_is_what_the_host_would_have_made(stream in streams(), bounds: [prop::sample::Index; 2]) {
        let bytes = stream.handed_over();
        let shape = Shape::of(&bytes).unwrap();
        let count = shape.packets();
        prop_assert_eq!(count as usize, stream.payload.len().div_ceil(stream.piece_len));
        let [a, b] = bounds.map(|bound| bound.index(count as usize) as u32);
        let which = a.min(b)..a.max(b) + 1;
        let mut cut = vec![0; SUPER_LEN_MAX];
        let len = shape.cut(&bytes, &which, &mut cut);
        cut.truncate(len);
        let expected = stream.some(&which).handed_over();
        prop_assert_eq!(with_one_zero(cut, &shape), with_one_zero(expected, &shape));
        let lens: usize = which.clone().map(|n| shape.packet_len(n)).sum();
        prop_assert_eq!(shape.packets_len(&which), lens);
    }

    #[test]
    fn garbage_is_a_single_packet_or_cut_without_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..3000), kind in 0u8..8) {
        if let Some(first) = bytes.get_mut(1) {
            *first = kind;
        }
        if let Some(shape) = Shape::of(&bytes) {
            let mut into = vec![0; SUPER_LEN_MAX];
            for n in 0..shape.packets() {
                let len = shape.cut(&bytes, &(n..n + 1), &mut into);
                prop_assert_eq!(len - NOTE_LEN, shape.packet_len(n));
            }
        }
    }
}
