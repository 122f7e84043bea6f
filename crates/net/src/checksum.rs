//! What the commands `sha256sum` and `cksum` print of bytes that stand at their input.

use aws_lc_rs::digest::{SHA256, digest};

/// The hash that `sha256sum` prints.
pub fn sha256sum(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The checksum and the length, as `cksum` prints them (POSIX.1-2017, XCU 4 `cksum`).
pub fn cksum(bytes: &[u8]) -> String {
    let next = |crc: u32, byte: u8| crc << 8 ^ TABLE[usize::from((crc >> 24) as u8 ^ byte)];
    let mut crc = bytes.iter().fold(0, |crc, byte| next(crc, *byte));
    let mut left = bytes.len();
    while left > 0 {
        crc = next(crc, left as u8);
        left >>= 8;
    }
    format!("{} {}", !crc, bytes.len())
}

/// What each leading byte does to the rest of the sum.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u32) << 24, 0);
        while bit < 8 {
            crc = crc << 1 ^ if crc >> 31 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// That of Ethernet (ISO/IEC 8802-3).
const POLYNOMIAL: u32 = 0x04c1_1db7;

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
