//! Error responses of all vendors, and their classification.

use std::time::{Duration, SystemTime};

use serde_json::json;
use sortie_core::ports::model::Fault;
use sortie_wire::{RefusedReply, bounds, classify};

use crate::support::dialect;

/// The clock of the tests differs widely from that of the provider.
const NOW: SystemTime = SystemTime::UNIX_EPOCH;

fn fault(status: u16, retry_after: Option<&str>, body: &str) -> (Fault, String) {
    let refusal = RefusedReply {
        status,
        retry_after,
        date: None,
        now: NOW,
        retry_after_ms: None,
        body: body.as_bytes(),
    };
    let error = classify(&dialect(json!({"vendor": "acme"})), &refusal);
    assert!(!error.shown);
    (error.fault, error.message)
}

fn check(status: u16, body: &str, expected: Fault) {
    let (fault, message) = fault(status, None, body);
    assert_eq!(fault, expected, "{status} {body}\n{message}");
    assert!(message.starts_with("acme: "), "{message}");
    assert!(!message.contains('\n'), "{message}");
    assert!(
        message.chars().count() <= bounds::MESSAGE_CHARS,
        "{message}"
    );
}

const RATE: Fault = Fault::RateLimited {
    retry_after_ms: None,
};

#[test]
fn keys_and_accounts() {
    for (status, body) in [
        (
            401,
            r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
        ),
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-abc","type":"invalid_request_error","code":"invalid_api_key"}}"#,
        ),
        (
            403,
            r#"{"type":"error","error":{"type":"permission_error","message":"no"}}"#,
        ),
        (403, ""),
        (
            400,
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#,
        ),
        (
            402,
            r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        ),
        (
            429,
            r#"{"error":{"message":"Your account is suspended","type":"exceeded_current_quota_error"}}"#,
        ),
        (429, r#"{"error":{"code":"1113","message":"余额不足"}}"#),
        (
            402,
            r#"{"error":{"code":402,"message":"Insufficient credits. Add more"}}"#,
        ),
    ] {
        check(status, body, Fault::Auth);
    }
}

#[test]
fn histories_that_are_too_long() {
    for (status, body) in [
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213034 tokens > 200000 maximum"}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"}}"#,
        ),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens","type":"BadRequestError","code":400}"#,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}"#,
        ),
        (
            500,
            r#"{"error":"input length exceeds maximum context length"}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":"3051"}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        ),
        (
            413,
            r#"{"error":{"message":"Request too large for model `x` in organization on tokens per minute (TPM): Limit 6000, Requested 7000","type":"tokens","code":"rate_limit_exceeded"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Range of input length should be [1, 129024]","code":"invalid_parameter_error"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 131072","type":"invalid_request_error"}}"#,
        ),
        (
            400,
            r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}"#,
        ),
        (400, r#"{"error":{"code":"1261","message":"Prompt 超长"}}"#),
        (413, "<html>413 Request Entity Too Large</html>"),
    ] {
        check(status, body, Fault::ContextOverflow);
    }
}

#[test]
fn filters() {
    for (status, body) in [
        (
            400,
            r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"rejected","type":"image_generation_user_error","code":"content_policy_violation"}}"#,
        ),
        (
            400,
            r#"{"error":{"code":"data_inspection_failed","message":"Input data may contain inappropriate content."}}"#,
        ),
        (
            400,
            r#"{"code":"DataInspectionFailed","message":"Output data may contain inappropriate content.","request_id":"1"}"#,
        ),
        (
            400,
            r#"{"error":{"code":"1301","message":"系统检测到输入或生成内容可能包含不安全或敏感内容"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Content Exists Risk","type":"invalid_request_error"}}"#,
        ),
        (
            400,
            r#"{"error":{"type":"content_filter","message":"The request was rejected because it was considered high risk"}}"#,
        ),
        (
            403,
            r#"{"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["violence"]}}}"#,
        ),
    ] {
        check(status, body, Fault::ContentFilter);
    }
}

#[test]
fn rates_servers_and_the_rest() {
    for (status, body, expected) in [
        (429, "", RATE),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"Number of requests has exceeded"}}"#,
            RATE,
        ),
        (
            429,
            r#"{"error":{"code":"1302","message":"并发数过高"}}"#,
            RATE,
        ),
        (
            429,
            r#"{"error":{"code":"1305","message":"频率过高"}}"#,
            RATE,
        ),
        (
            200,
            r#"{"error":{"code":"1302","message":"并发数过高"}}"#,
            RATE,
        ),
        (
            429,
            r#"{"error":{"type":"engine_overloaded_error","message":"overloaded"}}"#,
            Fault::Transient,
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Fault::Transient,
        ),
        (
            500,
            r#"{"error":{"message":"The server had an error","type":"server_error"}}"#,
            Fault::Transient,
        ),
        (502, "<html>Bad Gateway</html>", Fault::Transient),
        (
            503,
            r#"[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]"#,
            Fault::Transient,
        ),
        (408, "", Fault::Transient),
        (409, "", Fault::Transient),
        (504, "upstream timed out", Fault::Transient),
        (
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}"#,
            Fault::BadRequest,
        ),
        (
            404,
            r#"{"error":"model \"nope\" not found, try pulling it first"}"#,
            Fault::BadRequest,
        ),
        (
            400,
            r#"{"error":{"message":"Unknown parameter: 'foo'","type":"invalid_request_error"}}"#,
            Fault::BadRequest,
        ),
        (
            422,
            r#"{"detail":[{"type":"missing","loc":["body"],"msg":"Field required"}]}"#,
            Fault::BadRequest,
        ),
        (418, "teapot", Fault::BadRequest),
    ] {
        check(status, body, expected);
    }
}

