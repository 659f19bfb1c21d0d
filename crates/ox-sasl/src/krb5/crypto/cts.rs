//! AES in CBC mode with ciphertext stealing (CBC-CS3), initial vector zero.

use super::BLOCK;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes256, Block};
use zeroize::Zeroizing;

enum Cipher {
    Aes128(Box<Aes128>),
    Aes256(Box<Aes256>),
}

impl Cipher {
    fn new(key: &[u8]) -> Self {
        let expected = "keys have 16 or 32 bytes";
        if key.len() == 32 {
            Self::Aes256(Box::new(Aes256::new_from_slice(key).expect(expected)))
        } else {
            Self::Aes128(Box::new(Aes128::new_from_slice(key).expect(expected)))
        }
    }

    fn encrypt(&self, block: [u8; BLOCK]) -> [u8; BLOCK] {
        let mut block = Block::from(block);
        match self {
            Self::Aes128(aes) => aes.encrypt_block(&mut block),
            Self::Aes256(aes) => aes.encrypt_block(&mut block),
        }
        block.into()
    }

    fn decrypt(&self, block: [u8; BLOCK]) -> [u8; BLOCK] {
        let mut block = Block::from(block);
        match self {
            Self::Aes128(aes) => aes.decrypt_block(&mut block),
            Self::Aes256(aes) => aes.decrypt_block(&mut block),
        }
        block.into()
    }
}

/// Encrypts one block, for key derivation.
pub(super) fn encrypt_block(key: &[u8], block: [u8; BLOCK]) -> [u8; BLOCK] {
    Cipher::new(key).encrypt(block)
}

fn xor(a: [u8; BLOCK], b: [u8; BLOCK]) -> [u8; BLOCK] {
    std::array::from_fn(|at| a[at] ^ b[at])
}

/// A block of what is left, filled up with zeros.
fn block(bytes: &[u8]) -> [u8; BLOCK] {
    std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
}

/// Encrypts at least one block. The last two blocks are swapped, and the result has the length of the input.
pub(super) fn encrypt(key: &[u8], plain: &[u8]) -> Vec<u8> {
    assert!(BLOCK <= plain.len(), "a confounder is one block");
    let cipher = Cipher::new(key);
    let mut previous = [0; BLOCK];
    let blocks: Vec<[u8; BLOCK]> = plain
        .chunks(BLOCK)
        .map(|chunk| {
            previous = cipher.encrypt(xor(previous, block(chunk)));
            previous
        })
        .collect();
    let mut out = blocks.concat();
    if let [.., second_last, last] = blocks.as_slice() {
        let start = (blocks.len() - 2) * BLOCK;
        out.truncate(start);
        out.extend_from_slice(last);
        out.extend_from_slice(second_last);
        out.truncate(plain.len());
    }
    out
}

/// Decrypts at least one block.
pub(super) fn decrypt(key: &[u8], encrypted: &[u8]) -> Zeroizing<Vec<u8>> {
    assert!(BLOCK <= encrypted.len(), "the caller has checked the length");
    let cipher = Cipher::new(key);
    let mut out = Zeroizing::new(Vec::with_capacity(encrypted.len() + BLOCK));
    let count = encrypted.len().div_ceil(BLOCK);
    if count == 1 {
        out.extend_from_slice(&cipher.decrypt(block(encrypted)));
        return out;
    }
    let (body, tail) = encrypted.split_at((count - 2) * BLOCK);
    let mut previous = [0; BLOCK];
    for chunk in body.chunks_exact(BLOCK) {
        let current = block(chunk);
        out.extend_from_slice(&xor(previous, cipher.decrypt(current)));
        previous = current;
    }
    // The first block of the tail was encrypted last; what it lacks of the other block's end is in its plain text.
    let (last, stolen) = tail.split_at(BLOCK);
    let decrypted = cipher.decrypt(block(last));
    let second_last: [u8; BLOCK] = std::array::from_fn(|at| stolen.get(at).copied().unwrap_or(decrypted[at]));
    out.extend_from_slice(&xor(previous, cipher.decrypt(second_last)));
    out.extend_from_slice(&xor(decrypted, second_last)[..stolen.len()]);
    out
}
