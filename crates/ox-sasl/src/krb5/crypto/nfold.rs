//! n-fold (RFC 3961, 5.1): spreads text over a fixed number of bytes.

/// Concatenates copies of the input, each rotated 13 bits further to the right, until the length is a multiple of `LENGTH`,
/// and adds the parts in ones' complement.
pub(super) fn nfold<const LENGTH: usize>(input: &[u8]) -> [u8; LENGTH] {
    let bits = input.len() * 8;
    let total = lcm(input.len(), LENGTH);
    let mut sums = [0_u32; LENGTH];
    for at in 0..total {
        let rotation = 13 * (at / input.len());
        let first_bit = at % input.len() * 8;
        let byte = (0..8).fold(0, |byte, bit| {
            let source = (first_bit + bit + bits - rotation % bits) % bits;
            byte << 1 | u32::from(input[source / 8] >> (7 - source % 8) & 1)
        });
        sums[at % LENGTH] += byte;
    }
    // The carry out of the first byte is added to the last.
    let mut carry = 0;
    loop {
        for sum in sums.iter_mut().rev() {
            *sum += carry;
            carry = *sum >> 8;
            *sum &= 0xFF;
        }
        if carry == 0 {
            return sums.map(|sum| sum.to_be_bytes()[3]);
        }
    }
}

fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of RFC 3961, A.1.
    #[test]
    fn rfc_3961_vectors_are_reproduced() {
        assert_eq!(nfold::<8>(b"012345"), [0xBE, 0x07, 0x26, 0x31, 0x27, 0x6B, 0x19, 0x55]);
        assert_eq!(nfold::<7>(b"password"), [0x78, 0xA0, 0x7B, 0x6C, 0xAF, 0x85, 0xFA]);
        assert_eq!(nfold::<8>(b"kerberos"), *b"kerberos");
        let kerberos = [0x6B, 0x65, 0x72, 0x62, 0x65, 0x72, 0x6F, 0x73, 0x7B, 0x9B, 0x5B, 0x2B, 0x93, 0x13, 0x2B, 0x93];
        assert_eq!(nfold::<16>(b"kerberos"), kerberos);
        assert_eq!(nfold::<8>(b"Rough Consensus, and Running Code"), [0xBB, 0x6E, 0xD3, 0x08, 0x70, 0xB7, 0xF0, 0xE0]);
    }
}
