//! Numbers from a seed. Tests print the seed with a failure, and `SEGNO_SEED` sets the first one.

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    /// Text in pieces of one character or more.
    pub(crate) fn split(&mut self, text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        let mut pieces = Vec::new();
        let mut rest = chars.as_slice();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(1 + self.below(rest.len().min(12)));
            pieces.push(piece.iter().collect());
            rest = after;
        }
        pieces
    }
}
