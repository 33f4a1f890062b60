//! What comes out for given ids, languages and arguments.

use sortie_core::run::{Cancellation, CancelledBy, Outcome, Reason};
use sortie_text::{Arg, Lang, lang_from, outcome_error, t, text};

fn check(rendered: impl AsRef<str>, expected: &str) {
    assert_eq!(rendered.as_ref(), expected);
}

#[test]
fn the_contracts_are_kept_to_the_letter() {
    for lang in Lang::ALL {
        let rendered = t!(
            *lang,
            "spawn-unknown-agent",
            name = "x",
            known = "code, explore"
        );
        check(
            rendered.lines().next().unwrap(),
            "Error: Unknown agent type 'x'",
        );
        assert!(rendered.contains("code, explore"), "{rendered}");
    }
    check(
        t!(
            Lang::En,
            "announce-header",
            label = "代码",
            status = t!(Lang::En, "announce-completed")
        ),
        "[Subagent '代码' completed; ready for your review]",
    );
    check(
        t!(
            Lang::Zh,
            "announce-header",
            label = "代码",
            status = t!(Lang::Zh, "announce-completed")
        ),
        "[子 Agent '代码' 已完成，请查看]",
    );
}

#[test]
fn numbers_are_counted_and_written_for_readers() {
    let closing = |lang, tools: u32, seconds: &str, tokens: u64| {
        t!(
            lang,
            "task-closing",
            agent = "explore",
            id = "0190f3a8",
            tools = tools,
            seconds = seconds,
            tokens = tokens,
        )
    };
    check(
        closing(Lang::En, 5, "3.2", 1234),
        r#"[agent explore, id 0190f3a8, 5 tool calls, 3.2 s, 1,234 tokens; pass resume="0190f3a8" to continue it]"#,
    );
    check(
        closing(Lang::En, 1, "1200.0", 1),
        r#"[agent explore, id 0190f3a8, 1 tool call, 1200.0 s, 1 tokens; pass resume="0190f3a8" to continue it]"#,
    );
    check(
        closing(Lang::Zh, 1, "0.0", 1_234_567),
        r#"[Agent explore，ID 0190f3a8，1 次工具调用，0.0 秒，token 数：1,234,567；传入 resume="0190f3a8" 可让它接着做]"#,
    );
    check(
        t!(Lang::En, "spawn-too-deep", max = 0_u32),
        "Error: subagents are switched off at this depth. Do this part of the work yourself.",
    );
    check(
        t!(Lang::Zh, "spawn-too-deep", max = 0_u32),
        "错误：这一层不能启动子 Agent。请自己完成这部分工作。",
    );
}

#[test]
fn no_number_makes_a_message_panic_or_lie() {
    let check = |count: Arg<'_>, expected: &str| {
        let rendered = text(Lang::En, "announce-cut", &[("count", count)]);
        check(rendered, &format!("[{expected} left out at \"…\"]"));
    };
    check(0_u64.into(), "0 characters");
    check(1_u8.into(), "1 character");
    check((-1_i64).into(), "-1 character");
    check((1_u64 << 53).into(), "9,007,199,254,740,992 characters");
    check(u64::MAX.into(), "18446744073709551615 characters");
    check(i64::MIN.into(), "-9223372036854775808 characters");
    check(usize::MAX.into(), &format!("{} characters", usize::MAX));
    check(0.5.into(), "0.5 characters");
    check(0.12345.into(), "0.123 characters");
    check((-0.00001).into(), "0 characters");
    check(1.0e-300.into(), "0 characters");
    check(1.0e17.into(), "100000000000000000 characters");
    check(f64::NAN.into(), "NaN characters");
    check(f64::NEG_INFINITY.into(), "-inf characters");
    check("many".into(), "many characters");
}

