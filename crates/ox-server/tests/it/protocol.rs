//! How words are asked and answered.

use crate::harness::Running;
use ox_config::FourLetterWords;
use std::io::{Read, Write};
use std::net::Shutdown;

#[test]
fn what_follows_a_word_is_ignored() {
    let running = Running::start();
    for bytes in ["ruok\n", "ruok\r\n", "ruokruok", "ruok and more than that"] {
        assert_eq!(running.word(bytes), "imok", "{bytes:?}");
    }
}

#[test]
fn a_word_may_come_in_parts() {
    let running = Running::start();
    let mut stream = running.open();
    for byte in b"ruok" {
        stream.write_all(&[*byte]).unwrap();
        assert_eq!(running.word("ruok"), "imok", "others are served meanwhile");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "imok");
}

#[test]
fn a_client_may_close_its_half() {
    let running = Running::start();
    for word in ["ruok", "mntr", "cons"] {
        let mut stream = running.open();
        stream.write_all(word.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(!answer.is_empty(), "{word}");
    }
}

#[test]
fn anything_else_is_closed_without_a_reply() {
    let running = Running::start();
    assert_eq!(running.word("GET / HTTP/1.1\r\n\r\n"), "");
    assert_eq!(running.word("RUOK"), "");
    assert_eq!(running.ask(&[0xff, 0xf4, 0xff, 0xfd]), "", "enabled, but there is nothing to say");
}

#[test]
fn half_a_word_and_an_end_is_nothing() {
    let running = Running::start();
    for bytes in ["", "ruo"] {
        let mut stream = running.open();
        stream.write_all(bytes.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "{bytes:?}");
    }
}

#[test]
fn words_are_listed_by_name() {
    let only = |words: &[&str]| FourLetterWords::Only(words.iter().map(|word| (*word).to_owned()).collect());
    let running = Running::start_with(|config| config.four_letter_words = only(&["ruok", "mntr"]));
    assert_eq!(running.word("ruok"), "imok");
    assert_eq!(running.word("stat"), "stat is not executed because it is not in the whitelist.\n");
    assert_eq!(running.word("stmk"), "stmk is not executed because it is not in the whitelist.\n");
    let telnet = running.ask(&[0xff, 0xf4, 0xff, 0xfd]);
    assert_eq!(telnet, "telnet close is not executed because it is not in the whitelist.\n");
}

#[test]
fn the_mask_is_kept() {
    let running = Running::start();
    assert_eq!(running.ask(b"stmk\0\0\0\0\0\0\0\x07\n"), "7");
    assert_eq!(running.word("gtmk"), "7");
    assert_eq!(running.word("stmk\n"), "", "without its argument there is no answer");
    assert_eq!(running.ask(b"stmk\xff\xff\xff\xff\xff\xff\xff\xff"), "-1");
}

#[test]
fn a_session_has_no_words() {
    let running = Running::start();
    let mut client = running.client();
    client.send_bytes(b"ruok");
    running.await_metric("num_alive_connections", "1");
}
