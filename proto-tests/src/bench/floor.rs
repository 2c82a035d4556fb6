//! The floor: a shim and a daemon that only forward messages. They have the shape of the real ones (stdio,
//! one POST per message on a kept-alive connection, hyper, the child's pipe) and nothing else: no sessions,
//! ordering, routes, authentication, limits, deadlines, cancellation or mailbox. Whatever Switchboard costs
//! above this is the price of its features.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustix::fd::{AsFd, OwnedFd};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::oneshot;

fn alone(task: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, task)
}

fn duplicate(fd: impl AsFd) -> io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}

// ---- the daemon ----

struct Pipe {
    stdin: pipe::Sender,
    waiting: RefCell<HashMap<u64, oneshot::Sender<Bytes>>>,
    issued: RefCell<u64>,
}

/// Serves `socket` and a TCP port, which it prints. Echoes posts to `/hop`; forwards all others to the child.
pub fn daemon(socket: &Path, child: &[String]) -> io::Result<()> {
    alone(serve(socket.to_owned(), child.to_owned()))
}

#[allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program that is measured")]
async fn serve(socket: PathBuf, child: Vec<String>) -> io::Result<()> {
    let listener = UnixListener::bind(&socket)?;
    let tcp = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", tcp.local_addr()?.port());
    let mut process =
        Command::new(&child[0]).args(&child[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let stdin = pipe::Sender::from_owned_fd(process.stdin.take().expect("BUG: it is piped").into())?;
    let stdout = pipe::Receiver::from_owned_fd(process.stdout.take().expect("BUG: it is piped").into())?;
    let pipe = Rc::new(Pipe { stdin, waiting: RefCell::default(), issued: RefCell::default() });
    tokio::task::spawn_local(read_child(Rc::clone(&pipe), stdout));
    loop {
        tokio::select! {
            accepted = listener.accept() => connection(accepted?.0, &pipe),
            accepted = tcp.accept() => {
                let (stream, _) = accepted?;
                stream.set_nodelay(true)?;
                connection(stream, &pipe);
            }
        }
    }
}

fn connection(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, pipe: &Rc<Pipe>) {
    let pipe = Rc::clone(pipe);
    tokio::task::spawn_local(async move {
        let answer = service_fn(move |request| pass_on(Rc::clone(&pipe), request));
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
    });
}

async fn pass_on(pipe: Rc<Pipe>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let answers_itself = request.uri().path() == "/hop";
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if answers_itself {
        return Ok(Response::new(Full::new(body)));
    }
    let Some((before, id, after)) = around_id(&body) else {
        write_all(&pipe.stdin, &[&body[..], b"\n"].concat()).await;
        return Ok(Response::new(Full::default()));
    };
    let number = {
        let mut issued = pipe.issued.borrow_mut();
        *issued += 1;
        *issued
    };
    let (reply, answer) = oneshot::channel();
    pipe.waiting.borrow_mut().insert(number, reply);
    write_all(&pipe.stdin, &[before, number.to_string().as_bytes(), after, b"\n"].concat()).await;
    let answer = answer.await.unwrap_or_default();
    let answer = match around_id(&answer) {
        Some((before, _, after)) => [before, id, after].concat().into(),
        None => answer,
    };
    Ok(Response::new(Full::new(answer)))
}

async fn read_child(pipe: Rc<Pipe>, mut stdout: pipe::Receiver) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(64 * 1024);
        if !matches!(stdout.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
        while let Some(line) = take_line(&mut buffer) {
            let id = around_id(&line).and_then(|(_, id, _)| std::str::from_utf8(id).ok()?.parse().ok());
            if let Some(reply) = id.and_then(|id: u64| pipe.waiting.borrow_mut().remove(&id)) {
                let _ = reply.send(line);
            }
        }
    }
}

/// The bytes before the value of the first `"id":`, the value, and the rest.
fn around_id(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let at = memchr::memmem::find(line, b"\"id\":")? + 5;
    let length = memchr::memchr2(b',', b'}', &line[at..])?;
    Some((&line[..at], &line[at..at + length], &line[at + length..]))
}

fn take_line(buffer: &mut BytesMut) -> Option<Bytes> {
    let at = memchr::memchr(b'\n', buffer)?;
    let line = buffer.split_to(at).freeze();
    buffer.advance(1);
    Some(line)
}

async fn write_all(pipe: &pipe::Sender, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match pipe.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = pipe.writable().await;
            }
            Err(_) => return,
        }
    }
}

// ---- the shim ----

struct Host {
    socket: PathBuf,
    stdout: pipe::Sender,
    idle: RefCell<Vec<UnixStream>>,
}

/// Relays stdin and stdout to the daemon on `socket`. If none runs, starts it with the command `start`, if
/// given.
pub fn shim(socket: &Path, start: &[String]) -> io::Result<()> {
    alone(relay(socket.to_owned(), start.to_owned()))
}

#[allow(clippy::disallowed_methods, reason = "a program that is measured")]
async fn relay(socket: PathBuf, start: Vec<String>) -> io::Result<()> {
    if !start.is_empty() && UnixStream::connect(&socket).await.is_err() {
        Command::new(&start[0]).args(&start[1..]).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        while UnixStream::connect(&socket).await.is_err() {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
    let mut stdin = pipe::Receiver::from_owned_fd(duplicate(rustix::stdio::stdin())?)?;
    let stdout = pipe::Sender::from_owned_fd(duplicate(rustix::stdio::stdout())?)?;
    let host = Rc::new(Host { socket, stdout, idle: RefCell::default() });
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(16 * 1024);
        if !matches!(stdin.read_buf(&mut buffer).await, Ok(1..)) {
            return Ok(());
        }
        while let Some(line) = take_line(&mut buffer) {
            let host = Rc::clone(&host);
            tokio::task::spawn_local(async move {
                let _ = exchange(&host, &line).await;
            });
        }
    }
}

async fn exchange(host: &Host, line: &Bytes) -> io::Result<()> {
    let idle = host.idle.borrow_mut().pop();
    let mut stream = match idle {
        Some(stream) => stream,
        None => UnixStream::connect(&host.socket).await?,
    };
    let length = line.len();
    let head = Bytes::from(format!(
        "POST /proxy HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    ));
    stream.write_all_buf(&mut head.chain(line.clone())).await?;
    let mut buffer = BytesMut::with_capacity(4096);
    let (head, length) = loop {
        if stream.read_buf(&mut buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(found) = head_of(&buffer) {
            break found;
        }
    };
    buffer.advance(head);
    buffer.reserve((length + 1).saturating_sub(buffer.len()));
    while buffer.len() < length {
        if stream.read_buf(&mut buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    host.idle.borrow_mut().push(stream);
    if length > 0 {
        buffer.extend_from_slice(b"\n");
        write_all(&host.stdout, &buffer).await;
    }
    Ok(())
}

/// The length of an answer's head, and of its body.
fn head_of(buffer: &[u8]) -> Option<(usize, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) = response.parse(buffer).ok()? else { return None };
    let length = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"))?;
    Some((head, std::str::from_utf8(length.value).ok()?.parse().ok()?))
}
