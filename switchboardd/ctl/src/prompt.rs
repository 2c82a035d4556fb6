//! Asks the user at the terminal: for a yes, a line, or hidden input.

use std::io::{self, BufRead};

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use switchboard_wire::visible::Printable;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::output::{question, remark};

/// A terminal silently truncates longer lines.
const LONGEST_LINE: usize = if cfg!(target_os = "macos") { 1022 } else { 4094 };

/// Asks; anything but a clear yes is a no. Input typed before the question is discarded.
pub(super) fn yes(message: &Printable) -> bool {
    discard_typed();
    question(message);
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Discards input that was typed but not read.
pub(super) fn discard_typed() {
    // Fails if standard input is no terminal: then nothing was typed.
    let _ = tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
}

/// Reads one line from the terminal on standard input, without echo. A signal that would end the process ends
/// the prompt instead; the echo is restored either way.
pub(super) async fn hidden(message: &Printable) -> io::Result<String> {
    // Before the echo is turned off: from here on Ctrl-C no longer ends the process.
    let mut ends =
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()]
            .map(signal);
    let quiet = EchoOff::new()?;
    question(message);
    let (tell, told) = tokio::sync::oneshot::channel();
    // A detached thread: its read cannot be interrupted.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let _ = tell.send(read.map(|_| line));
    });
    let line = tokio::select! {
        line = told => line.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into())),
        () = any(&mut ends) => Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted")),
    };
    drop(quiet);
    remark!("");
    let mut line = line?;
    line.truncate(line.trim_end_matches(['\n', '\r']).len());
    if line.len() > LONGEST_LINE {
        return Err(io::Error::other("too long for a terminal; pipe it in"));
    }
    Ok(line)
}

/// Reads one line from the terminal on standard input; an error at its end.
pub(super) async fn line(message: &Printable) -> io::Result<String> {
    question(message);
    let (tell, told) = tokio::sync::oneshot::channel();
    // Detached, as above.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let _ = tell.send(read.map(|count| (count, line)));
    });
    match told.await {
        Ok(Ok((1.., line))) => Ok(line),
        Ok(Err(error)) => Err(error),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

async fn any(signals: &mut [io::Result<Signal>; 4]) {
    std::future::poll_fn(|cx| {
        let come = signals.iter_mut().flatten().any(|signal| signal.poll_recv(cx).is_ready());
        if come { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// Turns the terminal's echo off until it is dropped.
struct EchoOff {
    before: Termios,
}

impl EchoOff {
    fn new() -> io::Result<Self> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        silent.local_modes.insert(LocalModes::ICANON);
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self { before })
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &self.before);
    }
}
