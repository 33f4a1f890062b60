//! Changes one key of a file and preserves the rest: comments, order and spelling.

use std::path::{Path, PathBuf};

use toml::Value;
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike};

use crate::shape::{Leaf, SHAPE, Shape};
use crate::{ConfigError, Fault, KeyPath, check, environment, file};

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file cannot be read or is not valid TOML.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// The text is not a key path.
    #[error("{text} is not the name of a key")]
    NotAKey { text: String },
    /// The configuration has no such key.
    #[error("unknown key {key}{}", meant(nearest.as_deref()))]
    UnknownKey {
        key: KeyPath,
        /// The path of the most similar known key.
        nearest: Option<String>,
    },
    /// The key is a table: only values can be set.
    #[error("{key} is a table; set one of the keys inside it")]
    NotAValue { key: KeyPath },
    /// The value is invalid for the key.
    #[error("{key}: {fault}")]
    Invalid { key: KeyPath, fault: Fault },
    /// The file has a value where a table is expected.
    #[error("{}: {key} is not a table", file.display())]
    NotATable { file: PathBuf, key: KeyPath },
    /// The file cannot be written.
    #[error("cannot write {}", file.display())]
    Unwritable {
        file: PathBuf,
        source: std::io::Error,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// Sets a key of a file, and creates the file if it does not exist. The value has the same form as
/// in the environment: a TOML value, or plain text if the key expects text.
pub fn set(path: &Path, key: &str, value: &str) -> Result<(), EditError> {
    let (key, leaf) = value_key(key)?;
    let value = environment::typed(value, Some(leaf));
    if let Some(fault) = check::leaf_fault(leaf, &value) {
        return Err(EditError::Invalid { key, fault });
    }
    let edited = Edited::open(path)?;
    edited.change(|document| {
        let (name, table) = holder(document.as_table_mut(), &key)?;
        let mut new = editable(&value);
        // Replaced in place, which preserves the comments above and beside the value.
        match table.get_mut(&name) {
            Some(item) => {
                if let Some(old) = item.as_value() {
                    *new.decor_mut() = old.decor().clone();
                }
                *item = Item::Value(new);
            }
            None => {
                table.insert(&name, Item::Value(new));
            }
        }
        Ok(())
    })
}

/// Removes a key of a file. Returns whether the file contained it.
pub fn unset(path: &Path, key: &str) -> Result<bool, EditError> {
    let (key, _) = value_key(key)?;
    let edited = Edited::open(path)?;
    let mut removed = false;
    edited.change(|document| {
        let mut table: &mut dyn TableLike = document.as_table_mut();
        let Some((last, folders)) = key.segments().split_last() else {
            return Ok(());
        };
        for (index, segment) in folders.iter().enumerate() {
            let name = written_name(table, &folders[..index], segment);
            let Some(inside) = table.get_mut(&name).and_then(Item::as_table_like_mut) else {
                return Ok(());
            };
            table = inside;
        }
        let name = written_name(table, folders, last);
        removed = table.remove(&name).is_some();
        Ok(())
    })?;
    Ok(removed)
}

fn value_key(text: &str) -> Result<(KeyPath, &'static Leaf), EditError> {
    let key = KeyPath::parse(text).ok_or_else(|| EditError::NotAKey {
        text: crate::key::quoted(text),
    })?;
    match check::locate(&key) {
        Ok((key, Shape::Leaf(leaf))) => Ok((key, leaf)),
        Ok((key, Shape::Table(_) | Shape::Names(_))) => Err(EditError::NotAValue { key }),
        Err(nearest) => Err(EditError::UnknownKey { key, nearest }),
    }
}

/// A file and its parsed document during a change.
struct Edited<'a> {
    path: &'a Path,
    text: String,
    document: DocumentMut,
}

impl<'a> Edited<'a> {
    fn open(path: &'a Path) -> Result<Self, EditError> {
        let text = file::read(path)?.unwrap_or_default();
        let inside = file::without_mark(&text);
        let document = inside.parse::<DocumentMut>().map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            file::syntax(path, inside, at, error.message())
        })?;
        Ok(Self {
            path,
            text,
            document,
        })
    }

    fn change(
        self,
        change: impl FnOnce(&mut DocumentMut) -> Result<(), Blocked>,
    ) -> Result<(), EditError> {
        let Self {
            path,
            text,
            mut document,
        } = self;
        change(&mut document).map_err(|Blocked(key)| EditError::NotATable {
            file: path.to_owned(),
            key,
        })?;
        let new = in_style_of(&text, document.to_string());
        if new == text {
            return Ok(());
        }
        file::replace(path, &new).map_err(|source| EditError::Unwritable {
            file: path.to_owned(),
            source,
        })
    }
}

/// The path of a value where a table is expected.
struct Blocked(KeyPath);

/// Returns the table that contains a key, creating missing tables, and the key's name in it.
fn holder<'a>(
    table: &'a mut dyn TableLike,
    key: &KeyPath,
) -> Result<(String, &'a mut dyn TableLike), Blocked> {
    let mut table = table;
    let mut inline = false;
    let mut path = KeyPath::root();
    let Some((last, folders)) = key.segments().split_last() else {
        return Err(Blocked(path));
    };
    for segment in folders {
        let name = written_name(table, path.segments(), segment);
        path = path.join(segment);
        let item = table.entry(&name).or_insert_with(|| new_table(inline));
        inline = item.is_inline_table();
        table = item
            .as_table_like_mut()
            .ok_or_else(|| Blocked(path.clone()))?;
    }
    let name = written_name(table, folders, last);
    Ok((name, table))
}

fn new_table(inline: bool) -> Item {
    if inline {
        return Item::Value(InlineTable::new().into());
    }
    let mut table = Table::new();
    // The table gets no header of its own unless it gets a value.
    table.set_implicit(true);
    Item::Table(table)
}

/// Returns the spelling that the file uses, or else the canonical one.
fn written_name(table: &dyn TableLike, above: &[String], segment: &str) -> String {
    let top: &Shape = &SHAPE;
    let shape = above
        .iter()
        .try_fold(top, |shape, segment| shape.below(segment));
    let names = table.iter().map(|(name, _)| name);
    names
        .filter(|name| check::stands_for(shape, above, name, segment))
        .min_by_key(|name| *name != segment)
        .unwrap_or(segment)
        .to_owned()
}

/// Restores the line endings and the byte order mark of the old text.
fn in_style_of(old: &str, new: String) -> String {
    let windows = old.contains("\r\n") && old.matches('\n').count() == old.matches("\r\n").count();
    let new = if windows {
        new.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        new
    };
    let mark = &old[..old.len() - file::without_mark(old).len()];
    format!("{mark}{}", file::without_mark(&new))
}

fn editable(value: &Value) -> toml_edit::Value {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Boolean(value) => (*value).into(),
        Value::Datetime(time) => (*time).into(),
        Value::Array(items) => toml_edit::Array::from_iter(items.iter().map(editable)).into(),
        Value::Table(table) => {
            let fields = table.iter().map(|(name, value)| (name, editable(value)));
            InlineTable::from_iter(fields).into()
        }
    }
}
