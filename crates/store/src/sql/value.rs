//! Values that statements bind and rows contain, the same for every database.
//!
//! Booleans are the integers 0 and 1. A parameter knows its kind even if it is null: PostgreSQL
//! needs the type of every parameter to prepare a statement.

use std::borrow::Cow;

use crate::fault::{Done, Fault};

/// A value of a column or a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Blob(&'a [u8]),
}

/// A value that outlives its row, for comparisons.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OwnedValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Real,
    Text,
    Blob,
}

/// A type whose values are never null.
pub(crate) trait Scalar {
    const KIND: Kind;
    fn scalar(&self) -> Value<'_>;
}

/// A parameter of a statement.
pub(crate) trait Bind {
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "only PostgreSQL needs the types of parameters")
    )]
    fn kind(&self) -> Kind;
    fn value(&self) -> Value<'_>;
}

impl<T: Scalar> Bind for T {
    fn kind(&self) -> Kind {
        T::KIND
    }

    fn value(&self) -> Value<'_> {
        self.scalar()
    }
}

impl<T: Scalar> Bind for Option<T> {
    fn kind(&self) -> Kind {
        T::KIND
    }

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Scalar::scalar)
    }
}

impl<T: Scalar + ?Sized> Scalar for &T {
    const KIND: Kind = T::KIND;

    fn scalar(&self) -> Value<'_> {
        (**self).scalar()
    }
}

macro_rules! scalar {
    ($($type:ty: $kind:ident($this:ident) = $value:expr;)+) => {
        $(impl Scalar for $type {
            const KIND: Kind = Kind::$kind;

            fn scalar(&self) -> Value<'_> {
                let $this = self;
                Value::$kind($value)
            }
        })+
    };
}

scalar! {
    i64: Integer(number) = *number;
    u32: Integer(number) = i64::from(*number);
    u16: Integer(number) = i64::from(*number);
    u8: Integer(number) = i64::from(*number);
    bool: Integer(truth) = i64::from(*truth);
    f64: Real(number) = *number;
    str: Text(text) = text;
    String: Text(text) = text;
    Cow<'_, str>: Text(text) = text;
    [u8]: Blob(bytes) = bytes;
    Vec<u8>: Blob(bytes) = bytes;
    [u8; 32]: Blob(bytes) = bytes;
}

/// The parameters of a statement, in order.
pub(crate) trait Params {
    fn count(&self) -> usize;
    fn at(&self, position: usize) -> Option<&dyn Bind>;
}

impl Params for () {
    fn count(&self) -> usize {
        0
    }

    fn at(&self, _position: usize) -> Option<&dyn Bind> {
        None
    }
}

impl<T: Bind, const N: usize> Params for [T; N] {
    fn count(&self) -> usize {
        N
    }

    fn at(&self, position: usize) -> Option<&dyn Bind> {
        self.get(position).map(|value| value as &dyn Bind)
    }
}

impl<const N: usize> Params for &[&dyn Bind; N] {
    fn count(&self) -> usize {
        N
    }

    fn at(&self, position: usize) -> Option<&dyn Bind> {
        self.get(position).copied()
    }
}

impl Params for &[&dyn Bind] {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&self, position: usize) -> Option<&dyn Bind> {
        self.get(position).copied()
    }
}

impl Params for &[Box<dyn Bind>] {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&self, position: usize) -> Option<&dyn Bind> {
        self.get(position).map(AsRef::as_ref)
    }
}

/// Lists parameters of different types.
macro_rules! params {
    ($($value:expr),+ $(,)?) => {
        &[$(&$value as &dyn $crate::sql::Bind),+]
    };
}

pub(crate) use params;

/// A type that is read from a column.
pub(crate) trait FromValue: Sized {
    fn from_value(value: Value<'_>) -> Done<Self>;
}

impl FromValue for i64 {
    fn from_value(value: Value<'_>) -> Done<Self> {
        let Value::Integer(number) = value else {
            return Err(mismatch("an integer", value));
        };
        Ok(number)
    }
}

macro_rules! from_integer {
    ($($type:ty),+) => {
        $(impl FromValue for $type {
            fn from_value(value: Value<'_>) -> Done<Self> {
                let number = i64::from_value(value)?;
                Self::try_from(number).map_err(|error| Fault::Broken(Box::new(error)))
            }
        })+
    };
}

from_integer!(u8, u32);

impl FromValue for bool {
    fn from_value(value: Value<'_>) -> Done<Self> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl FromValue for f64 {
    fn from_value(value: Value<'_>) -> Done<Self> {
        if let Value::Real(number) = value {
            return Ok(number);
        }
        // A sum without fractions is an integer in SQLite.
        let Value::Integer(number) = value else {
            return Err(mismatch("a number", value));
        };
        #[expect(clippy::cast_precision_loss, reason = "costs are far below 2^53")]
        Ok(number as f64)
    }
}

impl FromValue for String {
    fn from_value(value: Value<'_>) -> Done<Self> {
        let Value::Text(text) = value else {
            return Err(mismatch("text", value));
        };
        Ok(text.to_owned())
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: Value<'_>) -> Done<Self> {
        let Value::Blob(bytes) = value else {
            return Err(mismatch("bytes", value));
        };
        Ok(bytes.to_owned())
    }
}

impl FromValue for [u8; 32] {
    fn from_value(value: Value<'_>) -> Done<Self> {
        let Value::Blob(bytes) = value else {
            return Err(mismatch("32 bytes", value));
        };
        Self::try_from(bytes).map_err(|error| Fault::Broken(Box::new(error)))
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value<'_>) -> Done<Self> {
        if value == Value::Null {
            return Ok(None);
        }
        T::from_value(value).map(Some)
    }
}

impl FromValue for OwnedValue {
    fn from_value(value: Value<'_>) -> Done<Self> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer(number),
            Value::Real(number) => Self::Real(number),
            Value::Text(text) => Self::Text(text.to_owned()),
            Value::Blob(bytes) => Self::Blob(bytes.to_owned()),
        })
    }
}

pub(crate) fn mismatch(expected: &str, found: Value<'_>) -> Fault {
    let found = match found {
        Value::Null => "null",
        Value::Integer(_) => "an integer",
        Value::Real(_) => "a number",
        Value::Text(_) => "text",
        Value::Blob(_) => "bytes",
    };
    Fault::Broken(format!("a column contains {found}, and {expected} was expected").into())
}
