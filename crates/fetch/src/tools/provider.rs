//! Who can be asked to search: data, and nothing else.

/// The providers of searches.
pub const PROVIDERS: [Provider; 4] = [
    Provider {
        name: "brave",
        base: Some("https://api.search.brave.com"),
        path: "/res/v1/web/search",
        asks: Asks::Query {
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
        asks: Asks::Body {
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
        asks: Asks::Query {
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
        asks: Asks::Query {
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
            // Its links lead through itself and name the real one in this parameter.
            wrapped_in: "uddg",
        },
    },
];

/// One provider.
#[derive(Clone, Copy, Debug)]
pub struct Provider {
    pub(crate) name: &'static str,
    /// Where it is; `None` where everybody has their own.
    pub(crate) base: Option<&'static str>,
    pub(crate) path: &'static str,
    pub(crate) asks: Asks,
    pub(crate) key: Option<KeyHeader>,
    pub(crate) max_count: usize,
    pub(crate) answers: Answers,
}

/// How a question is put.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asks {
    /// In the query of a GET.
    Query {
        query: &'static str,
        count: Option<&'static str>,
        fixed: &'static [(&'static str, &'static str)],
    },
    /// In the JSON of a POST.
    Body {
        query: &'static str,
        count: &'static str,
    },
}

/// How a key is sent: always in a header, as URLs are logged everywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHeader {
    pub(crate) name: &'static str,
    pub(crate) prefix: &'static str,
    pub(crate) needed: bool,
}

/// Where the results are in an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answers {
    /// A list at a JSON pointer, and fields of its items.
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
    /// The provider of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        static TABLE: [Provider; 4] = PROVIDERS;
        TABLE.iter().find(|provider| provider.name == name)
    }

    /// Its name in settings.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it answers only to those with a key.
    pub fn needs_key(&self) -> bool {
        self.key.is_some_and(|key| key.needed)
    }

    /// Whether settings have to say where it is.
    pub fn needs_base_url(&self) -> bool {
        self.base.is_none()
    }
}
