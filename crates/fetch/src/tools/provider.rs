//! The search providers, as data.

pub const PROVIDERS: [Provider; 4] = [
    Provider {
        name: "brave",
        base: Some("https://api.search.brave.com"),
        path: "/res/v1/web/search",
        query_in: QueryIn::Query {
            query: "q",
            count: Some("count"),
            fixed: &[],
        },
        key: Some(KeyHeader {
            name: "x-subscription-token",
            prefix: "",
            needed: true,
        }),
        max_count: 20,
        answers: Answers::Json {
            list: "/web/results",
            title: "title",
            url: "url",
            snippet: "description",
        },
    },
    Provider {
        name: "tavily",
        base: Some("https://api.tavily.com"),
        path: "/search",
        query_in: QueryIn::Body {
            query: "query",
            count: "max_results",
        },
        key: Some(KeyHeader {
            name: "authorization",
            prefix: "Bearer ",
            needed: true,
        }),
        max_count: 20,
        answers: Answers::Json {
            list: "/results",
            title: "title",
            url: "url",
            snippet: "content",
        },
    },
    Provider {
        name: "searxng",
        base: None,
        path: "/search",
        query_in: QueryIn::Query {
            query: "q",
            count: None,
            fixed: &[("format", "json")],
        },
        key: Some(KeyHeader {
            name: "authorization",
            prefix: "Bearer ",
            needed: false,
        }),
        max_count: 20,
        answers: Answers::Json {
            list: "/results",
            title: "title",
            url: "url",
            snippet: "content",
        },
    },
    Provider {
        name: "duckduckgo",
        base: Some("https://html.duckduckgo.com"),
        path: "/html/",
        query_in: QueryIn::Query {
            query: "q",
            count: None,
            fixed: &[],
        },
        key: None,
        max_count: 20,
        answers: Answers::Html {
            item: ".result:not(.result--ad)",
            link: "a.result__a",
            snippet: ".result__snippet",
            nothing: ".no-results",
            // Its links point to its own redirector; this parameter contains the target.
            wrapped_in: "uddg",
        },
    },
];

#[derive(Clone, Copy, Debug)]
pub struct Provider {
    pub(crate) name: &'static str,
    /// The usual address; `None` for software that operators host themselves.
    pub(crate) base: Option<&'static str>,
    pub(crate) path: &'static str,
    pub(crate) query_in: QueryIn,
    pub(crate) key: Option<KeyHeader>,
    pub(crate) max_count: usize,
    pub(crate) answers: Answers,
}

/// How the query is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueryIn {
    /// In the query string of a GET request.
    Query {
        query: &'static str,
        count: Option<&'static str>,
        fixed: &'static [(&'static str, &'static str)],
    },
    /// In the JSON body of a POST request.
    Body {
        query: &'static str,
        count: &'static str,
    },
}

/// How the key is sent: always in a header, because URLs are logged everywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHeader {
    pub(crate) name: &'static str,
    pub(crate) prefix: &'static str,
    pub(crate) needed: bool,
}

/// Where the results are in a response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answers {
    /// A list at a JSON pointer, with fields of its items.
    Json {
        list: &'static str,
        title: &'static str,
        url: &'static str,
        snippet: &'static str,
    },
    /// Elements of a page, by selectors.
    Html {
        item: &'static str,
        link: &'static str,
        snippet: &'static str,
        nothing: &'static str,
        wrapped_in: &'static str,
    },
}

impl Provider {
    /// Returns the provider of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        static TABLE: [Provider; 4] = PROVIDERS;
        TABLE.iter().find(|provider| provider.name == name)
    }

    /// Returns the name in the settings.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether the provider requires a key.
    pub fn needs_key(&self) -> bool {
        self.key.is_some_and(|key| key.needed)
    }
}
