//! Requests to the object store: each is signed, sent, tried again where that may help, and read.

use crate::cut::PartNumber;
use crate::digest::{self, Stretch};
use crate::object::{Kind, Meta, Object};
use crate::place::Access;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rusty_s3::actions::{
    CompleteMultipartUploadResponse, CreateMultipartUpload, ListObjectsV2, ListObjectsV2Response, ListParts,
    S3Action,
};
use rusty_s3::{Bucket, Credentials, Map, Method};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use ureq::http::{Request, Response, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, SendBody};

/// The store, over a number of connections.
pub struct Store {
    agent: Agent,
    bucket: Bucket,
    credentials: Option<Credentials>,
}

/// What a folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The names in it, with whether they are folders, sorted.
    pub names: Vec<(String, bool)>,
    /// What no folder can hold, under names that tell of it. Whoever looks at one of these meets an error: it is not to be left out
    /// without a word.
    pub unshown: Vec<String>,
}

impl Listing {
    /// Of what follows a prefix: files with their bytes, and folders.
    fn of(files: Vec<(String, u64)>, folders: BTreeSet<String>) -> Listing {
        let mut listing = Listing::default();
        // Some programs put an empty object beside a folder, to stand for it.
        let is_for_folder = |name: &String, len: u64| len == 0 && folders.contains(name);
        let files = files.into_iter().filter(|(name, len)| !is_for_folder(name, *len));
        let mut all: Vec<_> = files.map(|(name, _)| (name, false)).collect();
        all.extend(folders.into_iter().map(|name| (name, true)));
        all.sort();
        for (name, is_folder) in all {
            if !is_name(&name) {
                listing
                    .unshown
                    .push(format!("{} (no name for a file)", cut(&name).replace(['/', '\0'], "_")));
            } else if listing.names.last().is_some_and(|(before, _)| *before == name) {
                // The file is what was asked for by name.
                listing.unshown.push(format!("{} (the folder)", cut(&name)));
            } else {
                listing.names.push((name, is_folder));
            }
        }
        listing
    }
}

/// A part that a store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPart {
    /// Its number.
    pub number: PartNumber,
    /// Its bytes.
    pub len: u64,
    /// What it is named by when the upload ends.
    pub etag: String,
}

/// What is sent with a request.
enum Payload<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// A stretch of a file.
    File(&'a File, Range<u64>),
}

impl Store {
    /// Nothing is sent yet.
    pub fn new(access: Access) -> Store {
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .tls_config(tls)
            .timeout_connect(Some(CONNECT_PATIENCE))
            .timeout_per_read(Some(PATIENCE))
            .timeout_per_write(Some(PATIENCE))
            .max_idle_connections(CONNECTIONS)
            .max_idle_connections_per_host(CONNECTIONS)
            .max_redirects(0)
            .user_agent(concat!("longhaul-store/", env!("CARGO_PKG_VERSION")));
        Store { agent: config.build().into(), bucket: access.bucket, credentials: access.credentials }
    }

    /// Whether the bucket is there and may be read: asked once.
    pub fn check(&self, prefix: &str) -> io::Result<()> {
        let action = self.list_action(prefix, 1);
        done(self.ask(&action, prefix, &[], &Payload::Nothing)?, "LIST", prefix).map(drop)
    }

    /// The object of this key.
    pub fn head(&self, key: &str) -> io::Result<Option<Object>> {
        let action = self.bucket.head_object(self.credentials.as_ref(), key);
        let asked =
            self.again("HEAD", key, || done(self.ask(&action, key, &[], &Payload::Nothing)?, "HEAD", key));
        let Some(answer) = found(asked)? else { return Ok(None) };
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let kind = if key.ends_with('/') { Kind::Folder } else { Kind::File };
        let stored = header("last-modified").and_then(|text| httpdate::parse_http_date(text).ok());
        let stored = stored.unwrap_or(UNIX_EPOCH);
        let (kind, meta) = Meta::read(kind, stored, header);
        let len = header("content-length").and_then(|text| text.parse().ok());
        let len = len.ok_or_else(|| odd("HEAD", key, "no content-length"))?;
        let etag = header("etag").unwrap_or_default().to_owned();
        Ok(Some(Object { kind, len, stored, meta, etag }))
    }