#[test]
fn missing_messages_and_arguments_are_visible_and_never_panic() {
    check(text(Lang::Zh, "no-such-key", &[]), "<no-such-key>");
    check(text(Lang::En, "", &[]), "<>");
    check(
        text(Lang::En, "announce-pending", &[])
            .split('.')
            .next()
            .unwrap(),
        "Still running: {$list}",
    );
    check(
        t!(Lang::En, "fail-empty", surplus = "x"),
        &text(Lang::En, "fail-empty", &[]),
    );
}

#[test]
fn arguments_are_data_and_are_not_read_as_messages() {
    check(
        t!(
            Lang::En,
            "announce-header",
            label = "{ $status } \u{2068}",
            status = "a\n  [b]\n* c"
        ),
        "[Subagent '{ $status } \u{2068}' a\n  [b]\n* c]",
    );
    check(
        t!(
            Lang::En,
            "notice-steer-person",
            text = "line 1\n    line 2".to_owned()
        ),
        "[Added by a person] Take this into account from now on:\nline 1\n    line 2",
    );
}

#[test]
fn messages_of_several_lines_keep_their_shape() {
    check(
        t!(Lang::En, "prompt-workspace", path = "/srv/app"),
        "# Workspace\nYou work in /srv/app. Relative paths start there.",
    );
    check(t!(Lang::Zh, "prompt-agents"), "# 可以派出的 Agent");
    check(
        t!(
            Lang::Zh,
            "call-bad-arguments",
            tool = "grep",
            errors = "/pattern: 缺少"
        ),
        "错误：参数不符合 grep 的要求，没有执行任何操作：\n/pattern: 缺少\n请更正后重新调用。",
    );
}

#[test]
fn a_locale_selects_the_language() {
    let cases = [
        (Some("zh_CN.UTF-8"), Lang::Zh),
        (Some("zh"), Lang::Zh),
        (Some("zh-Hans-SG"), Lang::Zh),
        (Some("ZH_TW"), Lang::Zh),
        (Some("zh.utf8"), Lang::Zh),
        (Some("zh_CN:en_US"), Lang::Zh),
        (Some("en_US.UTF-8"), Lang::En),
        (Some("en:zh"), Lang::En),
        (Some("zha_CN"), Lang::En),
        (Some("zhongwen"), Lang::En),
        (Some("C.UTF-8"), Lang::En),
        (Some("POSIX"), Lang::En),
        (Some("_zh"), Lang::En),
        (Some("中文"), Lang::En),
        (Some(""), Lang::En),
        (None, Lang::En),
    ];
    for (locale, expected) in cases {
        assert_eq!(lang_from(locale), expected, "{locale:?}");
    }
}

#[test]
fn an_outcome_is_a_sentence_in_each_language() {
    let timeout = Outcome::Timeout {
        limit_ms: 90_500,
        partial: None,
    };
    let cancelled = |by| Outcome::Cancelled {
        cancellation: Cancellation {
            by,
            reason: "not needed".to_owned(),
        },
        partial: None,
    };
    let failed = Outcome::Failed {
        reason: Reason::EmptyResult,
        message: "原文".to_owned(),
        partial: None,
    };
    let rendered = |lang, outcome: &Outcome| outcome_error(lang, outcome).unwrap();
    check(
        rendered(Lang::En, &timeout),
        "It exceeded its deadline of 90.5 s.",
    );
    check(
        rendered(Lang::Zh, &timeout),
        "已超过期限：给它的时间是 90.5 秒。",
    );
    check(
        rendered(Lang::En, &cancelled(CancelledBy::Person)),
        "Cancelled by a person: not needed",
    );
    check(
        rendered(Lang::Zh, &cancelled(CancelledBy::Parent)),
        "已被启动它的 Agent 取消：not needed",
    );
    check(
        rendered(Lang::En, &cancelled(CancelledBy::ParentEnded)),
        "Cancelled because the run that started it ended: not needed",
    );
    check(rendered(Lang::En, &failed), "原文");
    assert_eq!(
        outcome_error(
            Lang::En,
            &Outcome::Completed {
                text: String::new(),
                checked: None,
            }
        ),
        None
    );
}
