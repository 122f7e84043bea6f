//! The manifest as bytes: serialised, then compressed, since names repeat.

use longhaul_proto::session::manifest::Manifest;
use std::io::Read;

/// Fast and close to the best: lists of names gain little from more effort.
const LEVEL: i32 = 3;
/// A manifest longer than this when expanded is refused: some 50 million files.
const EXPANDED_MAX: u64 = 8 << 30;

/// Compress.
pub fn encode(manifest: &Manifest) -> Result<Vec<u8>, String> {
    let plain =
        postcard::to_allocvec(manifest).map_err(|e| format!("the list of files cannot be written: {e}"))?;
    zstd::bulk::compress(&plain, LEVEL).map_err(|e| format!("the list of files cannot be compressed: {e}"))
}

/// Expand and check.
pub fn decode(bytes: &[u8]) -> Result<Manifest, String> {
    let garbled = |_| "the other side sent a list of files that cannot be read".to_string();
    let mut plain = vec![];
    let expander = zstd::stream::read::Decoder::new(bytes).map_err(garbled)?;
    expander.take(EXPANDED_MAX).read_to_end(&mut plain).map_err(garbled)?;
    let manifest: Manifest = postcard::from_bytes(&plain)
        .map_err(|_| "the other side sent a list of files that makes no sense".to_string())?;
    manifest.validate().map_err(|bad| bad.to_string())?;
    Ok(manifest)
}

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
        let bytes = encode(&manifest).unwrap();
        assert_eq!(decode(&bytes).unwrap(), manifest);
        // Ten segments of a fresh TCP connection (RFC 6928) are 14 600 bytes.
        assert!(bytes.len() < 14_000, "{}", bytes.len());
    }

    #[test]
    fn garbage_and_unsafe_names_are_refused() {
        assert!(decode(b"not zstd").is_err());
        let bytes = encode(&Manifest { entries: vec![entry("../x")] }).unwrap();
        assert!(decode(&bytes).unwrap_err().contains("unsafe path"));
    }
}
