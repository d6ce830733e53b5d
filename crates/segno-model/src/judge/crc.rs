//! Arithmetic on the log's checksum, beyond computing it.
//!
//! Responsible for: undoing a CRC byte by byte, so that one flipped bit is found in one pass and the
//! checksum of every stretch of a line is known from the checksums of its prefixes. Must not: know
//! what a record is.
//!
//! A CRC is a remainder of polynomials over GF(2). Appending a zero byte multiplies it by x^8, which
//! has an inverse; and the CRC of two byte strings that differ in one bit differ by a value that
//! depends only on the bit and on how many bytes follow it.

/// The reflected polynomial of CRC-32/ISO-HDLC.
const POLY: u32 = 0xEDB8_8320;

const TABLE: [u32; 256] = table();
/// For the top byte of a table entry: its index. The top bytes are all different.
const INDEX: [u8; 256] = index();

const fn table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ POLY } else { value >> 1 };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
}

const fn index() -> [u8; 256] {
    let mut index = [0u8; 256];
    let mut i = 0;
    while i < 256 {
        index[(TABLE[i] >> 24) as usize] = i as u8;
        i += 1;
    }
    index
}

/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// Takes one trailing zero byte away again: multiplies by x^-8.
#[inline]
fn step_back(value: u32) -> u32 {
    let i = INDEX[(value >> 24) as usize];
    ((value ^ TABLE[i as usize]) << 8) | u32::from(i)
}

/// The product of two polynomials modulo the CRC's.
fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = ONE;
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = if b & 1 == 1 { (b >> 1) ^ POLY } else { b >> 1 };
        bit >>= 1;
    }
    product
}

/// Which single bit, flipped back, turns bytes of length `len` with checksum `actual` into bytes with
/// checksum `wanted`: the byte's index and the bit's mask. There is at most one for any line that
/// fits into memory, because the polynomial's period is 2^32-1 bits.
pub(super) fn flipped_bit(len: usize, actual: u32, wanted: u32) -> Option<(usize, u8)> {
    let mut difference = actual ^ wanted;
    for i in (0..len).rev() {
        if let Some(bit) = (0..8).find(|bit| TABLE[1usize << bit] == difference) {
            return Some((i, 1 << bit));
        }
        difference = step_back(difference);
    }
    None
}

/// Walks along some bytes and gives every place in them a key, such that a stretch from `s` to `e` has
/// the checksum `c` exactly if `key(s, 0) == key(e, c)`. So that matching starts to ends takes one
/// look-up for each end, whatever a hostile line holds.
pub(super) struct Places<'a> {
    bytes: &'a [u8],
    at: usize,
    prefix: crc32fast::Hasher,
    /// x^(-8 * at).
    factor: u32,
}

impl<'a> Places<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, prefix: crc32fast::Hasher::new(), factor: ONE }
    }

    /// The key of place `at` for a checksum; places must be asked for in ascending order.
    pub(super) fn key(&mut self, at: usize, checksum: u32) -> u32 {
        if let Some(between) = self.bytes.get(self.at..at) {
            self.prefix.update(between);
            for _ in between {
                self.factor = step_back(self.factor);
            }
            self.at = at;
        }
        multiply(self.prefix.clone().finalize() ^ checksum, self.factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_flip_is_found_where_it_is() {
        let good = b"{\"seq\":7,\"text\":\"some line of a log\"".to_vec();
        let wanted = crc32fast::hash(&good);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let found = flipped_bit(bad.len(), crc32fast::hash(&bad), wanted);
            assert_eq!(found, Some((bit / 8, 1 << (bit % 8))), "bit {bit}");
        }
    }

    #[test]
    fn keys_meet_exactly_for_matching_stretches() {
        let bytes: Vec<u8> = (0..200u32).map(|i| (i * 37 % 251) as u8).collect();
        for start in 0..bytes.len() {
            let mut places = Places::new(&bytes);
            let key = places.key(start, 0);
            for end in start..bytes.len() {
                let checksum = crc32fast::hash(&bytes[start..end]);
                assert_eq!(key, places.key(end, checksum), "{start}..{end}");
                assert_ne!(key, places.key(end, checksum ^ 1), "{start}..{end}");
            }
        }
    }
}