    /// A stretch of an object, of this version of it.
    pub fn get(&self, key: &str, etag: &str, stretch: &Range<u64>) -> io::Result<Vec<u8>> {
        let action = self.bucket.get_object(self.credentials.as_ref(), key);
        let range = format!("bytes={}-{}", stretch.start, stretch.end - 1);
        let headers = [("range", range), ("if-match", etag.to_owned())];
        let len = (stretch.end - stretch.start) as usize;
        self.again("GET", key, || {
            let answer = done(self.ask(&action, key, &headers, &Payload::Nothing)?, "GET", key)?;
            let mut data = Vec::with_capacity(len);
            answer.into_body().into_reader().take(len as u64 + 1).read_to_end(&mut data)?;
            if data.len() == len { Ok(data) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        })
    }

    /// Store a file in one go.
    pub fn put_file(&self, key: &str, meta: &Meta, file: &File, len: u64) -> io::Result<Object> {
        self.put(key, Kind::File, meta, &Payload::File(file, 0..len))
    }

    /// Store what stands for a folder.
    pub fn put_folder(&self, key: &str, meta: &Meta) -> io::Result<Object> {
        self.put(key, Kind::Folder, meta, &Payload::Bytes(&[]))
    }

    /// Store a symbolic link.
    pub fn put_link(&self, key: &str, meta: &Meta, target: &str) -> io::Result<Object> {
        self.put(key, Kind::Link, meta, &Payload::Bytes(target.as_bytes()))
    }

    fn put(&self, key: &str, kind: Kind, meta: &Meta, payload: &Payload<'_>) -> io::Result<Object> {
        let mut action = self.bucket.put_object(self.credentials.as_ref(), key);
        let headers = meta.headers(kind);
        sign_headers(action.headers_mut(), &headers);
        match self.put_by(&action, key, &headers, payload)? {
            (Some(etag), stored) => Ok(Object { kind, len: payload.len(), stored, meta: *meta, etag }),
            (None, _) => self.head(key)?.ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }

    /// Which version has come of it, if the store tells, and when.
    fn put_by<'a>(
        &self,
        action: &impl S3Action<'a>,
        key: &str,
        headers: &[(&str, String)],
        payload: &Payload<'_>,
    ) -> io::Result<(Option<String>, SystemTime)> {
        self.again("PUT", key, || {
            let answer = done(self.ask(action, key, headers, payload)?, "PUT", key)?;
            let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
            let etag = header("etag").map(str::to_owned);
            let stored = header("date").and_then(|text| httpdate::parse_http_date(text).ok());
            Ok((etag, stored.unwrap_or_else(SystemTime::now)))
        })
    }

    /// Give an object other headers, which stores do by copying it upon itself. `from` may be another key.
    pub fn copy(&self, from: &str, key: &str, kind: Kind, meta: &Meta) -> io::Result<()> {
        let mut action = self.bucket.put_object(self.credentials.as_ref(), key);
        let source = self.bucket.object_url(from);
        // The path of its URL, and that without the bucket where its name stands in the host.
        let key_path = source.path().strip_prefix(self.bucket.base_url().path()).unwrap_or_default();
        let [time, mode] = meta.headers(kind);
        let headers = [
            ("x-amz-copy-source", format!("/{}/{key_path}", self.bucket.name())),
            ("x-amz-metadata-directive", "REPLACE".to_owned()),
            time,
            mode,
        ];
        sign_headers(action.headers_mut(), &headers);
        let text = self.do_it(&action, "COPY", key, &headers, &Payload::Nothing)?;
        // What fails after the answer has begun is told in it.
        if text.contains("<Error>") { Err(odd("COPY", key, &text)) } else { Ok(()) }
    }

    /// Remove an object; none is no error.
    pub fn delete(&self, key: &str) -> io::Result<()> {
        let action = self.bucket.delete_object(self.credentials.as_ref(), key);
        found(self.do_it(&action, "DELETE", key, &[], &Payload::Nothing)).map(drop)
    }

    /// What a folder holds, by what its keys begin with.
    pub fn list(&self, prefix: &str) -> io::Result<Listing> {
        let (mut files, mut folders) = (vec![], BTreeSet::new());
        let mut token = None;
        loop {
            let page = self.page(prefix, token.as_deref())?;
            let name = |key: &str| key.strip_prefix(prefix).map(str::to_owned);
            let here = page
                .contents
                .iter()
                .filter_map(|object| Some((name(&object.key)?, object.size.unwrap_or(u64::MAX))));
            // The folder's own object.
            files.extend(here.filter(|(name, _)| !name.is_empty()));
            let below = page.common_prefixes.iter();
            folders.extend(below.filter_map(|folder| name(folder.prefix.strip_suffix('/')?)));
            token = page.next_continuation_token;
            if token.is_none() {
                return Ok(Listing::of(files, folders));
            }
        }
    }

    fn page(&self, prefix: &str, token: Option<&str>) -> io::Result<ListObjectsV2Response> {
        let mut action = self.list_action(prefix, 1000);
        if let Some(token) = token {
            action.with_continuation_token(token);
        }
        let text = self.do_it(&action, "LIST", prefix, &[], &Payload::Nothing)?;
        ListObjectsV2::parse_response(&text).map_err(|error| odd("LIST", prefix, error))
    }

    fn list_action<'a>(&'a self, prefix: &'a str, keys_max: usize) -> ListObjectsV2<'a> {
        let mut action = self.bucket.list_objects_v2(self.credentials.as_ref());
        action.with_prefix(prefix);
        action.with_delimiter("/");
        action.with_max_keys(keys_max);
        action
    }

    /// Begin an upload in parts.
    pub fn begin(&self, key: &str, meta: &Meta) -> io::Result<String> {
        let mut action = self.bucket.create_multipart_upload(self.credentials.as_ref(), key);
        let headers = meta.headers(Kind::File);
        sign_headers(action.headers_mut(), &headers);
        let text = self.do_it(&action, "BEGIN", key, &headers, &Payload::Nothing)?;
        let begun = CreateMultipartUpload::parse_response(&text).map_err(|e| odd("BEGIN", key, e))?;
        Ok(begun.upload_id().to_owned())
    }

    /// Store a part of it.
    pub fn put_part(
        &self,
        key: &str,
        upload: &str,
        number: PartNumber,
        file: &File,
        stretch: Range<u64>,
    ) -> io::Result<String> {
        let action = self.bucket.upload_part(self.credentials.as_ref(), key, number, upload);
        let payload = Payload::File(file, stretch);
        self.put_by(&action, key, &[], &payload)?.0.ok_or_else(|| odd("PUT", key, "no etag"))
    }

    /// The parts that are there. An error of kind `NotFound`: the store knows no such upload.
    pub fn parts(&self, key: &str, upload: &str) -> io::Result<Vec<StoredPart>> {
        let mut found = vec![];
        let mut marker = None;
        loop {
            let mut action = self.bucket.list_parts(self.credentials.as_ref(), key, upload);
            if let Some(marker) = marker {
                action.set_part_number_marker(marker);
            }
            let text = self.do_it(&action, "PARTS", key, &[], &Payload::Nothing)?;
            let page = ListParts::parse_response(&text).map_err(|error| odd("PARTS", key, error))?;
            let parts = page.parts.into_iter();
            found.extend(parts.map(|p| StoredPart { number: p.number, len: p.size, etag: p.etag }));
            marker = page.next_part_number_marker;
            if marker.is_none() {
                return Ok(found);
            }
        }
    }

    /// Make an object of its parts: all of them, in their order. An error of kind `NotFound`: the store knows no such upload, or not
    /// all of its parts.
    pub fn complete(&self, key: &str, upload: &str, etags: &[&str]) -> io::Result<()> {
        let etags = etags.iter().copied();
        let action = self.bucket.complete_multipart_upload(self.credentials.as_ref(), key, upload, etags);
        let body = action.clone().body();
        let text = self.do_it(&action, "COMPLETE", key, &[], &Payload::Bytes(body.as_bytes()))?;
        // It may fail after the answer has begun.
        CompleteMultipartUploadResponse::parse(&text).map(drop).map_err(|error| {
            let odd = odd("COMPLETE", key, format!("{error}: {text}"));
            if lacks_parts(&text) { io::Error::new(io::ErrorKind::NotFound, odd) } else { odd }
        })
    }

    /// Give an upload up. One that is not there is no error.
    pub fn abort(&self, key: &str, upload: &str) -> io::Result<()> {
        let action = self.bucket.abort_multipart_upload(self.credentials.as_ref(), key, upload);
        found(self.do_it(&action, "ABORT", key, &[], &Payload::Nothing)).map(drop)
    }

    /// Ask, again where that may help, and read the whole answer.
    fn do_it<'a>(
        &self,
        action: &impl S3Action<'a>,
        what: &str,
        key: &str,
        headers: &[(&str, String)],
        payload: &Payload<'_>,
    ) -> io::Result<String> {
        self.again(what, key, || {
            let mut answer = done(self.ask(action, key, headers, payload)?, what, key)?;
            answer.body_mut().with_config().limit(ANSWER_MAX).read_to_string().map_err(io::Error::other)
        })
    }

