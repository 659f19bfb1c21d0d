//! Metrics of single nodes: traffic, watches and size by top-level node, largest parents and replies.

use super::int;
use super::page_writer::PageWriter;
use crate::shared::Shared;
use crate::status::metrics::Namespaces;
use crate::status::tree_usage::MeasuredUsage;

/// Characters of a path in a label. Paths may be as long as a request.
const PATH_CHARS_MAX: usize = 256;

pub(super) fn put(shared: &Shared, page: &mut PageWriter<'_>) {
    let metrics = &shared.metrics;
    put_traffic(["oxkeeper_path_reads_total", "oxkeeper_path_read_bytes_total"], &metrics.read_per_namespace, page);
    put_traffic(
        ["oxkeeper_path_writes_total", "oxkeeper_path_written_bytes_total"],
        &metrics.write_per_namespace,
        page,
    );
    let watches: Vec<(String, i64)> = {
        let state = shared.state.read();
        let watches = state.watches().lock();
        watches.by_top_level().map(|(name, count)| (format!("/{name}"), count)).collect()
    };
    page.described_family("oxkeeper_path_watches", "gauge", "Watches of clients of this server, by top-level node.");
    for (path, count) in &watches {
        page.sample("", &[("path", path)], int(*count));
    }
    if let Some(measured) = &*shared.tree_usage.lock() {
        put_usage(shared, measured, page);
    }
}

fn put_traffic([requests, bytes]: [&str; 2], namespaces: &Namespaces, page: &mut PageWriter<'_>) {
    let mut totals = Vec::new();
    namespaces.show(&mut |name, total| totals.push((format!("/{name}"), total)));
    page.described_family(requests, "counter", "Requests by top-level node.");
    for (path, total) in &totals {
        page.sample("", &[("path", path)], int(total.count.cast_signed()));
    }
    page.described_family(bytes, "counter", "Bytes of these requests and their replies, as in read_per_namespace.");
    for (path, total) in &totals {
        page.sample("", &[("path", path)], int(total.sum));
    }
}

fn put_usage(shared: &Shared, measured: &MeasuredUsage, page: &mut PageWriter<'_>) {
    let MeasuredUsage { usage, zxid, took, at } = measured;
    page.described_family("oxkeeper_path_nodes", "gauge", "Nodes by top-level node, with itself.");
    for top in &usage.top_level {
        page.sample("", &[("path", &shortened(&top.path))], int(top.nodes.cast_signed()));
    }
    page.described_family("oxkeeper_path_bytes", "gauge", "Bytes of paths and data by top-level node.");
    for top in &usage.top_level {
        page.sample("", &[("path", &shortened(&top.path))], int(top.bytes.cast_signed()));
    }
    page.described_family("oxkeeper_parent_children", "gauge", "The nodes with the most children.");
    for (path, children) in &usage.parents {
        page.sample("", &[("path", &shortened(path))], int(children.cast_signed()));
    }
    let largest = [("getData", &usage.largest_data), ("getChildren2", &usage.largest_list)];
    let help = "Bytes of the largest reply that this tree can cause, and its node.";
    page.described_family("oxkeeper_largest_reply_bytes", "gauge", help);
    for (op, (path, bytes)) in largest {
        page.sample("", &[("op", op), ("path", &shortened(path))], int(bytes.cast_signed()));
    }
    let max = int(shared.config.limits.jute_max_buffer_bytes.into());
    page.described_family("oxkeeper_largest_reply_ratio", "gauge", "The same, relative to jute.maxbuffer.");
    for (op, (_, bytes)) in largest {
        page.sample("", &[("op", op)], int(bytes.cast_signed()) / max);
    }
    page.described_family("oxkeeper_tree_walk_seconds", "gauge", "Duration of the walk that measured these nodes.");
    page.sample("", &[], took.as_secs_f64());
    page.described_family("oxkeeper_tree_walk_age_seconds", "gauge", "Time since that walk.");
    page.sample("", &[], at.elapsed().as_secs_f64());
    page.described_family("oxkeeper_tree_walk_zxid", "gauge", "The last transaction that the walk saw.");
    page.sample("", &[], int(zxid.0));
}

fn shortened(path: &str) -> String {
    match path.char_indices().nth(PATH_CHARS_MAX) {
        None => path.to_owned(),
        Some((end, _)) => format!("{}...", &path[..end]),
    }
}
