//! Taking the bytes of a lane apart as they come, however they are cut.

use super::Violation;
use super::frame::{Frame, HEADER_LEN, Header};

/// Opens sealed frames; one for each lane.
pub trait Opener {
    /// Bytes behind each payload.
    fn tag_len(&self) -> usize;

    /// Open the payload with its tag in place; what is left of `sealed` is the payload. `false`: not authentic.
    fn open(&mut self, header: &[u8; HEADER_LEN], sealed: &mut Vec<u8>) -> bool;
}

/// Frames in clear.
#[derive(Clone, Copy, Debug, Default)]
pub struct InClear;

impl Opener for InClear {
    fn tag_len(&self) -> usize {
        0
    }

    fn open(&mut self, _: &[u8; HEADER_LEN], _: &mut Vec<u8>) -> bool {
        true
    }
}

/// The reading end of a lane. The driver reads into [`LaneReader::space`], says how much with [`LaneReader::filled`],
/// then calls [`LaneReader::poll`] until there is no more frame.
#[derive(Debug, Default)]
pub struct LaneReader {
    head: [u8; HEADER_LEN],
    head_have: usize,
    body: Option<Body>,
}

/// A frame whose header is known.
#[derive(Debug)]
struct Body {
    header: Header,
    head: [u8; HEADER_LEN],
    /// Payload and tag.
    bytes: Vec<u8>,
    have: usize,
}

impl LaneReader {
    /// Where the next bytes of the lane belong: first the rest of the current frame, then the next frame's header. So
    /// one system call can take both, and a payload lands where it stays.
    pub fn space(&mut self) -> (&mut [u8], &mut [u8]) {
        let body = match &mut self.body {
            Some(body) => &mut body.bytes[body.have..],
            None => &mut [],
        };
        (body, &mut self.head[self.head_have..])
    }

    /// So many bytes were read, in the order of [`LaneReader::space`].
    pub fn filled(&mut self, len: usize) {
        let mut rest = len;
        if let Some(body) = &mut self.body {
            let taken = rest.min(body.bytes.len() - body.have);
            body.have += taken;
            rest -= taken;
        }
        self.head_have += rest;
        debug_assert!(self.head_have <= HEADER_LEN, "more filled than there was space");
    }

    /// The next frame, if all of it is there. Memory for payloads comes from `spare` while that holds any.
    pub fn poll(
        &mut self,
        opener: &mut impl Opener,
        spare: &mut Vec<Vec<u8>>,
    ) -> Result<Option<Frame>, Violation> {
        if self.body.is_none() {
            if self.head_have < HEADER_LEN {
                return Ok(None);
            }
            let header = Header::decode(&self.head)?;
            let mut bytes = spare.pop().unwrap_or_default();
            bytes.resize(header.len as usize + opener.tag_len(), 0);
            self.body = Some(Body { header, head: self.head, bytes, have: 0 });
            self.head_have = 0;
        }
        let Some(mut body) = self.body.take_if(|body| body.have == body.bytes.len()) else { return Ok(None) };
        if !opener.open(&body.head, &mut body.bytes) {
            return Err(Violation::Forged);
        }
        Frame::decode(&body.header, body.bytes).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stripe::frame::{Ack, PAYLOAD_MAX};
    use proptest::prelude::*;

    fn bytes_of(frames: &[Frame]) -> Vec<u8> {
        let mut bytes = vec![];
        for frame in frames {
            let (header, payload) = frame.encode();
            bytes.extend(header.encode());
            bytes.extend(payload);
        }
        bytes
    }

    fn read(bytes: &[u8], cuts: &[usize]) -> Result<Vec<Frame>, Violation> {
        let (mut reader, mut frames, mut at, mut cuts) =
            (LaneReader::default(), vec![], 0, cuts.iter().cycle());
        while at < bytes.len() {
            let (first, second) = reader.space();
            let want = first.len() + second.len();
            let len = want.min(*cuts.next().unwrap_or(&1)).min(bytes.len() - at);
            let in_first = len.min(first.len());
            first[..in_first].copy_from_slice(&bytes[at..at + in_first]);
            second[..len - in_first].copy_from_slice(&bytes[at + in_first..at + len]);
            at += len;
            reader.filled(len);
            while let Some(frame) = reader.poll(&mut InClear, &mut vec![])? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(
            sizes in proptest::collection::vec(0..300usize, 1..20),
            cuts in proptest::collection::vec(1..400usize, 1..20),
        ) {
            let frames: Vec<_> = sizes.into_iter().map(|size| match size {
                0 => Frame::Stop,
                1 => Frame::Ack(Ack { received: 7, ranges: vec![(9, 10)], ..Ack::default() }),
                _ => Frame::Data { offset: 3, bytes: (0..size).map(|i| i as u8).collect() },
            }).collect();
            prop_assert_eq!(read(&bytes_of(&frames), &cuts), Ok(frames));
        }

        #[test]
        fn noise_is_refused_or_waited_for_without_taking_memory(
            bytes in proptest::collection::vec(any::<u8>(), 0..500),
        ) {
            let mut reader = LaneReader::default();
            for byte in bytes {
                let (first, second) = reader.space();
                prop_assert!(first.len() <= PAYLOAD_MAX);
                *first.iter_mut().chain(second).next().expect("there is always space") = byte;
                reader.filled(1);
                if reader.poll(&mut InClear, &mut vec![]).is_err() {
                    break;
                }
            }
        }
    }
}
