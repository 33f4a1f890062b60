//! The help and the errors of the command line in Chinese.
//!
//! The doc comments of the commands are the English help. For a Chinese user, their translations
//! replace them before clap prints anything; what has none stays English, and a test finds it.

use std::collections::HashMap;
use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use sortie::Environment;
use sortie_core::words::Lang;
use sortie_text::lang_from;

use crate::settings::locale;

/// Pairs of lines, English and Chinese, separated by empty lines.
const TRANSLATIONS: &str = include_str!("help.zh.txt");
/// The template of clap with a Chinese heading.
const TEMPLATE: &str = "{about-with-newline}\n用法：{usage}\n\n{all-args}{after-help}";

/// Returns the language of the help: that of `--lang`, else that of the environment.
pub(crate) fn language(words: &[OsString], environment: &Environment) -> Lang {
    let mut words = words.iter().filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        let named = match word.strip_prefix("--lang=") {
            Some(named) => Some(named),
            None if word == "--lang" => words.next(),
            None if word == "--" => break,
            None => None,
        };
        if let Some(lang) = named.and_then(|named| named.parse().ok()) {
            return lang;
        }
    }
    lang_from(locale(environment))
}

/// Returns the command line with help in a language.
pub(crate) fn localized(mut command: Command, lang: Lang) -> Command {
    match lang {
        Lang::En => command,
        Lang::Zh => {
            // Adds the flags and commands that clap makes itself.
            command.build();
            Translator::new().command(command)
        }
    }
}

/// The translations, by the English text without its last full stop.
struct Translator(HashMap<&'static str, &'static str>);

impl Translator {
    fn new() -> Self {
        let pairs = TRANSLATIONS.split("\n\n").filter_map(|pair| {
            let (english, chinese) = pair.trim().split_once('\n')?;
            Some((english.trim_end_matches('.'), chinese))
        });
        Self(pairs.collect())
    }

    fn command(&self, command: Command) -> Command {
        let about = command.get_about().map(|text| self.text(text));
        let long = command.get_long_about().map(|text| self.text(text));
        let mut command = command
            .help_template(TEMPLATE)
            .subcommand_help_heading("命令")
            .mut_args(|arg| self.argument(arg))
            .mut_subcommands(|command| self.command(command));
        if let Some(about) = about {
            command = command.about(about);
        }
        if let Some(long) = long {
            command = command.long_about(long);
        }
        command
    }

    fn argument(&self, arg: Arg) -> Arg {
        let help = arg.get_help().map(|text| self.text(text));
        let long = arg.get_long_help().map(|text| self.text(text));
        let heading = match arg.get_help_heading() {
            Some(heading) => self.0.get(heading).copied(),
            None if arg.is_positional() => Some("参数"),
            None => Some("选项"),
        };
        let mut arg = match heading {
            Some(heading) => arg.help_heading(heading),
            None => arg,
        };
        if let Some(help) = help {
            arg = arg.help(help);
        }
        if let Some(long) = long {
            arg = arg.long_help(long);
        }
        arg
    }

    /// Translates a text, paragraph by paragraph.
    fn text(&self, text: &StyledStr) -> String {
        let text = text.to_string();
        let paragraphs: Vec<String> = text
            .split("\n\n")
            .map(|paragraph| self.paragraph(paragraph))
            .collect();
        paragraphs.join("\n\n")
    }

    fn paragraph(&self, english: &str) -> String {
        let line = english.split_whitespace().collect::<Vec<_>>().join(" ");
        match self.0.get(line.trim_end_matches('.')) {
            Some(chinese) if line.ends_with('.') => (*chinese).to_owned(),
            Some(chinese) => chinese.trim_end_matches('。').to_owned(),
            None => english.to_owned(),
        }
    }
}

