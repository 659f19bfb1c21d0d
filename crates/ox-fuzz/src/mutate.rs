//! Random mutations of valid inputs.

use rand::RngExt as _;
use rand_pcg::Pcg64;

/// Numbers at the bounds of lengths and counts.
const NUMBERS: [u32; 12] =
    [0, 1, 2, 0x7f, 0xff, 0xffff, 0xf_ffff, 0x10_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];

/// Maximum size that mutations grow an input to.
const BYTES_MAX: usize = 1 << 20;

/// One input: a corpus entry with a few random changes.
pub(crate) fn mutate(corpus: &[Vec<u8>], random: &mut Pcg64) -> Vec<u8> {
    let mut bytes = corpus[random.random_range(0..corpus.len())].clone();
    for _ in 0..random.random_range(0..6) {
        change(&mut bytes, corpus, random);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Pcg64) {
    let length = bytes.len();
    let at = random.random_range(0..=length);
    match random.random_range(0..8) {
        0 if at < length => bytes[at] ^= 1 << random.random_range(0..8),
        1 if at < length => bytes[at] = random.random(),
        2 => {
            let number = NUMBERS[random.random_range(0..NUMBERS.len())].to_be_bytes();
            let end = length.min(at + 4);
            bytes[at..end].copy_from_slice(&number[..end - at]);
        }
        3 => bytes.truncate(at),
        4 => {
            let end = random.random_range(at..=length);
            bytes.drain(at..end);
        }
        5 => {
            let end = random.random_range(at..=length).min(at + 4096);
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        6 => {
            let other = &corpus[random.random_range(0..corpus.len())];
            let from = random.random_range(0..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => {
            let fill: u8 = random.random();
            let count = random.random_range(0..64);
            bytes.splice(at..at, std::iter::repeat_n(fill, count));
        }
    }
}