    /// What fails for a while is tried again for most of a minute.
    fn again<T>(&self, what: &str, key: &str, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut pauses = PAUSES.iter();
        loop {
            let error = match attempt() {
                Err(error) if is_momentary(&error) => error,
                settled => return settled,
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            tracing::warn!("{what} {key}: {error}; once more in {:.1} s", pause.as_secs_f64());
            sleep(*pause);
        }
    }

    /// One request. The answer may be a refusal.
    fn ask<'a>(
        &self,
        action: &impl S3Action<'a>,
        key: &str,
        headers: &[(&str, String)],
        payload: &Payload<'_>,
    ) -> io::Result<Response<Body>> {
        let url = action.sign(SIGNED_FOR);
        let mut request = Request::builder().method(method(action)).uri(url.as_str());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(digest) = payload.digest()? {
            // The store holds what came against it.
            request = request.header("content-md5", digest).header("content-length", payload.len());
        }
        let wrong = |error: ureq::http::Error| odd("request", key, error);
        let answer = match payload {
            Payload::Nothing => self.agent.run(request.body(()).map_err(wrong)?),
            Payload::Bytes(bytes) => self.agent.run(request.body(*bytes).map_err(wrong)?),
            Payload::File(file, stretch) => {
                let mut reader = Stretch::new(file, stretch.clone());
                self.agent.run(request.body(SendBody::from_reader(&mut reader)).map_err(wrong)?)
            }
        };
        answer.map_err(ureq::Error::into_io)
    }
}

