//! One page over HTTP (RFC 9112), for whoever asks. Callers who say nothing cost little: there are no more threads and descriptors for
//! all of them than these, and each caller has them for a moment.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// What is told at a path.
pub struct Page {
    /// Where: `/metrics`.
    pub path: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// What it says now.
    pub text: Box<dyn Fn() -> String + Send + Sync>,
}

impl Page {
    /// Tell it from now on.
    pub fn start(self, listener: TcpListener) -> io::Result<()> {
        let shared = Arc::new((self, listener));
        for _ in 0..CALLERS_MAX {
            let shared = shared.clone();
            thread::Builder::new().name(NAME.into()).spawn(move || {
                let (page, listener) = &*shared;
                loop {
                    match listener.accept() {
                        // Whoever has left is not told.
                        Ok((caller, _)) => drop(page.answer(caller)),
                        // There may be descriptors again later.
                        Err(_) => thread::sleep(PATIENCE),
                    }
                }
            })?;
        }
        Ok(())
    }

    fn answer(&self, mut caller: TcpStream) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let (status, body) = match read_head(&mut caller, deadline)? {
            Some(Asked { path, .. }) if path != self.path => ("404 Not Found", format!("{}\n", self.path)),
            Some(Asked { method, .. }) if method != "GET" => ("405 Method Not Allowed", "GET\n".into()),
            Some(_) => ("200 OK", (self.text)()),
            None => ("400 Bad Request", String::new()),
        };
        let media_type = if status.starts_with("200") { self.media_type } else { "text/plain" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        write_until(&mut caller, (head + &body).as_bytes(), deadline)
    }
}

/// What a caller asks for.
struct Asked {
    method: String,
    /// Without what comes after a question mark.
    path: String,
}

/// Read a request as far as it matters. `None`: it is none.
fn read_head(caller: &mut TcpStream, deadline: Instant) -> io::Result<Option<Asked>> {
    let (mut buf, mut len) = ([0; HEAD_MAX], 0);
    while len < buf.len() {
        caller.set_read_timeout(Some(left(deadline)?))?;
        let more = caller.read(&mut buf[len..])?;
        len += more;
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&buf[..len]) {
            Ok(httparse::Status::Partial) if more > 0 => {}
            Ok(httparse::Status::Complete(_)) => {
                let path = request.path.and_then(|path| path.split('?').next());
                return Ok(request
                    .method
                    .zip(path)
                    .map(|(method, path)| Asked { method: method.into(), path: path.into() }));
            }
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn write_until(caller: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        caller.set_write_timeout(Some(left(deadline)?))?;
        match caller.write(bytes)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            len => bytes = &bytes[len..],
        }
    }
    Ok(())
}

/// How long there is until then.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

const NAME: &str = "metrics";
/// At a time; more wait in the kernel.
const CALLERS_MAX: usize = 4;
/// A scrape takes milliseconds, and a scraper waits ten seconds.
const PATIENCE: Duration = Duration::from_secs(2);
const HEAD_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn serve() -> impl Fn() -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let text = Box::new(|| "x".repeat(LONG));
        Page { path: "/metrics", media_type: "text/x", text }.start(listener).unwrap();
        move || TcpStream::connect(address).unwrap()
    }

    fn ask(caller: &mut TcpStream, request: &str) -> String {
        caller.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        caller.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_page_is_told_to_who_asks_for_it_alone() {
        let connect = serve();
        for (request, status) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK"),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", "200 OK"),
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            ("\x16\x03\x01 is no HTTP\r\n\r\n", "400 Bad Request"),
        ] {
            let answer = ask(&mut connect(), request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:?}: {answer}");
            assert_eq!(answer.ends_with(&"x".repeat(LONG)), status == "200 OK", "{request:?}");
        }
    }

    #[test]
    fn callers_who_say_nothing_are_let_go_of() {
        let connect = serve();
        let silent: Vec<TcpStream> = (0..CALLERS_MAX).map(|_| connect()).collect();
        let answer = ask(&mut connect(), "GET /metrics HTTP/1.0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        for mut caller in silent {
            assert_eq!(caller.read(&mut [0]).unwrap(), 0, "it was closed");
        }
    }

    #[test]
    fn what_is_longer_than_any_request_is_none() {
        let (mut caller, mut answer) = (serve()(), vec![]);
        let _ = caller.write_all(format!("GET /{} HTTP/1.1\r\n\r\n", "y".repeat(HEAD_MAX)).as_bytes());
        // What of it was not read may take the answer with it.
        let _ = caller.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    }

    const LONG: usize = 1 << 20;
}
