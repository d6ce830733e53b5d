//! A process in a pseudo-terminal: the test binary runs one of its own tests as a child.
//!
//! Waiting is for what appears on the screen; the only limit is generous and there so that a broken
//! test ends.

use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};
use std::io::{Read as _, Write};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const ROLE: &str = "SEGNO_TEST_ROLE";
const PATIENCE: Duration = Duration::from_secs(20);

/// The child's side.
pub(crate) struct Child;

impl Child {
    /// Whether this process was started to play that role.
    pub(crate) fn is(role: &str) -> bool {
        std::env::var(ROLE).is_ok_and(|value| value == role)
    }

    /// Tells the parent something, on the screen.
    pub(crate) fn say(text: &str) {
        let mut out = std::io::stdout();
        write!(out, "\r\n{text}\r\n").unwrap();
        out.flush().unwrap();
    }
}

/// A child that is being played with.
pub(crate) struct Played {
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    parser: vt100::Parser,
    raw: Vec<u8>,
    child: Box<dyn portable_pty::Child + Send + Sync>,
}

impl Played {
    /// Runs `test` of this binary in a terminal of that size, in `role`.
    pub(crate) fn start(test: &str, role: &str, columns: u16, rows: u16) -> Self {
        Self::start_with(test, role, columns, rows, &[])
    }

    /// The same, with environment variables.
    pub(crate) fn start_with(
        test: &str,
        role: &str,
        columns: u16,
        rows: u16,
        env: &[(&str, &str)],
    ) -> Self {
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role);
        for (name, value) in env {
            command.env(name, value);
        }
        Self::spawn(command, columns, rows)
    }

    /// Runs a command in a terminal until its output holds this, and closes the terminal then, or when `and`
    /// says so; gives the exit code.
    pub(crate) fn closed_at(mut command: CommandBuilder, text: &str, and: impl FnOnce()) -> u32 {
        let size = PtySize { rows: 40, cols: 100, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        command.env("TERM", "xterm-256color");
        let starting = super::desk::starting();
        let mut child = pair.slave.spawn_command(command).unwrap();
        drop(starting);
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (mut seen, mut buffer) = (String::new(), [0; 4096]);
        while !seen.contains(text) {
            let n = reader.read(&mut buffer).unwrap();
            seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
        and();
        drop(reader);
        drop(pair.master);
        child.wait().unwrap().exit_code()
    }

    /// Runs any command in a terminal of that size.
    pub(crate) fn spawn(mut command: CommandBuilder, columns: u16, rows: u16) -> Self {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        if !command.iter_extra_env_as_str().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        let starting = super::desk::starting();
        let child = pair.slave.spawn_command(command).unwrap();
        drop(starting);
        let writer = pair.master.take_writer().unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        let size = |n| NonZero::new(n).unwrap();
        let parser = vt100::Parser::new(size(rows), size(columns), 0);
        Self { master: pair.master, writer, output, parser, raw: Vec::new(), child }
    }

    /// Types.
    pub(crate) fn send(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Returns when the screen shows this.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    /// Returns when the screen shows this so many times.
    pub(crate) fn wait_for_times(&mut self, text: &str, times: usize) {
        self.wait_until(text, |screen| screen.matches(text).count() >= times);
    }

    /// Returns when the screen no longer shows this.
    pub(crate) fn wait_for_no(&mut self, text: &str) {
        self.wait_until(text, |screen| !screen.contains(text));
    }

    /// The screen now.
    pub(crate) fn screen(&self) -> String {
        self.parser.screen().contents()
    }

    /// Every byte that came so far.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Returns when the terminal's bell was rung, at any time so far.
    pub(crate) fn wait_for_bell(&mut self) {
        // It may be written a moment after what the screen shows.
        while !self.raw.contains(&7) {
            let Ok(bytes) = self.output.recv_timeout(PATIENCE) else {
                panic!("waited for the bell in vain:\n{}", self.screen());
            };
            self.show(&bytes);
        }
    }

    /// Types a line, and Enter when it stands there.
    pub(crate) fn enter(&mut self, line: &str) {
        self.ready();
        self.send(line);
        let last = line.chars().rev().take(8).collect::<Vec<_>>().into_iter().rev();
        let last: String = last.collect();
        self.wait_until(line, |screen| screen.trim_end().ends_with(last.trim_end()));
        self.send("\r");
    }

    /// Returns when a line can be entered.
    pub(crate) fn ready(&mut self) {
        self.ends_with(">");
    }

    /// Returns when the last line on the screen is this.
    pub(crate) fn ends_with(&mut self, last: &str) {
        self.wait_until(last, |screen| {
            screen.trim_end().lines().next_back().is_some_and(|line| line.trim() == last)
        });
    }

    /// Sends a signal, by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.process_id().unwrap().to_string();
        let sent = std::process::Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Waits for the end; gives the exit code.
    pub(crate) fn exit_code(&mut self) -> u32 {
        while let Ok(bytes) = self.output.recv_timeout(PATIENCE) {
            self.show(&bytes);
        }
        self.child.wait().unwrap().exit_code()
    }

    fn wait_until(&mut self, what: &str, reached: impl Fn(&str) -> bool) {
        while !reached(&self.parser.screen().contents()) {
            let Ok(bytes) = self.output.recv_timeout(PATIENCE) else {
                panic!("waited for {what:?} in vain:\n{}", self.parser.screen().contents());
            };
            self.show(&bytes);
        }
    }

    /// A terminal answers, in its place in the stream, when it is asked where the cursor is.
    fn show(&mut self, bytes: &[u8]) {
        const QUERY: &[u8] = b"\x1b[6n";
        self.raw.extend_from_slice(bytes);
        let mut rest = bytes;
        while let Some(at) = rest.windows(QUERY.len()).position(|window| window == QUERY) {
            let (before, after) = rest.split_at(at + QUERY.len());
            self.parser.process(before);
            let (row, column) = self.parser.screen().cursor_position();
            self.send(&format!("\x1b[{};{}R", row + 1, column + 1));
            rest = after;
        }
        self.parser.process(rest);
    }

    pub(crate) fn alternate_screen(&self) -> bool {
        self.parser.screen().alternate_screen()
    }

    pub(crate) fn bracketed_paste(&self) -> bool {
        self.parser.screen().bracketed_paste()
    }

    /// Whether the terminal is in its ordinary line mode.
    pub(crate) fn cooked(&self) -> bool {
        let termios = self.master.get_termios().unwrap();
        format!("{:?}", termios.local_flags).contains("ICANON")
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
