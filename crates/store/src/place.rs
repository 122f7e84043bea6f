//! Which bucket it is, where it is reached, and as whom.

use rusty_s3::{Bucket, BucketError, Credentials, UrlStyle};
use std::env;

/// A folder of a bucket: `s3://BUCKET/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The bucket's name.
    pub bucket: String,
    /// What all keys begin with: empty, or with a slash at its end.
    pub prefix: String,
}

/// What is wrong with a place or with how it is reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// It does not begin as it should.
    #[error("{0}: a folder of an object store is written s3://BUCKET or s3://BUCKET/FOLDER")]
    Form(String),
    /// A component that no file system has.
    #[error("{0}: a folder of a bucket has neither empty components nor . nor ..")]
    Component(String),
    /// The endpoint is no URL.
    #[error("{ENDPOINT}: {0}: not a URL of a host, such as https://s3.example.org")]
    Endpoint(String),
    /// The bucket's URL cannot be made.
    #[error("bucket {name}: {source}")]
    Bucket {
        /// Its name.
        name: String,
        /// Why.
        source: BucketError,
    },
    /// One half of a key.
    #[error("{KEY_ID} and {SECRET} go together, and one of them is missing")]
    HalfOfKey,
    /// Neither of the two words.
    #[error("{STYLE}: {0}: either path or virtual")]
    Style(String),
}

impl Place {
    /// Read what a user wrote.
    pub fn parse(text: &str) -> Result<Place, PlaceError> {
        let form = || PlaceError::Form(text.into());
        let (bucket, prefix) = match text.strip_prefix(SCHEME).ok_or_else(form)?.split_once('/') {
            Some((bucket, prefix)) => (bucket, prefix.trim_end_matches('/')),
            None => (&text[SCHEME.len()..], ""),
        };
        if bucket.is_empty() {
            return Err(form());
        }
        if !prefix.is_empty() && prefix.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return Err(PlaceError::Component(text.into()));
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Place { bucket: bucket.into(), prefix })
    }
}

/// How a bucket is reached: its URL and the key.
#[derive(Clone, Debug)]
pub struct Access {
    /// The bucket.
    pub bucket: Bucket,
    /// `None`: requests are not signed.
    pub credentials: Option<Credentials>,
}

impl Access {
    /// As the environment says, by the names that other programs take it from.
    pub fn from_env(place: &Place) -> Result<Access, PlaceError> {
        Access::told(place, |name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn told(place: &Place, get: impl Fn(&str) -> Option<String>) -> Result<Access, PlaceError> {
        let region = get("AWS_REGION").or_else(|| get("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".into());
        let named = get("AWS_ENDPOINT_URL_S3").or_else(|| get(ENDPOINT));
        // Others than Amazon's mostly have no name for each bucket.
        let usual = if named.is_some() { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let style = match get(STYLE).as_deref() {
            None => usual,
            Some("path") => UrlStyle::Path,
            Some("virtual") => UrlStyle::VirtualHost,
            Some(other) => return Err(PlaceError::Style(other.into())),
        };
        let endpoint = named.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let url = endpoint.parse().map_err(|_| PlaceError::Endpoint(endpoint))?;
        let bucket = Bucket::new(url, style, place.bucket.clone(), region)
            .map_err(|source| PlaceError::Bucket { name: place.bucket.clone(), source })?;
        let credentials = match (get(KEY_ID), get(SECRET), get("AWS_SESSION_TOKEN")) {
            (Some(id), Some(secret), None) => Some(Credentials::new(id, secret)),
            (Some(id), Some(secret), Some(token)) => Some(Credentials::new_with_token(id, secret, token)),
            (None, None, _) => None,
            _ => return Err(PlaceError::HalfOfKey),
        };
        Ok(Access { bucket, credentials })
    }
}

const SCHEME: &str = "s3://";
const ENDPOINT: &str = "AWS_ENDPOINT_URL";
const KEY_ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
const STYLE: &str = "LONGHAUL_S3_STYLE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_bucket_and_a_folder_in_it() {
        let read = |text| Place::parse(text).map(|place| (place.bucket, place.prefix)).ok();
        let is = |bucket: &str, prefix: &str| Some((bucket.into(), prefix.into()));
        assert_eq!(read("s3://b"), is("b", ""));
        assert_eq!(read("s3://b/"), is("b", ""));
        assert_eq!(read("s3://b/a/c//"), is("b", "a/c/"));
        for wrong in ["s3://", "s3:///a", "b/a", "s3://b/a//c", "s3://b/../c", "s3://b/."] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_environment_says_where_and_as_whom() {
        let told = |pairs: &[(&str, &str)]| {
            let place = Place { bucket: "bucket".into(), prefix: String::new() };
            let get = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
            Access::told(&place, get)
        };
        let url = |pairs: &[(&str, &str)]| told(pairs).unwrap().bucket.base_url().to_string();
        assert_eq!(url(&[]), "https://bucket.s3.us-east-1.amazonaws.com/");
        assert_eq!(url(&[("AWS_REGION", "eu-north-1")]), "https://bucket.s3.eu-north-1.amazonaws.com/");
        let ours = ("AWS_ENDPOINT_URL", "http://store.example.org:9000/s3");
        assert_eq!(url(&[ours]), "http://store.example.org:9000/s3/bucket/");
        assert_eq!(
            url(&[ours, ("LONGHAUL_S3_STYLE", "virtual")]),
            "http://bucket.store.example.org:9000/s3/"
        );
        let keys =
            [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_SESSION_TOKEN", "t")];
        let credentials = told(&keys).unwrap().credentials.unwrap();
        assert_eq!(
            (credentials.key(), credentials.secret(), credentials.token()),
            ("id", "secret", Some("t"))
        );
        assert!(told(&[]).unwrap().credentials.is_none());
        assert!(matches!(told(&keys[..1]), Err(PlaceError::HalfOfKey)));
        assert!(matches!(told(&[("AWS_ENDPOINT_URL", "nowhere")]), Err(PlaceError::Endpoint(_))));
        assert!(matches!(told(&[("LONGHAUL_S3_STYLE", "odd")]), Err(PlaceError::Style(_))));
    }
}
