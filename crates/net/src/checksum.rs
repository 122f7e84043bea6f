//! What the commands `sha256sum` and `cksum` print of bytes that stand at their input.

use aws_lc_rs::digest::{SHA256, digest};
use crc::{CRC_32_CKSUM, Crc, Table};

/// The hash that `sha256sum` prints.
pub fn sha256sum(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The checksum and the length, as `cksum` prints them (POSIX.1-2017, XCU 4 `cksum`).
pub fn cksum(bytes: &[u8]) -> String {
    static CKSUM: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_CKSUM);
    let len = bytes.len().to_le_bytes();
    let zeros = len.iter().rev().take_while(|byte| **byte == 0).count();
    let mut digest = CKSUM.digest();
    digest.update(bytes);
    digest.update(&len[..len.len() - zeros]);
    format!("{} {}", digest.finalize(), bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_commands() {
        assert_eq!(sha256sum(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(cksum(b"123456789"), "930766865 9");
        assert_eq!(cksum(b""), "4294967295 0");
    }
}
