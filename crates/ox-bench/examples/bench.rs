//! temp
use ox_bench::*;
use std::time::Duration;
fn main() -> anyhow::Result<()> {
    let a: Vec<String> = std::env::args().collect();
    let target = session::Target { address: a[1].parse()?, session_timeout_ms: 30000 };
    let load = load::Load {
        target, pid: a[2].parse().ok(), mix: a[3].parse().map_err(anyhow::Error::msg)?,
        shape: shape::Shape { root: "/oxbench".into(), parents: 1, keys: 1000, data_bytes: 100 },
        multi_size: 10, connections: a[4].parse()?, depth: a[5].parse()?, threads: 1, rate: None,
        timing: load::Timing { warm_up: Duration::from_secs(1), duration: Duration::from_secs(a[6].parse()?) }, round: 0 };
    let f = load.run(&stop::Stop::default(), &progress::Progress::new(""))?;
    let s = f.server.unwrap();
    println!("{:>9.0}/s {:>9.0}/cpu-s server {:.2}s client {:.2}s p50 {:.0} p99 {:.0} max {:.0} errors {:?}", f.per_second, s.per_cpu_second, s.cpu_seconds, f.client_cpu_seconds, f.latency_us.p50, f.latency_us.p99, f.latency_us.max, f.errors);
    Ok(())
}
