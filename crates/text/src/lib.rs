//! All messages for people, and those of the runtime for models, in English and Chinese.
//!
//! The messages are in `messages/*.ftl`; code refers to them by id through [`t!`] or [`text`]. Tests check ids,
//! languages and variables over the sources of
//! the whole workspace. [`truncate_columns`] and its
//! neighbours prepare text for terminals.

mod arg;
mod columns;
mod message;
mod outcome;

pub use arg::Arg;
pub use columns::{columns, one_line, pad_columns, strip_sequences, truncate_columns};
pub use message::{Source, lang_from, sources, text};
pub use outcome::outcome_error;
pub use sortie_base::truncate::{first_chars, truncate_middle};
pub use sortie_core::words::Lang;

/// Returns a message: `t!(lang, "answer-given", label = label)`.
#[macro_export]
macro_rules! t {
    ($lang:expr, $id:expr $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::text($lang, $id, &[$((stringify!($name), $crate::Arg::from($value))),*])
    };
}
