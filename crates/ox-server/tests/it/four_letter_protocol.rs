//! The protocol of four-letter commands.

use crate::four_letter_client::ALL_COMMANDS;
use crate::server_fixture::ServerFixture;

#[test]
fn bytes_after_a_command_are_ignored() {
    let server = ServerFixture::with(ALL_COMMANDS);
    for bytes in ["ruok\n", "ruok\r\n", "ruokruok", "ruok and more than that"] {
        assert_eq!(server.command(bytes), "imok", "{bytes:?}");
    }
}

#[test]
fn command_may_arrive_in_parts() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut raw = server.connect();
    for byte in b"ruok" {
        raw.send(&[*byte]);
        assert_eq!(server.command("ruok"), "imok", "other clients are served meanwhile");
    }
    assert_eq!(raw.rest(), b"imok");
}

#[test]
fn client_that_closes_its_side_gets_the_reply() {
    let server = ServerFixture::with(ALL_COMMANDS);
    for command in ["ruok", "mntr", "cons"] {
        let mut raw = server.connect();
        raw.send(command.as_bytes());
        raw.finish();
        assert!(!raw.rest().is_empty(), "{command}");
    }
}

#[test]
fn unknown_command_is_closed_without_a_reply() {
    let server = ServerFixture::with(ALL_COMMANDS);
    assert_eq!(server.command("GET / HTTP/1.1\r\n\r\n"), "");
    assert_eq!(server.command("RUOK"), "");
    assert_eq!(server.send_and_read(&[0xff, 0xf4, 0xff, 0xfd]), "", "enabled, but without a reply");
}

#[test]
fn incomplete_command_is_closed_without_a_reply() {
    let server = ServerFixture::with(ALL_COMMANDS);
    for bytes in ["", "ruo", "stmk\n"] {
        let mut raw = server.connect();
        raw.send(bytes.as_bytes());
        raw.finish();
        raw.expect_closed();
    }
}

#[test]
fn whitelist_enables_commands_by_name() {
    let server = ServerFixture::with("4lw.commands.whitelist=ruok, mntr\n");
    assert_eq!(server.command("ruok"), "imok");
    assert_eq!(server.command("stat"), "stat is not executed because it is not in the whitelist.\n");
    assert_eq!(server.command("stmk"), "stmk is not executed because it is not in the whitelist.\n");
    let telnet = server.send_and_read(&[0xff, 0xf4, 0xff, 0xfd]);
    assert_eq!(telnet, "telnet close is not executed because it is not in the whitelist.\n");
}

#[test]
fn trace_mask_is_kept() {
    let server = ServerFixture::with(ALL_COMMANDS);
    assert_eq!(server.send_and_read(b"stmk\0\0\0\0\0\0\0\x07\n"), "7");
    assert_eq!(server.command("gtmk"), "7");
    assert_eq!(server.send_and_read(b"stmk\xff\xff\xff\xff\xff\xff\xff\xff"), "-1");
}

#[test]
fn command_after_the_handshake_is_not_recognised() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut client = server.client();
    client.raw.send(b"ruok");
    server.await_metric("num_alive_connections", "1");
}
