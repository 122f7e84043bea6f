//! What is listed before anything is copied, as bytes: serialised, then compressed, since names repeat. The sender's listing
//! is its manifest with what could not be listed, so that the receiver knows both before it does anything. In a pull the
//! client may have named the files first.

use longhaul_proto::session::manifest::Manifest;
use longhaul_proto::session::message::FileFailure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Read;

/// Compress a listing.
pub fn encode(manifest: &Manifest, errors: &[FileFailure]) -> Result<Vec<u8>, String> {
    pack(&(manifest, errors))
}

/// Expand a listing and check it.
pub fn decode(bytes: &[u8]) -> Result<(Manifest, Vec<FileFailure>), String> {
    let (manifest, errors): (Manifest, Vec<FileFailure>) = unpack(bytes)?;
    manifest.validate().map_err(|bad| bad.to_string())?;
    Ok((manifest, errors))
}

/// Compress names of files.
pub fn encode_names(names: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    pack(&names)
}

/// Expand names of files. Whoever uses them checks where they lead.
pub fn decode_names(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    unpack(bytes)
}

fn pack(value: &impl Serialize) -> Result<Vec<u8>, String> {
    let plain =
        postcard::to_allocvec(value).map_err(|e| format!("the list of files cannot be written: {e}"))?;
    zstd::bulk::compress(&plain, LEVEL).map_err(|e| format!("the list of files cannot be compressed: {e}"))
}

fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let garbled = |_| "the other side sent a list of files that cannot be read".to_string();
    let mut plain = vec![];
    let expander = zstd::stream::read::Decoder::new(bytes).map_err(garbled)?;
    expander.take(EXPANDED_MAX).read_to_end(&mut plain).map_err(garbled)?;
    postcard::from_bytes(&plain)
        .map_err(|_| "the other side sent a list of files that makes no sense".to_string())
}

/// Fast and close to the best: lists of names gain little from more effort.
const LEVEL: i32 = 3;
/// A list longer than this when expanded is refused: some 50 million files.
const EXPANDED_MAX: u64 = 8 << 30;
/// One longer than this while compressed is refused before it comes: names alone shrink to a tenth.
pub const PACKED_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::session::manifest::{Entry, Kind};

    fn entry(path: &str) -> Entry {
        let kind = Kind::File { size: 4096, extents: None, hash: None };
        Entry { path: path.into(), kind, mode: 0o644, mtime: (1_700_000_000, 123_456_789) }
    }

    #[test]
    fn a_thousand_names_fit_the_first_flight() {
        let entries = (0..1000).map(|i| entry(&format!("run-7/sample-{i:05}.dat"))).collect();
        let manifest = Manifest { entries };
        let errors = vec![FileFailure { path: b"locked".into(), reason: "permission denied".into() }];
        let bytes = encode(&manifest, &errors).unwrap();
        assert_eq!(decode(&bytes).unwrap(), (manifest, errors));
        // Ten segments of a fresh TCP connection (RFC 6928) are 14 600 bytes.
        assert!(bytes.len() < 14_000, "{}", bytes.len());
    }

    #[test]
    fn garbage_and_unsafe_names_are_refused() {
        assert!(decode(b"not zstd").is_err());
        assert!(decode_names(b"not zstd").is_err());
        let bytes = encode(&Manifest { entries: vec![entry("../x")] }, &[]).unwrap();
        assert!(decode(&bytes).unwrap_err().contains("unsafe path"));
    }

    #[test]
    fn names_are_read_back() {
        let names: Vec<Vec<u8>> = (0..50_000).map(|i| format!("runs/{i}").into_bytes()).collect();
        assert_eq!(decode_names(&encode_names(&names).unwrap()).unwrap(), names);
    }
}
