//! Random mutations of valid inputs.

use ox_testkit::Rng;

/// Numbers at the bounds of lengths and counts.
const NUMBERS: [u32; 12] =
    [0, 1, 2, 0x7f, 0xff, 0xffff, 0xf_ffff, 0x10_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];

/// Maximum size that mutations grow an input to.
const BYTES_MAX: usize = 1 << 20;

/// One input: a corpus entry with a few random changes.
pub(crate) fn mutate(corpus: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut bytes = random.pick(corpus).clone();
    for _ in 0..random.below(6) {
        change(&mut bytes, corpus, random);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Rng) {
    let length = bytes.len();
    let at = random.index(length + 1);
    match random.below(8) {
        0 if at < length => bytes[at] ^= 1 << random.below(8),
        1 if at < length => bytes[at] = random.byte(),
        2 => {
            let number = random.pick(&NUMBERS).to_be_bytes();
            let end = length.min(at + 4);
            bytes[at..end].copy_from_slice(&number[..end - at]);
        }
        3 => bytes.truncate(at),
        4 => {
            let end = at + random.index(length - at + 1);
            bytes.drain(at..end);
        }
        5 => {
            let end = (at + random.index(length - at + 1)).min(at + 4096);
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        6 => {
            let other = random.pick(corpus);
            let from = random.index(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => {
            let (fill, count) = (random.byte(), random.index(64));
            bytes.splice(at..at, std::iter::repeat_n(fill, count));
        }
    }
}
