//! What comes on the TCP connections that carry a transfer's datagrams.

use super::Script;
use longhaul_proto::streams::join::{FIRST_LEN, First, HELLO_LEN, Hello, MAGIC, MAGIC_LEN};
use longhaul_proto::streams::records::{LENGTH_LEN, RECORD_MAX, Records, encode_length, next_body};
use longhaul_proto::wire::{HEADER_LEN, Header, SEAL_OVERHEAD};

/// Bytes that come in any pieces: records come out whole and in order, each of which may hold a datagram, and no more
/// is held than one buffer.
pub fn records(bytes: &[u8]) {
    if let Some((hello, _)) = bytes.split_first_chunk::<HELLO_LEN>() {
        let read = Hello::decode(hello);
        assert_eq!(read.encode(MAGIC)[MAGIC_LEN..], hello[..]);
    }
    if let Some((first, _)) = bytes.split_first_chunk::<FIRST_LEN>() {
        assert_eq!(First::decode(first).encode()[MAGIC_LEN..], first[..]);
    }
    let mut script = Script { bytes };
    let mut records = Records::new(0);
    let (mut said, mut heard) = (0, 0);
    while let Some(piece) = script.piece() {
        let mut piece = piece;
        while !piece.is_empty() {
            let room = records.room();
            assert!(!room.is_empty() && room.len() <= LENGTH_LEN + RECORD_MAX);
            let len = room.len().min(piece.len());
            room[..len].copy_from_slice(&piece[..len]);
            records.filled(len);
            (said, piece) = (said + len, &piece[len..]);
            loop {
                match records.next_record() {
                    Ok(Some(record)) => {
                        assert!(record.len() >= SEAL_OVERHEAD);
                        heard += LENGTH_LEN + record.len();
                        let _ = Header::decode(record);
                        // Only what is authentic gets so far.
                        let mut bundle = &mut record[HEADER_LEN..];
                        while let Ok(Some(_)) = next_body(&mut bundle) {}
                    }
                    Ok(None) => break,
                    // The driver ends such a TCP stream.
                    Err(_) => return,
                }
            }
            assert!(heard <= said);
        }
    }
}

/// Whole records, and one that is cut off.
pub fn record_seeds() -> Vec<Vec<u8>> {
    let record = |len: usize| {
        let mut record = vec![0; LENGTH_LEN + len];
        encode_length(&mut record, len);
        record
    };
    let pieces = [record(40), [record(31), record(200)].concat(), record(1500)[..700].to_vec()];
    let mut script = vec![];
    for piece in &pieces {
        super::put_piece(&mut script, piece);
    }
    vec![script, Hello { connection_id: 9, nonce: [3; 32] }.encode(MAGIC)[MAGIC_LEN..].to_vec()]
}
