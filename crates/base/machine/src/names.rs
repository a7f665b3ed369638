//! Names and paths as they are shown. A name may come from another user: it may have bytes that are not text, and
//! bytes that control a terminal.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

/// Text from elsewhere as it may be shown, on one line.
pub fn printable(text: &str) -> String {
    let shown = |letter: char| if steers(letter) { '?' } else { letter };
    text.chars().map(shown).collect()
}

/// Text of several lines as it may be shown: [`printable`], but line ends and tabulators stay.
pub fn printable_lines(text: &str) -> String {
    let is_kept = |letter: char| matches!(letter, '\n' | '\t') || !steers(letter);
    let shown = |letter: char| if is_kept(letter) { letter } else { '?' };
    text.chars().map(shown).collect()
}

/// Whether a terminal obeys it, or shows what follows in another place.
fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A path in a document. In JSON it is text, in which bytes that are no UTF-8 are U+FFFD; for people it is
/// [`printable`] as well.
#[derive(Clone, Default, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(transparent)]
pub struct NamedPath(PathBuf);

impl From<PathBuf> for NamedPath {
    fn from(path: PathBuf) -> NamedPath {
        NamedPath(path)
    }
}

impl From<&Path> for NamedPath {
    fn from(path: &Path) -> NamedPath {
        NamedPath(path.to_owned())
    }
}

impl Deref for NamedPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for NamedPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for NamedPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&printable(&self.0.to_string_lossy()))
    }
}

impl Serialize for NamedPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_string_lossy())
    }
}

/// A path in a file that this program reads again: text where it is UTF-8, else the numbers of its bytes.
pub mod exact_path {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Exact {
        Text(String),
        Bytes(Vec<u8>),
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let exact = match path.to_str() {
            Some(text) => Exact::Text(text.to_owned()),
            None => Exact::Bytes(path.as_os_str().as_bytes().to_vec()),
        };
        exact.serialize(serializer)
    }

    /// Reads it.
    ///
    /// # Errors
    /// What is neither.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(match Exact::deserialize(from)? {
            Exact::Text(text) => text.into(),
            Exact::Bytes(bytes) => OsStr::from_bytes(&bytes).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    fn odd() -> PathBuf {
        OsStr::from_bytes(b"/a\xff\x1b[31m\n\"<b>").into()
    }

    #[test]
    fn every_path_is_text_in_json_and_one_line_for_people() {
        let path = NamedPath::from(odd());
        assert_eq!(path.to_string(), "/a\u{fffd}?[31m?\"<b>");
        let json = serde_json::to_string(&path).unwrap();
        assert_eq!(json, r#""/a�\u001b[31m\n\"<b>""#);
        assert_eq!(printable("a\u{202e}b\u{9b}c\td"), "a?b?c?d");
        assert_eq!(printable_lines("a\n\tb\r\x07"), "a\n\tb??");
    }

    #[test]
    fn a_path_that_is_read_again_keeps_its_bytes() {
        #[derive(Serialize, Deserialize)]
        struct Kept(#[serde(with = "exact_path")] PathBuf);
        for path in [PathBuf::from("/plain/ü"), odd()] {
            let json = serde_json::to_string(&Kept(path.clone())).unwrap();
            assert_eq!(serde_json::from_str::<Kept>(&json).unwrap().0, path);
        }
        assert!(serde_json::from_str::<Kept>("[256]").is_err());
    }
}
