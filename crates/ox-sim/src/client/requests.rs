//! What comes to a client's mind: every operation, mostly on a few paths that others use too.

use super::Client;
use crate::dice::Dice;
use crate::env::Env;
use ox_history::{Create, Op};
use ox_proto::{Acl, OpCode};

const TOPS: &[&str] = &["/a", "/b", "/c", "/d"];
const NAMES: &[&str] = &["x", "y", "z", "käse", "..."];
const ODD: &[&str] = &["", "/", "/a/", "//", "/a//x", "/./a", "a", "/a\u{0}b", "/zookeeper", "/zookeeper/config"];

fn path(dice: &mut Dice) -> String {
    match dice.below(100) {
        0..=49 => (*dice.pick(TOPS)).to_owned(),
        50..=84 => format!("{}/{}", dice.pick(TOPS), dice.pick(NAMES)),
        85..=93 => format!("{}/{}/{}", dice.pick(TOPS), dice.pick(NAMES), dice.pick(NAMES)),
        94..=96 => "/".to_owned(),
        _ => (*dice.pick(ODD)).to_owned(),
    }
}

fn data(dice: &mut Dice) -> Option<Vec<u8>> {
    let size = match dice.below(100) {
        0..=3 => return None,
        4..=9 => 0,
        10..=89 => dice.index(40),
        90..=97 => dice.index(1_500),
        _ => dice.index(6_000),
    };
    let byte = u8::try_from(dice.below(256)).unwrap_or(0);
    Some(vec![byte; size])
}

fn acl(dice: &mut Dice) -> Vec<Acl> {
    let open = Acl::new(31, "world", "anyone");
    match dice.below(100) {
        0..=84 => vec![open],
        85..=88 => vec![Acl::new(31, "auth", ""), Acl::new(1, "world", "anyone")],
        89..=91 => vec![Acl::new(31, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=")],
        92..=93 => vec![Acl::new(31, "ip", "10.0.0.1"), Acl::new(1, "ip", "10.0.0.0/24")],
        94..=95 => vec![Acl::new(1, "world", "anyone")],
        96..=97 => vec![open.clone(), open, Acl::new(7, "digest", "eve:x")],
        98 => vec![Acl::new(31, "nonsense", "x")],
        _ => Vec::new(),
    }
}

fn version(dice: &mut Dice) -> i32 {
    if dice.chance(500) { -1 } else { i32::try_from(dice.below(4)).unwrap_or(0) }
}

fn create(dice: &mut Dice) -> Op {
    let op = match dice.below(100) {
        0..=49 => OpCode::Create,
        50..=79 => OpCode::Create2,
        80..=89 => OpCode::CreateContainer,
        _ => OpCode::CreateTtl,
    };
    let flags = match (op, dice.below(100)) {
        (OpCode::CreateTtl, 0..=79) => 5 + i32::try_from(dice.below(2)).unwrap_or(0),
        (_, 0..=94) => i32::try_from(dice.below(4)).unwrap_or(0),
        _ => i32::try_from(dice.below(9)).unwrap_or(0) - 1,
    };
    let ttl_ms = if dice.chance(900) { dice.between(1, 3_000) } else { dice.between(-2, 0) };
    Op::Create(Create { op, path: path(dice), data: data(dice), acl: acl(dice), flags, ttl_ms })
}

fn write(dice: &mut Dice) -> Op {
    match dice.below(100) {
        0..=44 => create(dice),
        45..=64 => Op::Delete { path: path(dice), version: version(dice) },
        _ => Op::SetData { path: path(dice), data: data(dice), version: version(dice) },
    }
}

fn multi(dice: &mut Dice) -> Op {
    let mut elements = Vec::new();
    for _ in 0..dice.below(5) {
        elements.push(match dice.below(100) {
            0..=14 => Op::Check { path: path(dice), version: version(dice) },
            15..=97 => write(dice),
            98 => Op::GetData { path: path(dice), watch: false },
            _ => Op::SetAcl { path: path(dice), acl: acl(dice), version: -1 },
        });
    }
    Op::Multi(elements)
}

fn multi_read(dice: &mut Dice) -> Op {
    let mut elements = Vec::new();
    for _ in 0..dice.below(5) {
        let (path, watch) = (path(dice), dice.chance(300));
        elements.push(match dice.below(100) {
            0..=59 => Op::GetData { path, watch },
            60..=97 => Op::GetChildren { path, watch },
            _ => Op::Delete { path, version: -1 },
        });
    }
    Op::MultiRead(elements)
}

fn read(dice: &mut Dice) -> Op {
    let (path, watch) = (path(dice), dice.chance(400));
    match dice.below(100) {
        0..=24 => Op::GetData { path, watch },
        25..=44 => Op::Exists { path, watch },
        45..=54 => Op::GetChildren { path, watch },
        55..=69 => Op::GetChildren2 { path, watch },
        70..=74 => Op::GetAcl { path },
        75..=79 => Op::GetAllChildrenNumber { path },
        80..=84 => Op::GetEphemerals { prefix: (*dice.pick(&["", "/", "/a", "/b/"])).to_owned() },
        85..=89 => Op::Sync { path },
        90..=95 => multi_read(dice),
        96..=97 => Op::WhoAmI,
        _ => Op::Ping,
    }
}

impl Client {
    fn watch_op(&self, dice: &mut Dice) -> Op {
        let path = match self.watches.any(dice) {
            Some(path) if dice.chance(500) => path,
            _ => path(dice),
        };
        let number = |dice: &mut Dice, bound| i32::try_from(dice.below(bound)).unwrap_or(0);
        match dice.below(100) {
            0..=49 => Op::AddWatch { path, mode: if dice.chance(950) { number(dice, 2) } else { 2 } },
            50..=64 => Op::CheckWatches { path, kind: number(dice, 7) },
            _ => Op::RemoveWatches { path, kind: number(dice, 7) },
        }
    }

    /// The next request.
    pub(super) fn draw(&self, env: &mut Env) -> Op {
        let dice = &mut env.dice;
        match dice.below(1000) {
            0..=429 => write(dice),
            430..=509 => multi(dice),
            510..=529 => Op::SetAcl { path: path(dice), acl: acl(dice), version: version(dice) },
            530..=869 => read(dice),
            870..=949 => self.watch_op(dice),
            950..=964 => {
                let users: [&[u8]; 3] = [b"bob:pw", b"eve:pw", b"bob"];
                Op::Auth { scheme: "digest".to_owned(), auth: dice.pick(&users).to_vec() }
            }
            965..=967 => Op::Auth { scheme: (*dice.pick(&["ip", "sasl", "super"])).to_owned(), auth: Vec::new() },
            968..=969 => Op::Sasl { token: b"token".to_vec() },
            970..=974 => Op::Reconfig,
            975..=984 => {
                let broken = [OpCode::Create, OpCode::SetData, OpCode::Multi, OpCode::GetData, OpCode::SetWatches];
                Op::Broken(*dice.pick(&broken))
            }
            985..=987 => Op::Unknown(*dice.pick(&[999, 13, 20, -10])),
            988..=994 => Op::CloseSession,
            _ => self.zookeepers(dice),
        }
    }

    /// Quotas are ordinary nodes at special places.
    fn zookeepers(&self, dice: &mut Dice) -> Op {
        let places =
            ["/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats"];
        let place = *dice.pick(&places);
        Op::Create(Create::open(place, if place.ends_with("limits") { b"count=5,bytes=100" } else { b"" }, 0))
    }
}
