//! Vectors of RFC 3962 and RFC 8009.

use super::*;

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn rfc_3962_string_to_key_vectors_are_reproduced() {
    for (iterations, password, salt, key128, key256) in [
        (
            1,
            "password",
            "ATHENA.MIT.EDUraeburn",
            "42263c6e89f4fc28b8df68ee09799f15",
            "fe697b52bc0d3ce14432ba036a92e65bbb52280990a2fa27883998d72af30161",
        ),
        (
            2,
            "password",
            "ATHENA.MIT.EDUraeburn",
            "c651bf29e2300ac27fa469d693bdda13",
            "a2e16d16b36069c135d5e9d2e25f896102685618b95914b467c67622225824ff",
        ),
        (
            1200,
            "password",
            "ATHENA.MIT.EDUraeburn",
            "4c01cd46d632d01e6dbe230a01ed642a",
            "55a6ac740ad17b4846941051e1e8b0a7548d93b0ab30a8bc3ff16280382b8c2a",
        ),
    ] {
        let parameters = u32::to_be_bytes(iterations);
        for (etype, expected) in [(Etype::Aes128Sha1, key128), (Etype::Aes256Sha1, key256)] {
            let key =
                KerberosKey::from_password(etype, password.as_bytes(), salt.as_bytes(), Some(&parameters)).unwrap();
            assert_eq!(key.bytes(), unhex(expected));
        }
    }
}

#[test]
fn rfc_8009_string_to_key_vectors_are_reproduced() {
    let salt = [unhex("10DF9DD783E5BC8ACEA1730E74355F61"), b"ATHENA.MIT.EDUraeburn".to_vec()].concat();
    for (etype, expected) in [
        (Etype::Aes128Sha256, "089BCA48B105EA6EA77CA5D2F39DC5E7"),
        (Etype::Aes256Sha384, "45BD806DBF6A833A9CFFC1C94589A222367A79BC21C413718906E9F578A78467"),
    ] {
        let key = KerberosKey::from_password(etype, b"password", &salt, Some(&32768_u32.to_be_bytes())).unwrap();
        assert_eq!(key.bytes(), unhex(expected));
    }
}

#[test]
fn rfc_3962_ciphertext_stealing_vectors_are_reproduced() {
    let key = unhex("636869636b656e207465726979616b69");
    let text = b"I would like the General Gau's Chicken, please, and wonton soup.";
    for (length, expected) in [
        (17, "c6353568f2bf8cb4d8a580362da7ff7f97"),
        (31, "fc00783e0efdb2c1d445d4c8eff7ed2297687268d6ecccc0c07b25e25ecfe5"),
        (32, "39312523a78662d5be7fcbcc98ebf5a897687268d6ecccc0c07b25e25ecfe584"),
        (48, "97687268d6ecccc0c07b25e25ecfe5849dad8bbb96c4cdc03bc103e1a194bbd839312523a78662d5be7fcbcc98ebf5a8"),
    ] {
        assert_eq!(cts::encrypt(&key, &text[..length]), unhex(expected));
        assert_eq!(cts::decrypt(&key, &unhex(expected)).as_slice(), &text[..length]);
    }
    for length in 16..65 {
        assert_eq!(
            cts::decrypt(&key, &cts::encrypt(&key, &text[..length.min(64)])).as_slice(),
            &text[..length.min(64)]
        );
    }
}

/// RFC 8009, appendix A: usage 2.
#[test]
fn rfc_8009_encryption_and_checksum_vectors_are_reproduced() {
    let plain = unhex("000102030405060708090A0B0C0D0E0F1011121314");
    let key = KerberosKey::new(Etype::Aes128Sha256, &unhex("3705D96080C17728A0E800EAB6E0D23C")).unwrap();
    assert_eq!(*key.derive(KeyUsage::Ticket, CHECKSUM_KEY), unhex("B31A018A48F54776F403E9A396325DC3"));
    assert_eq!(*key.derive(KeyUsage::Ticket, ENCRYPTION_KEY), unhex("9B197DD1E8C5609D6E67C3E37C62C72E"));
    assert_eq!(*key.derive(KeyUsage::Ticket, INTEGRITY_KEY), unhex("9FDA0E56AB2D85E1569A688696C26A6C"));
    assert_eq!(key.checksum(KeyUsage::Ticket, &[&plain]), unhex("D78367186643D67B411CBA9139FC1DEE"));
    let cipher = unhex("EF85FB890BB8472F4DAB20394DCA781DAD877EDA39D50C870C0D5A0A8E48C718");
    assert_eq!(key.decrypt(KeyUsage::Ticket, &cipher, "vector").unwrap().as_slice(), b"");
    let mut confounder = unhex("7E5895EAF2672435BAD817F545A37148");
    let out = key.encrypt(KeyUsage::Ticket, b"", &mut |bytes| bytes.copy_from_slice(&std::mem::take(&mut confounder)));
    assert_eq!(out, cipher);
    let key = KerberosKey::new(
        Etype::Aes256Sha384,
        &unhex("6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52"),
    )
    .unwrap();
    assert_eq!(*key.derive(KeyUsage::Ticket, CHECKSUM_KEY), unhex("EF5718BE86CC84963D8BBB5031E9F5C4BA41F28FAF69E73D"));
    assert_eq!(key.checksum(KeyUsage::Ticket, &[&plain]), unhex("45EE791567EEFCA37F4AC1E0222DE80D43C3BFA06699672A"));
    let cipher = unhex("41F53FA5BFE7026D91FAF9BE959195A058707273A96A40F0A01960621AC612748B9BBFBE7EB4CE3C");
    assert_eq!(key.decrypt(KeyUsage::Ticket, &cipher, "vector").unwrap().as_slice(), b"");
}

#[test]
fn every_etype_decrypts_what_it_encrypts_and_nothing_else() {
    for etype in Etype::ALL {
        assert_eq!(Etype::from_number(etype.number()), Ok(etype));
        assert_eq!(Etype::from_name(&EtypeName(etype.number()).to_string()), Some(etype));
        let key = KerberosKey::random(etype, &mut |bytes| bytes.fill(3));
        for length in [0, 1, 15, 16, 17, 100] {
            let plain: Vec<u8> = (0..length).collect();
            let cipher = key.encrypt(KeyUsage::Ticket, &plain, &mut |bytes| bytes.fill(9));
            assert_eq!(key.decrypt(KeyUsage::Ticket, &cipher, "x").unwrap().as_slice(), plain);
            assert!(key.decrypt(KeyUsage::ApRep, &cipher, "x").is_err());
            for at in 0..cipher.len() {
                let mut altered = cipher.clone();
                altered[at] ^= 1;
                assert!(key.decrypt(KeyUsage::Ticket, &altered, "x").is_err());
                assert!(key.decrypt(KeyUsage::Ticket, &cipher[..at], "x").is_err());
            }
        }
    }
    let error = Etype::from_number(23).unwrap_err().to_string();
    assert!(error.starts_with("encryption type rc4-hmac is not supported"), "{error}");
    assert!(KerberosKey::from_password(Etype::Aes128Sha1, b"", b"", Some(&[0; 4])).is_err());
    assert!(KerberosKey::from_password(Etype::Aes128Sha1, b"", b"", Some(&[255; 4])).is_err());
    assert!(KerberosKey::from_password(Etype::Aes128Sha1, b"", b"", Some(&[1])).is_err());
}