#[test]
fn waits() {
    let wait = |retry_after, body: &str| match fault(429, retry_after, body).0 {
        Fault::RateLimited { retry_after_ms } => retry_after_ms,
        Fault::Transient
        | Fault::Auth
        | Fault::ContextOverflow
        | Fault::ContentFilter
        | Fault::BadRequest
        | Fault::TextCall { .. }
        | Fault::Cancelled => panic!("not a rate limit: {body}"),
    };
    let message = |message: &str| {
        format!(r#"{{"error":{{"message":"{message}","code":"rate_limit_exceeded"}}}}"#)
    };
    for (retry_after, body, expected) in [
        (Some("7"), String::new(), Some(7000)),
        (Some("0.5"), String::new(), Some(500)),
        (Some("Wed, 21 Oct 2026 07:28:00 GMT"), String::new(), Some(86_400_000)),
        (Some("-3"), String::new(), None),
        (Some("1e300"), String::new(), Some(86_400_000)),
        (Some("999999999"), String::new(), Some(86_400_000)),
        (Some("NaN"), String::new(), None),
        (None, message("Rate limit reached. Please try again in 1.2s. Visit"), Some(1200)),
        (None, message("Please try again in 350ms."), Some(350)),
        (None, message("Please try again in 6m0s."), Some(360_000)),
        (None, message("Please try again in 1m30.5s."), Some(90_500)),
        (None, message("Please retry after 13 seconds."), Some(13_000)),
        (None, message("Please retry in 13.52s."), Some(13_520)),
        (None, message("Please try again in a moment."), None),
        (Some("2"), message("Please try again in 9s."), Some(2000)),
        (None, r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"13s"}]}}"#.to_owned(), Some(13_000)),
    ] {
        assert_eq!(wait(retry_after, &body), expected, "{retry_after:?} {body}");
    }
    let exact = RefusedReply {
        status: 429,
        retry_after: Some("9"),
        date: None,
        now: NOW,
        retry_after_ms: Some("250"),
        body: b"",
    };
    assert_eq!(
        classify(&dialect(json!({})), &exact).fault,
        Fault::RateLimited {
            retry_after_ms: Some(250)
        }
    );
}

#[test]
fn a_date_in_retry_after_is_a_wait_from_now() {
    // 1994-11-06 08:49:37
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    for header in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ] {
        for (date, now) in [
            (None, until - Duration::from_secs(20)),
            (Some("Sun, 06 Nov 1994 08:49:17 GMT"), NOW),
        ] {
            let refusal = RefusedReply {
                status: 429,
                retry_after: Some(header),
                date,
                now,
                retry_after_ms: None,
                body: b"",
            };
            assert_eq!(
                classify(&dialect(json!({})), &refusal).fault,
                Fault::RateLimited {
                    retry_after_ms: Some(20_000)
                },
                "{header} {date:?}"
            );
        }
    }
}

#[test]
fn messages_name_the_vendor_the_problem_and_the_next_step() {
    for (status, body, expected) in [
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-proj-abcdefghijklmnop.\nFind yours.","code":"invalid_api_key"}}"#,
            "acme: Incorrect API key provided: [redacted]. Find yours (set a key of this provider that may use this model)",
        ),
        (
            404,
            r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
            "acme: The model `x` does not exist (no such model or address; check the model's name and the base URL)",
        ),
        (
            500,
            "",
            "acme: no reason given, status 500 (a retry may help)",
        ),
        (
            502,
            "<html>secret</html>",
            "acme: a web page instead of an error message (a retry may help)",
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"tools are not supported","provider_name":"X"}}}"#,
            "acme: Provider returned error: tools are not supported (the provider rejects this request; check the model's settings)",
        ),
    ] {
        assert_eq!(fault(status, None, body).1, expected);
    }
    let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "长".repeat(5000));
    check(400, &long, Fault::BadRequest);
    let endless = "x".repeat(bounds::ERROR_BODY_BYTES * 2);
    check(500, &endless, Fault::Transient);
}
