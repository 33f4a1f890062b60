use super::*;

/// What a server says, in one line, or the sentence about what is wrong.
fn render(found: &Result<ServerConfig, String>) -> String {
    let config = match found {
        Ok(config) => config,
        Err(error) => return format!("error: {error}"),
    };
    let endpoint = match &config.endpoint {
        Endpoint::Stdio(program) => {
            let names: Vec<&str> = program.env.keys().map(String::as_str).collect();
            format!(
                "stdio {} {:?} env {names:?} cwd {:?}",
                program.command, program.args, program.cwd
            )
        }
        Endpoint::Http(address) => {
            let names: Vec<&str> = address.headers.keys().map(String::as_str).collect();
            format!("http {} headers {names:?}", address.url)
        }
    };
    format!(
        "{endpoint} {:?}/{:?} disabled {} allow {:?} deny {:?}",
        config.timeout,
        config.startup_timeout,
        config.disabled,
        config.tools.allow,
        config.tools.deny
    )
}

fn check(server: &str, expected: &str) {
    let text = format!(r#"{{"mcpServers": {{"one": {server}}}}}"#);
    let found = parse_mcp_json(&text).unwrap();
    assert_eq!(found.len(), 1);
    let seen = render(&found[0].1);
    assert!(
        seen.contains(expected),
        "{server}\n  gave     {seen}\n  expected {expected}"
    );
    assert!(!format!("{found:?}").contains("s3cret"), "{found:?}");
}

#[test]
fn shapes() {
    check(
        r#"{"command": "npx", "args": ["-y", 3], "env": {"KEY": "s3cret", "N": 1}, "cwd": "sub"}"#,
        r#"stdio npx ["-y", "3"] env ["KEY", "N"] cwd Some("sub") 60s/20s disabled false allow None deny []"#,
    );
    check(
        r#"{"type": "local", "command": ["bun", "x"], "environment": {"A": "b"}, "enabled": false}"#,
        r#"stdio bun ["x"] env ["A"] cwd None 60s/20s disabled true"#,
    );
    check(
        r#"{"type": "http", "url": "https://a.example/mcp?key=s3cret", "headers": {"Authorization": "s3cret"}}"#,
        r#"http https://a.example/mcp?key=s3cret headers ["Authorization"]"#,
    );
    check(
        r#"{"url": "https://user:s3cret@a.example/mcp"}"#,
        "http https://user:s3cret@a.example/mcp",
    );
    check(r#"{"type": "streamable-http", "url": "u"}"#, "http u");
    check(
        r#"{"httpUrl": "u", "timeout": 1500}"#,
        "http u headers [] 1.5s/20s",
    );
    check(
        r#"{"url": "u", "bearer_token_env_var": "T"}"#,
        r#"headers ["Authorization"]"#,
    );
    check(
        r#"{"url": "u", "timeout_seconds": 5, "startup_timeout_seconds": 0.5, "disabled": true, "new": {}}"#,
        "5s/500ms disabled true",
    );
    check(
        r#"{"url": "u", "tools": {"allow": [], "deny": ["x"]}, "excludeTools": ["y"]}"#,
        r#"allow Some([]) deny ["x", "y"]"#,
    );
    check(
        r#"{"url": "u", "includeTools": ["a"]}"#,
        r#"allow Some(["a"])"#,
    );
}

#[test]
fn errors_do_not_quote_values() {
    check(
        r#"{"type": "sse", "url": "https://a.example/sse"}"#,
        "`sse` transport is not supported",
    );
    check(r#"{"type": "ws", "url": "u"}"#, "its `type` does not match");
    check(
        r#"{"type": "stdio", "url": "u"}"#,
        "its `type` does not match",
    );
    check(
        r#"{"command": "a", "url": "u"}"#,
        "both `command` and `url`",
    );
    check("{}", "neither `command` nor `url`");
    check(r#"{"command": ""}"#, "`command` is empty");
    check(
        r#"{"command": "a", "env": "KEY=s3cret"}"#,
        "`env` must be an object of texts",
    );
    check(
        r#"{"command": "a", "args": "s3cret"}"#,
        "`args` must be a list of texts",
    );
    check(
        r#"{"url": "u", "timeout_seconds": 99999}"#,
        "`timeout_seconds` must be",
    );
    check(
        r#"{"url": "u", "timeout_seconds": "s3cret"}"#,
        "`timeout_seconds` must be",
    );
    check(r#"{"url": "u", "tools": ["s3cret"]}"#, "`tools` must be");
    check(r#""s3cret""#, "must be an object");
}

#[test]
fn files() {
    let names = |text: &str| -> Result<Vec<String>, String> {
        let found = parse_mcp_json(text)?;
        Ok(found.into_iter().map(|(name, _)| name).collect())
    };
    let one = || Ok(vec!["a".to_owned()]);
    assert_eq!(names(r#"{"mcpServers": {"a": {}}}"#), one());
    assert_eq!(names(r#"{"servers": {"a": {}}, "inputs": []}"#), one());
    assert_eq!(names(r#"{"a": {"command": "x"}}"#), one());
    assert_eq!(names("{}"), Ok(Vec::new()));
    assert_eq!(
        names(r#"{"mcpServers": 1}"#).unwrap_err(),
        "mcpServers must be an object of servers by name"
    );
    assert_eq!(
        names("{\n\"s3cret").unwrap_err(),
        "line 2: it is not a JSON object"
    );
    let many: Map<String, Value> = (0..65).map(|i| (i.to_string(), Value::Null)).collect();
    assert!(
        names(&Value::Object(many).to_string())
            .unwrap_err()
            .contains("more than 64")
    );
    let bad = parse_mcp_json(r#"{"mcpServers": {"a__b": {"command": "x"}}}"#).unwrap();
    assert!(
        bad[0]
            .1
            .as_ref()
            .unwrap_err()
            .contains("name of an MCP server")
    );
}

#[test]
fn rules_that_fit_no_tool_are_found() {
    let rules = ToolRules {
        allow: Some(vec!["get_*".to_owned(), "lsit".to_owned()]),
        deny: vec!["GET_ALL".to_owned(), "delete_*".to_owned()],
    };
    let found: Vec<&str> = rules
        .without_tool(["get_one", "get_all", "list"].into_iter())
        .collect();
    assert_eq!(found, ["lsit", "delete_*"]);
}

#[test]
fn deny_beats_allow() {
    let rules = |allow: Option<&[&str]>, deny: &[&str]| ToolRules {
        allow: allow.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        deny: deny.iter().map(|name| (*name).to_owned()).collect(),
    };
    for (rules, tool, expected) in [
        (rules(None, &[]), "x", true),
        (rules(Some(&[]), &[]), "x", false),
        (rules(Some(&["x"]), &["x"]), "x", false),
        (rules(Some(&["get_*"]), &["*_all"]), "get_one", true),
        (rules(Some(&["get_*"]), &["*_all"]), "get_all", false),
        // Case does not count, as in every other rule.
        (rules(None, &["Delete_Repo"]), "delete_repo", false),
        (rules(None, &["delete_*"]), "DELETE_repo", false),
        (rules(None, &["*_REPO"]), "delete_repo", false),
        (rules(Some(&["get_*"]), &[]), "Get_one", true),
    ] {
        assert_eq!(rules.permits(tool), expected, "{rules:?} {tool}");
    }
}
