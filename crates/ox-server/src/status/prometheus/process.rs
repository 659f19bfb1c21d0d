//! Metrics of the process, under the names of the Java client library. Of those of a Java virtual machine the page has
//! only what dashboards divide by.

use super::page_writer::PageWriter;
use crate::status::os_info::{self, ProcessTimes};

pub(super) fn put(page: &mut PageWriter<'_>) {
    let mut put = |name: &str, type_name: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            page.described_family(name, type_name, help);
            page.sample("", &[], value);
        }
    };
    let times = os_info::process_times();
    let (cpu, start) = times.map(|ProcessTimes { cpu_seconds, start_seconds }| (cpu_seconds, start_seconds)).unzip();
    put("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.", cpu);
    let help = "Start time of the process since unix epoch in seconds.";
    put("process_start_time_seconds", "gauge", help, start);
    put("process_open_fds", "gauge", "Number of open file descriptors.", os_info::open_files().map(double));
    let max = Some(double(os_info::open_files_max()));
    put("process_max_fds", "gauge", "Maximum number of open file descriptors.", max);
    let memory = os_info::memory();
    let virtual_bytes = os_info::virtual_memory().map(double);
    put("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", virtual_bytes);
    let resident = memory.map(|memory| double(memory.used));
    put("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", resident);
    let threads = os_info::threads().map(double);
    put("jvm_threads_current", "gauge", "Threads of the process.", threads);
    put("jvm_threads_deadlocked", "gauge", "Always 0.", Some(0.0));
    if let Some(memory) = memory {
        page.described_family("jvm_memory_bytes_used", "gauge", "Resident memory of the process.");
        page.sample("", &[("area", "heap")], double(memory.used));
        page.described_family("jvm_memory_bytes_max", "gauge", "Memory that the process may use.");
        page.sample("", &[("area", "heap")], double(memory.limit));
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has doubles only")]
fn double(value: u64) -> f64 {
    value as f64
}
