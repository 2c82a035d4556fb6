//! `knock SOCKET`: sends its input to a unix socket and prints the answer. For a test that connects as a
//! different user.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

fn main() -> io::Result<()> {
    let path = std::env::args().nth(1).ok_or_else(|| io::Error::other("usage: knock SOCKET"))?;
    let mut request = Vec::new();
    io::stdin().read_to_end(&mut request)?;
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let _ = stream.write_all(&request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    io::stdout().write_all(&answer)
}