impl Payload<'_> {
    fn len(&self) -> u64 {
        match self {
            Payload::Nothing => 0,
            Payload::Bytes(bytes) => bytes.len() as u64,
            Payload::File(_, stretch) => stretch.end - stretch.start,
        }
    }

    fn digest(&self) -> io::Result<Option<String>> {
        let digest = match self {
            Payload::Nothing => return Ok(None),
            Payload::Bytes(bytes) => digest::of(bytes),
            Payload::File(file, stretch) => digest::of_file(file, stretch.clone())?,
        };
        Ok(Some(BASE64_STANDARD.encode(digest)))
    }
}

/// The store said no.
#[derive(Debug, thiserror::Error)]
#[error("the store refuses {what} {key}: {status}{}{said}", if said.is_empty() { "" } else { ": " })]
struct Refused {
    what: String,
    key: String,
    status: StatusCode,
    said: String,
}

/// An answer that is not a refusal.
fn done(mut answer: Response<Body>, what: &str, key: &str) -> io::Result<Response<Body>> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let text = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_string().unwrap_or_default();
    let said: Vec<&str> = ["Code", "Message"].into_iter().filter_map(|name| field(&text, name)).collect();
    let kind = match status {
        StatusCode::NOT_FOUND => io::ErrorKind::NotFound,
        _ if lacks_parts(&text) => io::ErrorKind::NotFound,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => io::ErrorKind::PermissionDenied,
        // It is another version by now.
        StatusCode::PRECONDITION_FAILED => io::ErrorKind::StaleNetworkFileHandle,
        StatusCode::INSUFFICIENT_STORAGE => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    Err(io::Error::new(kind, Refused { what: what.into(), key: key.into(), status, said: said.join(": ") }))
}

