//! Parsing of `zoo.cfg` files.

use ox_config::{Config, Environment, StartArgs, SystemProperties};
use std::net::{IpAddr, Ipv4Addr};

pub(super) fn corpus() -> Vec<Vec<u8>> {
    let texts = [
        "tickTime=2000\ndataDir=/data\nclientPort=2181\n",
        "dataDir=/d\nclientPort : 2181\nautopurge.purgeInterval=1\nsnapCount=0x10\n4lw.commands.whitelist=ruok, srvr\n",
        "dataDir=/d\nserver.1=a:2888:3888;2181\nserver.2=b|c:1:2:observer\ninitLimit=5\nsyncLimit=2\ngroup.1=1:2\n",
        "key\\u0041=\\\n   value\n! comment\n# other\nminSessionTimeout=1\nmaxSessionTimeout=2\ndataDir=x\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(super) fn run(input: &[u8]) {
    let environment =
        Environment { read: &|_| Ok(input.to_vec()), resolve: &|_| Some(IpAddr::V4(Ipv4Addr::LOCALHOST)) };
    let _ =
        Config::load(&StartArgs::File("zoo.cfg".into()), &SystemProperties::default(), &environment, &mut Vec::new());
}
