//! Arguments of messages.

use std::borrow::Cow;

use fluent_bundle::FluentValue;

/// The largest whole number in a message; Fluent uses `f64`.
const MAX_COUNTED: u64 = 1 << 53;

/// An argument of a message.
///
/// Numbers take part in plural rules and are written with thousands separators; an id, a port or
/// a year is text.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg<'a> {
    /// Text that is inserted unchanged.
    Text(Cow<'a, str>),
    /// Formatted, and used by plural rules. Finite and at most 2^53 from zero, which the `From` impls ensure.
    Number(f64),
}

impl<'a> Arg<'a> {
    pub(crate) fn to_fluent(&'a self) -> FluentValue<'a> {
        match self {
            Self::Text(text) => FluentValue::from(text.as_ref()),
            Self::Number(number) => FluentValue::from(*number),
        }
    }

    /// Fluent's plural rules panic on NaN and infinity, so such values become text.
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
