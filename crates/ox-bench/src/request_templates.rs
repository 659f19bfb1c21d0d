//! Request frames, encoded once: a request is a copy of its operation's template with xid and digits filled in.

use crate::operation::{Mix, Operation};
use crate::tree_layout::{KEY_DIGITS, NODE_DIGITS, PARENT_DIGITS, TreeLayout, put_digits};
use ox_proto::OpCode;
use ox_proto::acl::RawAcls;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::Jute;
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::request::{
    CreateRequest, PathRequest, PathVersion, PathWatch, RequestHeader, SetDataRequest, put_bare_request, put_request,
    xid,
};
use rand::Rng;
use rand_pcg::Pcg32;
use std::borrow::Cow;

/// Offset of the xid in a request frame.
const XID_AT: usize = 4;

/// Templates of all operations of a mix, ready to be copied into an output buffer.
#[derive(Debug)]
pub struct RequestTemplates {
    /// Operations with cumulative weights.
    choices: Vec<(Operation, u32)>,
    templates: [Template; Operation::ALL.len()],
    keys: u32,
    parents: u32,
}

/// A frame and the offsets of its digits.
#[derive(Debug, Default)]
struct Template {
    frame: Vec<u8>,
    blanks: Blanks,
}

/// Offsets of the digits that differ from request to request.
#[derive(Debug, Default)]
enum Blanks {
    #[default]
    None,
    Parent(usize),
    /// Random keys, each with its parent.
    Keys(Vec<KeyAt>),
    Node {
        parent: usize,
        node: usize,
    },
}

#[derive(Debug)]
struct KeyAt {
    parent: usize,
    key: usize,
}

/// State of one connection between its requests.
#[derive(Debug)]
pub struct RequestGenerator {
    random: Pcg32,
    next_xid: i32,
    next_node: u64,
    /// Created for a delete that has not been sent yet.
    to_delete: Option<u64>,
}

impl RequestGenerator {
    /// `first_node` starts a range of node numbers that no other connection or round uses.
    pub fn new(seed: u64, first_node: u64) -> Self {
        Self { random: Pcg32::new(seed, seed), next_xid: 1, next_node: first_node, to_delete: None }
    }

    /// The next xid in the order of Java's client.
    pub fn take_xid(&mut self) -> i32 {
        let xid = self.next_xid;
        self.next_xid = xid.checked_add(1).unwrap_or(1);
        xid
    }

    fn below(&mut self, bound: u32) -> u32 {
        let wide = u64::from(self.random.next_u32()) * u64::from(bound);
        u32::try_from(wide >> 32).expect("the product's high half is below the bound")
    }
}

impl RequestTemplates {
    /// Encodes the templates of `mix` for `layout`.
    pub fn new(mix: &Mix, layout: &TreeLayout, multi_size: usize) -> Self {
        let mut sum = 0;
        let choices = mix
            .parts()
            .iter()
            .map(|(operation, weight)| {
                sum += weight;
                (*operation, sum)
            })
            .collect();
        let templates = Operation::ALL.map(|operation| template(operation, layout, multi_size));
        Self { choices, templates, keys: layout.keys, parents: layout.parents }
    }

    /// Appends one request; returns its operation and xid.
    pub fn push(&self, generator: &mut RequestGenerator, out: &mut Vec<u8>) -> (Operation, i32) {
        let (operation, node) = self.choose(generator);
        let template = &self.templates[operation as usize];
        let start = out.len();
        out.extend_from_slice(&template.frame);
        let frame = &mut out[start..];
        let xid = if operation == Operation::Ping { xid::PING } else { generator.take_xid() };
        frame[XID_AT..XID_AT + 4].copy_from_slice(&xid.to_be_bytes());
        match &template.blanks {
            Blanks::None => (),
            Blanks::Parent(at) => put_parent(frame, *at, generator.below(self.parents)),
            Blanks::Keys(places) => {
                for place in places {
                    let key = generator.below(self.keys);
                    put_parent(frame, place.parent, key % self.parents);
                    put_digits(&mut frame[place.key..place.key + KEY_DIGITS], key.into());
                }
            }
            Blanks::Node { parent, node: at } => {
                let below = u32::try_from(node % u64::from(self.parents)).expect("the remainder is below a u32");
                put_parent(frame, *parent, below);
                put_digits(&mut frame[*at..*at + NODE_DIGITS], node);
            }
        }
        (operation, xid)
    }

