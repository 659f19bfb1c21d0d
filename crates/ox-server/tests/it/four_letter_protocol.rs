//! How words are asked and answered.

use crate::four_letter_client::ALL_WORDS;
use crate::server_fixture::Served;

#[test]
fn what_follows_a_word_is_ignored() {
    let served = Served::with(ALL_WORDS);
    for bytes in ["ruok\n", "ruok\r\n", "ruokruok", "ruok and more than that"] {
        assert_eq!(served.word(bytes), "imok", "{bytes:?}");
    }
}

#[test]
fn a_word_may_come_in_parts() {
    let served = Served::with(ALL_WORDS);
    let mut raw = served.connect();
    for byte in b"ruok" {
        raw.send(&[*byte]);
        assert_eq!(served.word("ruok"), "imok", "others are served meanwhile");
    }
    assert_eq!(raw.rest(), b"imok");
}

#[test]
fn a_client_may_close_its_half() {
    let served = Served::with(ALL_WORDS);
    for word in ["ruok", "mntr", "cons"] {
        let mut raw = served.connect();
        raw.send(word.as_bytes());
        raw.finish();
        assert!(!raw.rest().is_empty(), "{word}");
    }
}

#[test]
fn anything_else_is_closed_without_a_reply() {
    let served = Served::with(ALL_WORDS);
    assert_eq!(served.word("GET / HTTP/1.1\r\n\r\n"), "");
    assert_eq!(served.word("RUOK"), "");
    assert_eq!(served.say(&[0xff, 0xf4, 0xff, 0xfd]), "", "enabled, but there is nothing to say");
}

#[test]
fn half_a_word_and_an_end_is_nothing() {
    let served = Served::with(ALL_WORDS);
    for bytes in ["", "ruo", "stmk\n"] {
        let mut raw = served.connect();
        raw.send(bytes.as_bytes());
        raw.finish();
        raw.expect_closed();
    }
}

#[test]
fn words_are_listed_by_name() {
    let served = Served::with("4lw.commands.whitelist=ruok, mntr\n");
    assert_eq!(served.word("ruok"), "imok");
    assert_eq!(served.word("stat"), "stat is not executed because it is not in the whitelist.\n");
    assert_eq!(served.word("stmk"), "stmk is not executed because it is not in the whitelist.\n");
    let telnet = served.say(&[0xff, 0xf4, 0xff, 0xfd]);
    assert_eq!(telnet, "telnet close is not executed because it is not in the whitelist.\n");
}

#[test]
fn the_mask_is_kept() {
    let served = Served::with(ALL_WORDS);
    assert_eq!(served.say(b"stmk\0\0\0\0\0\0\0\x07\n"), "7");
    assert_eq!(served.word("gtmk"), "7");
    assert_eq!(served.say(b"stmk\xff\xff\xff\xff\xff\xff\xff\xff"), "-1");
}

#[test]
fn a_session_has_no_words() {
    let served = Served::with(ALL_WORDS);
    let mut client = served.client();
    client.raw.send(b"ruok");
    served.await_metric("num_alive_connections", "1");
}
