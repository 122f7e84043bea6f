//! What is listed before anything is copied, as bytes: serialised, then compressed, since names repeat. The
//! sender's listing is its manifest with what could not be listed, so that the receiver knows both before it does
//! anything. In a pull the client may have named the files first.

use longhaul_proto::session::manifest::{BadManifest, Manifest};
use longhaul_proto::session::message::FileFailure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read};

/// Why a list of files is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListingError {
    /// It cannot be serialised.
    #[error("the list of files cannot be written: {0}")]
    Unwritable(#[from] postcard::Error),
    /// It cannot be compressed.
    #[error("the list of files cannot be compressed: {0}")]
    Incompressible(io::Error),
    /// What came is not compressed.
    #[error("the other side sent a list of files that cannot be read")]
    Garbled,
    /// What came is no list.
    #[error("the other side sent a list of files that makes no sense")]
    Senseless,
    /// What came must not be used.
    #[error(transparent)]
    Unsafe(#[from] BadManifest),
    /// What came is longer than a list may be.
    #[error("the list of files is too long; copy its folders one by one")]
    TooLong,
}

/// Compress a listing.
pub fn encode(manifest: &Manifest, errors: &[FileFailure]) -> Result<Vec<u8>, ListingError> {
    pack(&(manifest, errors))
}

/// Expand a listing and check it.
pub fn decode(bytes: &[u8]) -> Result<(Manifest, Vec<FileFailure>), ListingError> {
    let (manifest, errors): (Manifest, Vec<FileFailure>) = unpack(bytes)?;
    manifest.validate()?;
    Ok((manifest, errors))
}

/// Compress names of files.
pub fn encode_names(names: &[Vec<u8>]) -> Result<Vec<u8>, ListingError> {
    pack(&names)
}

/// Expand names of files. Whoever uses them checks where they lead.
pub fn decode_names(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ListingError> {
    unpack(bytes)
}

fn pack(value: &impl Serialize) -> Result<Vec<u8>, ListingError> {
    zstd::bulk::compress(&postcard::to_allocvec(value)?, LEVEL).map_err(ListingError::Incompressible)
}

fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ListingError> {
    let garbled = |_| ListingError::Garbled;
    let mut plain = vec![];
    let expander = zstd::stream::read::Decoder::new(bytes).map_err(garbled)?;
    expander.take(EXPANDED_MAX).read_to_end(&mut plain).map_err(garbled)?;
    postcard::from_bytes(&plain).map_err(|_| ListingError::Senseless)
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
    use longhaul_proto::session::reason::{Cause, Reason};

    fn entry(path: &str) -> Entry {
        let kind = Kind::File { size: 4096, extents: None, version: None };
        Entry { path: path.into(), kind, mode: 0o644, mtime: (1_700_000_000, 123_456_789) }
    }

    #[test]
    fn a_thousand_names_fit_the_first_flight() {
        let entries = (0..1000).map(|i| entry(&format!("run-7/sample-{i:05}.dat"))).collect();
        let manifest = Manifest { entries };
        let errors = vec![FileFailure {
            path: b"locked".into(),
            reason: Reason::new(Cause::Denied, "permission denied"),
        }];
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
        assert!(decode(&bytes).unwrap_err().to_string().contains("unsafe path"));
    }

    #[test]
    fn names_are_read_back() {
        let names: Vec<Vec<u8>> = (0..50_000).map(|i| format!("runs/{i}").into_bytes()).collect();
        assert_eq!(decode_names(&encode_names(&names).unwrap()).unwrap(), names);
    }
}