    /// The next operation, and the number of the node it creates or deletes.
    fn choose(&self, generator: &mut RequestGenerator) -> (Operation, u64) {
        if let Some(node) = generator.to_delete.take() {
            return (Operation::Delete, node);
        }
        let operation = match self.choices.as_slice() {
            [(only, _)] => *only,
            choices => {
                let point = generator.below(choices.last().map_or(0, |(_, sum)| *sum));
                choices.iter().find(|(_, sum)| point < *sum).expect("the point lies below the last sum").0
            }
        };
        let node = generator.next_node;
        if matches!(operation, Operation::Create | Operation::Delete) {
            generator.next_node += 1;
        }
        if operation == Operation::Delete {
            generator.to_delete = Some(node);
            return (Operation::Create, node);
        }
        (operation, node)
    }
}

fn put_parent(frame: &mut [u8], at: usize, parent: u32) {
    put_digits(&mut frame[at..at + PARENT_DIGITS], parent.into());
}

fn template(operation: Operation, layout: &TreeLayout, multi_size: usize) -> Template {
    let (key, node, parent) = (layout.key_path(0), layout.node_path(0, 0), layout.parent_path(0));
    let frame = frame(operation, layout, multi_size);
    let parent_end = parent.len() - PARENT_DIGITS; // the same for keys and for created nodes
    let places = |path: &str| places(&frame, path.as_bytes());
    let blanks = match operation {
        Operation::Get | Operation::Exists | Operation::Set | Operation::Multi => {
            let key_at = |at| KeyAt { parent: at + parent_end, key: at + key.len() - KEY_DIGITS };
            Blanks::Keys(places(&key).into_iter().map(key_at).collect())
        }
        Operation::Children => Blanks::Parent(places(&parent)[0] + parent_end),
        Operation::Create | Operation::Delete => {
            let at = places(&node)[0];
            Blanks::Node { parent: at + parent_end, node: at + node.len() - NODE_DIGITS }
        }
        Operation::Ping | Operation::Sync => Blanks::None,
    };
    Template { frame, blanks }
}

/// The frame with all numbers 0.
fn frame(operation: Operation, layout: &TreeLayout, multi_size: usize) -> Vec<u8> {
    let (key, node, parent, data) = (layout.key_path(0), layout.node_path(0, 0), layout.parent_path(0), layout.data());
    let text = |path: &'_ str| Some(Cow::Owned(path.to_owned()));
    let set = || SetDataRequest { path: text(&key), data: Some(&data), version: -1 };
    let mut out = Vec::new();
    match operation {
        Operation::Get => {
            put_request(&mut out, 0, OpCode::GetData.code(), &PathWatch { path: text(&key), watch: false });
        }
        Operation::Exists => {
            put_request(&mut out, 0, OpCode::Exists.code(), &PathWatch { path: text(&key), watch: false });
        }
        Operation::Children => {
            put_request(&mut out, 0, OpCode::GetChildren.code(), &PathWatch { path: text(&parent), watch: false });
        }
        Operation::Set => put_request(&mut out, 0, OpCode::SetData.code(), &set()),
        Operation::Create => {
            let create = CreateRequest { path: text(&node), data: Some(&data), acl: RawAcls::OPEN, flags: 0 };
            put_request(&mut out, 0, OpCode::Create.code(), &create);
        }
        Operation::Delete => {
            put_request(&mut out, 0, OpCode::Delete.code(), &PathVersion { path: text(&node), version: -1 });
        }
        Operation::Multi => {
            let mark = begin_frame(&mut out);
            RequestHeader { xid: 0, op: OpCode::Multi.code() }.put(&mut out);
            (0..multi_size).for_each(|_| MultiOp::SetData(set()).put(&mut out));
            MultiHeader::END.put(&mut out);
            end_frame(&mut out, mark);
        }
        Operation::Ping => put_bare_request(&mut out, xid::PING, OpCode::Ping.code()),
        Operation::Sync => put_request(&mut out, 0, OpCode::Sync.code(), &PathRequest { path: text(&layout.root) }),
    }
    out
}

