//! Looks up a message and inserts its arguments.

use std::sync::LazyLock;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::types::FluentNumber;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue};
use sortie_core::words::Lang;
use unic_langid::LanguageIdentifier;

use crate::Arg;

/// Default number of decimals.
const DEFAULT_MAX_DECIMALS: usize = 3;

/// Upper limit of decimals, independent of the message.
const MAX_DECIMALS: usize = 20;

/// An embedded message file.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub name: &'static str,
    /// Content of the file.
    pub ftl: &'static str,
}

macro_rules! source {
    ($name:literal) => {
        Source {
            name: $name,
            ftl: include_str!(concat!("../messages/", $name)),
        }
    };
}

/// Messages of the runtime and of the command line are in separate files; ids are unique over both.
const ENGLISH: &[Source] = &[source!("en.ftl"), source!("cli.en.ftl")];
const CHINESE: &[Source] = &[source!("zh.ftl"), source!("cli.zh.ftl")];

type Bundle = FluentBundle<FluentResource>;

static ENGLISH_BUNDLE: LazyLock<Bundle> = LazyLock::new(|| build(Lang::En));
static CHINESE_BUNDLE: LazyLock<Bundle> = LazyLock::new(|| build(Lang::Zh));

/// Returns the embedded message files of a language.
pub const fn sources(lang: Lang) -> &'static [Source] {
    match lang {
        Lang::En => ENGLISH,
        Lang::Zh => CHINESE,
    }
}

/// Returns a message in a language.
///
/// A message that the language lacks is returned in English; an unknown id is returned in angle
/// brackets. A missing argument appears as `{$name}`. Tests reject all three.
pub fn text(lang: Lang, id: &str, args: &[(&str, Arg<'_>)]) -> String {
    let args: FluentArgs<'_> = args
        .iter()
        .map(|(name, value)| (*name, value.to_fluent()))
        .collect();
    format_in(bundle(lang), id, &args)
        .or_else(|| format_in(bundle(Lang::En), id, &args))
        .unwrap_or_else(|| format!("<{id}>"))
}

/// Returns the language of a locale such as `zh_CN.UTF-8`: Chinese, otherwise English.
pub fn lang_from(locale: Option<&str>) -> Lang {
    let language = locale
        .unwrap_or_default()
        .trim_start()
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .next()
        .unwrap_or_default();
    if language.eq_ignore_ascii_case("zh") {
        Lang::Zh
    } else {
        Lang::En
    }
}

fn bundle(lang: Lang) -> &'static Bundle {
    match lang {
        Lang::En => &ENGLISH_BUNDLE,
        Lang::Zh => &CHINESE_BUNDLE,
    }
}

/// Broken entries and duplicate ids are skipped, not fatal: a test rejects both.
fn build(lang: Lang) -> Bundle {
    // Both identifiers are valid; an invalid one would be the undetermined language.
    let language: LanguageIdentifier = lang.as_str().parse().unwrap_or_default();
    let mut bundle = Bundle::new_concurrent(vec![language]);
    // Isolation marks would appear in terminals, logs and prompts.
    bundle.set_use_isolating(false);
    bundle.set_formatter(Some(written));
    // Fails only if the bundle has the functions already.
    bundle.add_builtins().ok();
    for source in sources(lang) {
        let resource = match FluentResource::try_new(source.ftl.to_owned()) {
            Ok(resource) | Err((resource, _)) => resource,
        };
        bundle.add_resource(resource).ok();
    }
    bundle
}

fn format_in(bundle: &Bundle, id: &str, args: &FluentArgs<'_>) -> Option<String> {
    let pattern = bundle.get_message(id)?.value()?;
    // The only error is a missing argument; the text shows its name instead.
    let mut problems = Vec::new();
    let text = bundle.format_pattern(pattern, Some(args), &mut problems);
    Some(text.into_owned())
}

/// Formats numbers as `NUMBER` specifies: the Rust implementation of Fluent omits separators
/// and the limit of decimals.
fn written<M>(value: &FluentValue<'_>, _memoizer: &M) -> Option<String> {
    let FluentValue::Number(number) = value else {
        return None;
    };
    Some(write_number(number))
}

fn write_number(number: &FluentNumber) -> String {
    let options = &number.options;
    let least = options
        .minimum_fraction_digits
        .unwrap_or(0)
        .min(MAX_DECIMALS);
    let most = options
        .maximum_fraction_digits
        .unwrap_or(DEFAULT_MAX_DECIMALS)
        .clamp(least, MAX_DECIMALS);
    let digits = format!("{:.most$}", number.value.abs());
    let (whole, decimals) = digits.split_once('.').unwrap_or((&digits, ""));
    let decimals = without_trailing_zeros(decimals, least);
    let whole = if options.use_grouping {
        grouped(whole)
    } else {
        whole.to_owned()
    };
    // A number that rounds to zero has no sign.
    let is_zero = !digits.contains(|digit: char| ('1'..='9').contains(&digit));
    let sign = if number.value < 0.0 && !is_zero {
        "-"
    } else {
        ""
    };
    let point = if decimals.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{decimals}")
}

fn without_trailing_zeros(decimals: &str, least: usize) -> &str {
    let needed = decimals.trim_end_matches('0').len().max(least);
    decimals.get(..needed).unwrap_or(decimals)
}

fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
