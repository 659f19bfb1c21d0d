//! Where a logging thread writes: the console, or a file that rotates.

use super::Console;
use ox_config::LogFileConfig;
use ox_server::RotatingFile;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Lines that are kept until it is known whether there is a file.
const EARLY_LINES_MAX: usize = 1000;

/// Pause after an error, before the file is opened again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The owner writes, and the group reads.
const FILE_MODE: u32 = 0o640;

pub(super) enum Output {
    Console(Console),
    File(LogFileOutput),
}

impl Output {
    /// Writes a line, and before it how many were lost since the last one because the queue was full. Returns how many
    /// lines were dropped: 1 if it cannot be written.
    pub(super) fn write(&mut self, line: Vec<u8>, lost: u64) -> u64 {
        let written = match self {
            Self::Console(Console::Stderr) => write_console(&mut io::stderr(), &line, lost, "stderr"),
            Self::Console(Console::Stdout) => write_console(&mut io::stdout(), &line, lost, "stdout"),
            Self::File(file) => return file.write(line, lost),
        };
        u64::from(written.is_err())
    }

    /// Selects the file, or none. Returns how many earlier lines cannot be written to it.
    pub(super) fn set_file(&mut self, config: Option<LogFileConfig>) -> u64 {
        if let Self::File(file) = self { file.set(config) } else { 0 }
    }

    pub(super) fn reopen(&mut self) {
        if let Self::File(file) = self {
            file.file = None;
        }
    }
}

fn write_console(out: &mut impl Write, line: &[u8], lost: u64, name: &str) -> io::Result<()> {
    out.write_all(line)?;
    if lost != 0 {
        writeln!(out, "{lost} log lines dropped: the reader of {name} was too slow")?;
    }
    out.flush()
}

/// The log file. A file that cannot be written loses lines, and is opened again.
#[derive(Default)]
pub(super) struct LogFileOutput {
    /// `None` until the configuration is read, `Some(None)` without a file.
    config: Option<Option<LogFileConfig>>,
    /// Lines that arrived before.
    early: VecDeque<Vec<u8>>,
    file: Option<RotatingFile>,
    /// Lines that were not written.
    dropped: u64,
    /// Set after an error: when the file is opened again.
    retry_at: Option<Instant>,
}

impl LogFileOutput {
    fn set(&mut self, config: Option<LogFileConfig>) -> u64 {
        if self.config.as_ref() != Some(&config) {
            self.config = Some(config);
            (self.file, self.retry_at) = (None, None);
        }
        std::mem::take(&mut self.early).into_iter().map(|line| self.write(line, 0)).sum()
    }

    fn write(&mut self, line: Vec<u8>, lost: u64) -> u64 {
        self.dropped += lost;
        let is_dropped = match &self.config {
            Some(Some(config)) => {
                let config = config.clone();
                !self.write_to(&config, &line)
            }
            Some(None) => {
                self.dropped = 0; // there is no file that misses a line
                false
            }
            None => {
                let is_full = EARLY_LINES_MAX <= self.early.len();
                if !is_full {
                    self.early.push_back(line);
                }
                is_full
            }
        };
        self.dropped += u64::from(is_dropped);
        u64::from(is_dropped)
    }

    /// Returns whether the line is written.
    fn write_to(&mut self, config: &LogFileConfig, line: &[u8]) -> bool {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        match self.try_write(config, line) {
            Ok(()) => {
                if self.retry_at.take().is_some() {
                    tracing::info!(file = %config.path.display(), "log file is written again");
                }
                true
            }
            Err(error) => {
                self.file = None;
                if self.retry_at.is_none() {
                    tracing::error!(file = %config.path.display(), %error, "cannot write the log file: lines are dropped");
                }
                self.retry_at = Some(Instant::now() + RETRY_INTERVAL);
                false
            }
        }
    }

    fn try_write(&mut self, config: &LogFileConfig, line: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            closed => {
                let parent = config.path.parent().filter(|parent| !parent.as_os_str().is_empty());
                parent.map_or(Ok(()), std::fs::create_dir_all)?;
                closed.insert(RotatingFile::open(&config.path, config.bytes_max, config.backups, FILE_MODE)?)
            }
        };
        if self.dropped != 0 {
            let text = format!("{} log lines dropped: the disk was full, or slower than the log\n", self.dropped);
            file.write_line(text.as_bytes())?;
            self.dropped = 0;
        }
        file.write_line(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn config(path: &Path) -> LogFileConfig {
        LogFileConfig { path: path.to_owned(), bytes_max: 1 << 20, backups: 2, threshold: None }
    }

    #[test]
    fn early_lines_are_written_when_the_file_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new").join("zk.log");
        let mut output = LogFileOutput::default();
        let dropped: u64 =
            (0..EARLY_LINES_MAX + 2).map(|number| output.write(format!("{number}\n").into_bytes(), 0)).sum();
        assert_eq!(dropped, 2);
        output.set(Some(config(&path)));
        output.write(b"last\n".to_vec(), 3);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("2 log lines dropped"), "{text}");
        assert!(
            text.contains("\n999\n3 log lines dropped: the disk was full, or slower than the log\nlast\n"),
            "{text}"
        );
    }

    #[test]
    fn without_a_file_nothing_is_kept() {
        let mut output = LogFileOutput::default();
        output.write(b"early\n".to_vec(), 0);
        output.set(None);
        output.write(b"late\n".to_vec(), 1);
        assert!(output.early.is_empty());
        assert_eq!(output.dropped, 0);
    }

    #[test]
    fn file_that_cannot_be_written_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zk.log");
        fs::create_dir(&path).unwrap();
        let mut output = LogFileOutput::default();
        output.set(Some(config(&path)));
        let counted = [output.write(b"1\n".to_vec(), 0), output.write(b"2\n".to_vec(), 0)];
        assert_eq!((counted, output.dropped), ([1, 1], 2));
        fs::remove_dir(&path).unwrap();
        output.retry_at = Some(Instant::now());
        output.write(b"3\n".to_vec(), 0);
        let expected = "2 log lines dropped: the disk was full, or slower than the log\n3\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn renamed_file_is_left_after_reopen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zk.log");
        let mut output = Output::File(LogFileOutput::default());
        output.set_file(Some(config(&path)));
        output.write(b"1\n".to_vec(), 0);
        fs::rename(&path, dir.path().join("zk.log-20261119")).unwrap();
        output.reopen();
        output.write(b"2\n".to_vec(), 0);
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");
    }
}