/// Offsets of `path` in `frame`.
fn places(frame: &[u8], path: &[u8]) -> Vec<usize> {
    frame.windows(path.len()).enumerate().filter(|(_, window)| *window == path).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_proto::Reader;
    use ox_proto::frame::split_frame;

    fn layout() -> TreeLayout {
        TreeLayout { root: "/b".into(), parents: 3, keys: 1000, data_bytes: 5 }
    }

    /// Path and xid of the next request.
    fn next(templates: &RequestTemplates, generator: &mut RequestGenerator) -> (Operation, i32, String) {
        let mut out = Vec::new();
        let (operation, xid) = templates.push(generator, &mut out);
        let (payload, behind) = split_frame(&out, 1000).unwrap().unwrap();
        assert!(behind.is_empty());
        let mut from = Reader::new(payload);
        assert_eq!(from.get::<RequestHeader>().unwrap().xid, xid);
        let path = if from.is_empty() { String::new() } else { from.text().unwrap().into_owned() };
        (operation, xid, path)
    }

    #[test]
    fn requests_use_existing_keys_and_parents() {
        let mut generator = RequestGenerator::new(1, 0);
        for (mix, prefix) in [("get", "/b/p"), ("exists", "/b/p"), ("set", "/b/p")] {
            let templates = RequestTemplates::new(&mix.parse().unwrap(), &layout(), 1);
            let (_, _, path) = next(&templates, &mut generator);
            assert!(path.starts_with(prefix), "{path}");
            let key: u32 = path[path.len() - KEY_DIGITS..].parse().unwrap();
            assert_eq!(path, layout().key_path(key));
        }
        let templates = RequestTemplates::new(&Mix::only(Operation::Children), &layout(), 1);
        let (_, _, path) = next(&templates, &mut generator);
        assert!((0..3).any(|parent| path == layout().parent_path(parent)), "{path}");
    }

    #[test]
    fn delete_follows_its_create() {
        let templates = RequestTemplates::new(&Mix::only(Operation::Delete), &layout(), 1);
        let mut generator = RequestGenerator::new(1, 10);
        for node in [10, 11] {
            let path = layout().node_path(u32::try_from(node % 3).unwrap(), node);
            assert_eq!(next(&templates, &mut generator).2, path);
            let (operation, _, deleted) = next(&templates, &mut generator);
            assert_eq!((operation, deleted), (Operation::Delete, path));
        }
    }

    #[test]
    fn multi_has_configured_size() {
        let templates = RequestTemplates::new(&Mix::only(Operation::Multi), &layout(), 4);
        let mut out = Vec::new();
        templates.push(&mut RequestGenerator::new(1, 0), &mut out);
        let mut from = Reader::new(&out[12..]);
        let mut keys = Vec::new();
        while let Some(element) = MultiOp::next(&mut from).unwrap() {
            let MultiOp::SetData(set) = element else { panic!("not a set") };
            keys.push(set.path.unwrap().into_owned());
        }
        assert_eq!(keys.len(), 4);
        assert_ne!(keys[0], keys[1]);
    }

    #[test]
    fn operations_follow_weights() {
        let templates = RequestTemplates::new(&"get=90,set=10".parse().unwrap(), &layout(), 1);
        let mut generator = RequestGenerator::new(7, 0);
        let sets = (0..10_000).filter(|_| next(&templates, &mut generator).0 == Operation::Set).count();
        assert!((900..1100).contains(&sets), "{sets}");
    }

    #[test]
    fn xids_wrap_as_in_java() {
        let templates = RequestTemplates::new(&"get".parse().unwrap(), &layout(), 1);
        let mut generator = RequestGenerator::new(7, 0);
        generator.next_xid = i32::MAX;
        assert_eq!([next(&templates, &mut generator).1, next(&templates, &mut generator).1], [i32::MAX, 1]);
        let templates = RequestTemplates::new(&Mix::only(Operation::Ping), &layout(), 1);
        assert_eq!(next(&templates, &mut generator).1, xid::PING);
    }
}