/// Returns an error of the command line in Chinese; `None` for kinds that clap words best itself.
pub(crate) fn error_text(error: &clap::Error) -> Option<String> {
    let get = |kind| {
        let value = error.get(kind)?;
        Some(match value {
            ContextValue::Strings(texts) => texts.join("、"),
            ContextValue::None
            | ContextValue::Bool(_)
            | ContextValue::String(_)
            | ContextValue::StyledStr(_)
            | ContextValue::StyledStrs(_)
            | ContextValue::Number(_)
            | _ => value.to_string(),
        })
    };
    let argument = get(ContextKind::InvalidArg).unwrap_or_default();
    let value = get(ContextKind::InvalidValue).unwrap_or_default();
    let message = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            format!("没有命令 '{}'", get(ContextKind::InvalidSubcommand)?)
        }
        ErrorKind::UnknownArgument => format!("没有参数 '{argument}'"),
        ErrorKind::MissingRequiredArgument => format!("缺少必需的参数：{argument}"),
        ErrorKind::InvalidValue if value.is_empty() => format!("'{argument}' 需要一个值"),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            format!("'{argument}' 的值 '{value}' 无效")
        }
        ErrorKind::ArgumentConflict => {
            let other = get(ContextKind::PriorArg).unwrap_or_default();
            format!("'{argument}' 不能与 '{other}' 同时使用")
        }
        ErrorKind::NoEquals
        | ErrorKind::TooManyValues
        | ErrorKind::TooFewValues
        | ErrorKind::WrongNumberOfValues
        | ErrorKind::MissingSubcommand
        | ErrorKind::InvalidUtf8
        | ErrorKind::DisplayHelp
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::DisplayVersion
        | ErrorKind::Io
        | ErrorKind::Format
        | _ => return None,
    };
    let mut lines = vec![format!("错误：{message}")];
    if let Some(values) = get(ContextKind::ValidValue) {
        lines.push(format!("  可用的值：{values}"));
    }
    let meant = get(ContextKind::SuggestedSubcommand).or_else(|| get(ContextKind::SuggestedArg));
    if let Some(meant) = meant {
        lines.push(format!("  提示：你是指 '{meant}' 吗？"));
    }
    lines.push("更多信息请用 '--help' 查看。".to_owned());
    Some(lines.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    /// Collects every text of the help that a translation should exist for.
    fn texts(command: &Command, found: &mut Vec<String>) {
        let about = command
            .get_about()
            .into_iter()
            .chain(command.get_long_about());
        let of_arguments = command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .flat_map(|arg| arg.get_help().into_iter().chain(arg.get_long_help()));
        for text in about.chain(of_arguments) {
            found.extend(text.to_string().split("\n\n").map(str::to_owned));
        }
        for below in command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
        {
            texts(below, found);
        }
    }

    #[test]
    fn every_text_of_the_help_has_a_chinese_translation() {
        let mut command = Arguments::command();
        command.build();
        let mut found = Vec::new();
        texts(&command, &mut found);
        let translator = Translator::new();
        let mut missing: Vec<String> = found
            .into_iter()
            .filter(|text| translator.paragraph(text) == *text)
            .collect();
        missing.sort();
        missing.dedup();
        assert!(missing.is_empty(), "{}", missing.join("\n"));
    }

    #[test]
    fn the_flag_decides_the_language_before_the_environment() {
        let check = |words: &[&str], locale: &str, expected: Lang| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let environment: Environment = [("LANG", locale)].into_iter().collect();
            assert_eq!(language(&words, &environment), expected, "{words:?}");
        };
        check(&["sortie", "run"], "en_US.UTF-8", Lang::En);
        check(&["sortie", "run"], "zh_CN.UTF-8", Lang::Zh);
        check(&["sortie", "--lang", "zh", "run"], "C", Lang::Zh);
        check(&["sortie", "run", "--lang=en"], "zh_CN.UTF-8", Lang::En);
        check(&["sortie", "run", "--", "--lang=zh"], "C", Lang::En);
    }
}
