//! Children that end, or stay, at the wrong moment.

use std::fs::File;

use rustix::process::{Signal, getpid, kill_process};

use super::grandchild::ignore_term;
use super::peer::Incoming;
use super::serve::{Handling, answer, serve, usual};
use super::tools::{close_stdout, forever};
use super::{Behaviour, Peer, number};

pub(crate) const TABLE: &[Behaviour] = &[
    Behaviour::new(
        "crash-after",
        "N: answers so many calls and exits with status 7 at the next",
        |peer, args| {
            let mut left = number(args, 0, 1);
            at_call(&peer, move |peer, message| {
                if left == 0 {
                    eprintln!("evil child: that was one too many");
                    std::process::exit(7);
                }
                left -= 1;
                answer(peer, message);
            });
        },
    ),
    Behaviour::new("exit-after-answer", "exits with status 0 right after it answered a call", |peer, _| {
        at_call(&peer, |peer, message| {
            answer(peer, message);
            std::process::exit(0);
        });
    }),
    Behaviour::new("exit-0-mid-call", "exits with status 0 instead of answering a call", |peer, _| {
        at_call(&peer, |_, _| std::process::exit(0));
    }),
    Behaviour::new("sigkill-mid-call", "kills itself with SIGKILL instead of answering a call", |peer, _| {
        at_call(&peer, |_, _| kill_myself(Signal::KILL));
    }),
    Behaviour::new("sigsegv-mid-call", "kills itself with SIGSEGV instead of answering a call", |peer, _| {
        at_call(&peer, |_, _| {
            // The first signal only removes the handler that Rust installs for stack overflows.
            kill_myself(Signal::SEGV);
            kill_myself(Signal::SEGV);
        });
    }),
    Behaviour::new("stops-mid-call", "stops itself with SIGSTOP instead of answering a call", |peer, _| {
        at_call(&peer, |_, _| kill_myself(Signal::STOP));
    }),
    Behaviour::new("half-line-then-death", "writes half an answer and exits", |peer, _| {
        at_call(&peer, |peer, message| {
            peer.write_raw(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"con"#, message.id()).as_bytes());
            std::process::exit(1);
        });
    }),
    Behaviour::new("last-line-unterminated", "answers a call without a newline and exits", |peer, _| {
        peer.set_writer(|message, out| {
            let end = if message.contains("\"ok\":true") { "" } else { "\n" };
            write!(out, "{message}{end}")
        });
        at_call(&peer, |peer, message| {
            answer(peer, message);
            std::process::exit(0);
        });
    }),
    Behaviour::new("closes-stdout", "closes stdout at a call and lives on", |peer, _| {
        at_call(&peer, |_, _| close_stdout());
    }),
    Behaviour::new("closes-stdin", "answers a call, then closes stdin and lives on", |peer, _| {
        at_call(&peer, |peer, message| {
            rustix::stdio::dup2_stdin(File::open("/dev/null").expect("/dev/null"))
                .expect("a stdin to replace");
            answer(peer, message);
            forever();
        });
    }),
    Behaviour::new("ignores-eof", "lives on when its input ends", |peer, _| {
        serve(&peer, usual);
        forever();
    }),
    Behaviour::new("ignores-term", "lives on when its input ends and when it gets TERM", |peer, _| {
        ignore_term();
        serve(&peer, usual);
        forever();
    }),
    Behaviour::new(
        "slow-exit",
        "MS: takes so many milliseconds to exit when its input ends",
        |peer, args| {
            serve(&peer, usual);
            std::thread::sleep(std::time::Duration::from_millis(number(args, 0, 200)));
        },
    ),
    Behaviour::new("crashes-on-cancel", "exits with status 8 when a call is cancelled", |peer, _| {
        serve(&peer, |_, message| {
            if message.is("notifications/cancelled") {
                std::process::exit(8);
            }
            Handling::Usual
        });
    }),
    Behaviour::new(
        "dies-once",
        "FILE: exits with status 9 at its first call, unless the file exists already",
        |peer, args| {
            let mark = args[0].to_owned();
            at_call(&peer, move |peer, message| {
                if File::create_new(&mark).is_ok() {
                    std::process::exit(9);
                }
                answer(peer, message);
            });
        },
    ),
];

fn at_call(peer: &Peer, mut bent: impl FnMut(&Peer, &Incoming)) {
    serve(peer, |peer, message| {
        if !message.is("tools/call") {
            return Handling::Usual;
        }
        bent(peer, message);
        Handling::Taken
    });
}

fn kill_myself(signal: Signal) {
    kill_process(getpid(), signal).expect("a signal to myself");
}