/// What an answer that tells of an error says of it.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once("</")?.0)
}

/// Whether an answer tells that the store has not, or not any more, what was uploaded.
fn lacks_parts(text: &str) -> bool {
    matches!(field(text, "Code"), Some("NoSuchUpload" | "InvalidPart"))
}

/// `None` where what was asked for is not there.
fn found<T>(answered: io::Result<T>) -> io::Result<Option<T>> {
    match answered {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Whether the same request may be answered otherwise a little later.
fn is_momentary(error: &io::Error) -> bool {
    let Some(inner) = error.get_ref() else {
        // What the system said of the connection.
        return !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
    };
    match inner.downcast_ref::<Refused>() {
        Some(refused) => {
            refused.status.is_server_error()
                || matches!(refused.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
        }
        // What ureq says of it, unless an answer makes no sense.
        None => error.kind() != io::ErrorKind::InvalidData,
    }
}

fn odd(what: &str, key: &str, why: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the store answers {what} {key}: {why}"))
}

fn method<'a, A: S3Action<'a>>(_: &A) -> &'static str {
    match A::METHOD {
        Method::Head => "HEAD",
        Method::Get => "GET",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
    }
}

/// Headers of this kind count only if they are signed.
fn sign_headers(map: &mut Map<'_>, headers: &[(&'static str, String)]) {
    for (name, value) in headers {
        map.insert(*name, value.clone());
    }
}

/// What a folder can hold under this name.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']) && name.len() <= 255
}

/// The beginning of a name, short enough for what is said after it.
fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(200)]
}

/// A host that is there takes a connection at once.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may be silent: a store puts the parts of a large object together before it answers.
const PATIENCE: Duration = Duration::from_secs(120);
/// As many as there are threads that ask.
const CONNECTIONS: usize = 32;
/// Between a request and the same once more.
const PAUSES: [Duration; 6] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(8),
    Duration::from_secs(15),
    Duration::from_secs(30),
];
/// A request that is under way for longer is refused.
const SIGNED_FOR: Duration = Duration::from_secs(3600);
/// Of an answer that is no object: a page of a list has 1000 keys of at most 1 KiB, three times as long when written for a URL.
const ANSWER_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_folder_can_hold_is_told_under_a_name_of_its_own() {
        let long = "x".repeat(256);
        let files = [("b", 3), ("data", 0), ("both", 5), ("..", 1), (&*long, 1)];
        let folders = ["data", "both", "c", ""].map(str::to_owned);
        let listing = Listing::of(files.map(|(name, len)| (name.to_owned(), len)).into(), folders.into());
        let names: Vec<_> = listing.names.iter().map(|(name, is_folder)| (&**name, *is_folder)).collect();
        assert_eq!(names, [("b", false), ("both", false), ("c", true), ("data", true)]);
        let too_long = format!("{} (no name for a file)", &long[..200]);
        let unshown = [" (no name for a file)", ".. (no name for a file)", "both (the folder)", &too_long];
        assert_eq!(listing.unshown, unshown);
    }
}
