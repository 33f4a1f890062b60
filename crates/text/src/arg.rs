//! What a message is filled with.

use std::borrow::Cow;

use fluent_bundle::FluentValue;

/// The largest whole number that a message can count with; Fluent counts in `f64`.
const MAX_COUNTED: u64 = 1 << 53;

/// A value that a message is filled with.
///
/// Numbers take part in plural rules and are written with thousands separators; an id, a port or
/// a year is text.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg<'a> {
    /// Written as it is.
    Text(Cow<'a, str>),
    /// Counted and formatted. Finite, at most 2^53 away from zero: the `From` impls see to it.
    Number(f64),
}

impl<'a> Arg<'a> {
    pub(crate) fn to_fluent(&'a self) -> FluentValue<'a> {
        match self {
            Self::Text(text) => FluentValue::from(text.as_ref()),
            Self::Number(number) => FluentValue::from(*number),
        }
    }

    /// Fluent's plural rules panic on what is not a plain number, so such values become text.
    fn from_float(number: f64) -> Self {
        if number.abs() <= MAX_COUNTED as f64 {
            Self::Number(number)
        } else {
            Self::Text(number.to_string().into())
        }
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<&'a String> for Arg<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Arg<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<Cow<'a, str>> for Arg<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Arg<'_> {
    fn from(number: f64) -> Self {
        Self::from_float(number)
    }
}

macro_rules! from_whole {
    ($($whole:ty),+) => {$(
        impl From<$whole> for Arg<'_> {
            fn from(number: $whole) -> Self {
                // A number beyond f64's exact range is rare enough to lose its last digits, but
                // never to be written as another number: it stays text.
                if i128::try_from(number).is_ok_and(|n| n.unsigned_abs() <= u128::from(MAX_COUNTED)) {
                    Self::Number(number as f64)
                } else {
                    Self::Text(number.to_string().into())
                }
            }
        }
    )+};
}

from_whole!(u8, u32, u64, usize, i32, i64);
