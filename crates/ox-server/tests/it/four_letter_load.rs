//! Status commands disturb nobody, and nobody holds them up.

use crate::four_letter_client::ALL_WORDS;
use crate::raw::{Client, Packet, Raw};
use crate::server_fixture::Served;
use ox_proto::OpCode;
use ox_proto::request::{SetWatches, xid};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

const PER_PACKET: usize = 4000;

/// Watches on nodes that do not exist, with paths of 200 characters.
fn watch_many(client: &mut Client, watches: usize) {
    for first in (0..watches).step_by(PER_PACKET) {
        let paths = (first..(first + PER_PACKET).min(watches)).map(|number| format!("/{number:0199}").into());
        let mut lists: [Vec<_>; 5] = Default::default();
        lists[1] = paths.collect();
        let mut body = Vec::new();
        SetWatches { lists, ..SetWatches::default() }.put(3, &mut body);
        client.send(&Packet::default().raw(xid::SET_WATCHES, OpCode::SetWatches.code(), &body));
        assert_eq!(client.reply().err, 0);
    }
}

/// A connection with small buffers, so that an answer does not vanish in them.
fn narrow(served: &Served) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    socket.connect(&served.address().into()).unwrap();
    socket.into()
}

#[test]
fn k152_a_slow_reader_holds_up_nobody() {
    const WATCHES: usize = 40_000;
    let served = Served::with(ALL_WORDS);
    let mut client = served.client();
    watch_many(&mut client, WATCHES);
    let total = format!("1 connections watching {WATCHES} paths\nTotal watches:{WATCHES}\n");
    assert_eq!(served.word("wchs"), total);
    let mut slow: Vec<(TcpStream, &str)> = ["wchp", "wchc"].map(|word| (narrow(&served), word)).into();
    for (stream, word) in &mut slow {
        stream.write_all(word.as_bytes()).unwrap();
    }
    // They read nothing; everybody else is served.
    for number in 0..50 {
        assert_eq!(served.word("ruok"), "imok");
        client.create(&format!("/n{number}"), b"");
        client.exists("/n0");
    }
    assert_eq!(served.word("wchp").len(), WATCHES * (201 + 2 + client.session().to_string().len() + 1) - WATCHES + 1);
    for (stream, word) in &mut slow {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let paths = answer.lines().filter(|line| line.trim_start().len() == 200).count();
        assert_eq!(paths, WATCHES, "{word}");
        assert!(answer.ends_with("\n\n"), "{word}");
    }
}

#[test]
fn a_reader_that_goes_away_is_forgotten() {
    let served = Served::with(ALL_WORDS);
    let mut client = served.client();
    watch_many(&mut client, 20_000);
    for _ in 0..20 {
        let mut stream = narrow(&served);
        stream.write_all(b"wchc").unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
    }
    served.await_metric("num_alive_connections", "2");
    assert_eq!(served.word("ruok"), "imok");
}

#[test]
fn listings_in_a_loop_do_not_disturb() {
    let served = Served::with(ALL_WORDS);
    let mut bystander = served.client();
    watch_many(&mut bystander, 20_000);
    let (mut watcher, mut writer) = (served.client(), served.client());
    writer.create("/n", b"");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) || rounds == 0 {
                for word in ["wchs", "wchp", "wchc", "cons", "stat", "dump", "mntr", "crst", "srst"] {
                    assert!(!served.word(word).is_empty(), "{word}");
                }
                rounds += 1;
            }
            rounds
        });
        for number in 0..300 {
            watcher.watch(OpCode::GetData, "/n");
            writer.set("/n", format!("{number}").as_bytes());
            assert_eq!(watcher.event().kind, 3);
        }
        done.store(true, Ordering::Relaxed);
        assert!(0 < asked.join().unwrap());
    });
}

#[test]
fn many_words_at_once_are_all_answered() {
    let served = Served::with(ALL_WORDS);
    let mut asking: Vec<Raw> = (0..100).map(|_| served.connect()).collect();
    for raw in &mut asking {
        raw.send(b"stat");
    }
    for mut raw in asking {
        assert!(String::from_utf8(raw.rest()).unwrap().contains("Mode: standalone\n"));
    }
}
